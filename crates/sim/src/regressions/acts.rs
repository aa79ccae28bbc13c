//! Administrative acts, which leave a note in the audit.

use super::disconnects::on_three_nodes;
use crate::plan::ScenarioPlan;
use fairhold_types::NodeId;
use openraft_rt::Instant as _;
use openraft_rt_sim::SimInstant;
use std::time::Duration;

/// Enough for a snapshot. A node that is cut off needs longer to give up a proposal.
const BRIEF: Duration = Duration::from_millis(200);

/// A snapshot needs no other node, but its note does.
#[test]
fn an_act_answers_at_its_deadline_while_its_note_is_on_the_way() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let leader = world.leader().unwrap();
        let alone = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let others: Vec<NodeId> = world.ids().into_iter().filter(|id| *id != alone).collect();
        let cuts: Vec<_> = others.iter().flat_map(|other| [(alone, *other), (*other, alone)]).collect();
        cuts.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        let (host, running) = (world.host(alone).unwrap(), world.running(alone).unwrap());
        let (node, applied) = (running.node.clone(), running.replica.status().applied);
        let begun = SimInstant::now();
        let answer = host.spawn(async move { node.take_snapshot(BRIEF).await }).await.unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(answer, Err(ref error) if error.is_unknown()), "{answer:?}");
        assert!(running.replica.status().snapshot >= applied, "the act is not done: {:?}", running.replica.status());
        assert!(took < BRIEF + Duration::from_millis(100), "{took:?} of {BRIEF:?}");
        cuts.iter().for_each(|(from, to)| world.net.heal(*from, *to));
    });
}

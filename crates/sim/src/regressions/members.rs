//! Changes of the members.

use super::{TIMEOUT, disconnects::on_three_nodes, put};
use crate::{conditions::Flushes, facts::Fact, plan::ScenarioPlan, world::World};
use fairhold_health::alarms::readings::MachineReading;
use fairhold_node::api::{CallError, CreateJoinTokenCall};
use fairhold_raft::{JoinToken, MemberRequest, MembershipError};
use fairhold_types::{NodeId, cluster_version::MEMBERSHIP_SINCE};
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::{ops::RangeInclusive, time::Duration};

/// How long a change of the members may take on a good network.
const CHANGED_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);
/// A flush on a slow disk, and the time of one try. A command takes at least one flush, so a try has no time for two commands.
const SLOW_FLUSH: Duration = Duration::from_millis(500);
const BRIEF_TRY: Duration = Duration::from_millis(600);
/// How long a change may take on slow disks, by brief tries.
const CHANGED_SLOWLY_WITHIN: Duration = Duration::from_secs(60);
/// Longer than the configuration of a node must differ from the members until the alarm is raised.
const ALARMED_AFTER: Duration = Duration::from_secs(90);

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = SimInstant::now();
    while !holds() {
        assert!(SimInstant::now() - begun < CHANGED_WITHIN, "{what}");
        SimRuntime::sleep(LOOK).await;
    }
}

/// Lets a new machine join at the leader, and starts its node.
async fn join(world: &World, replaces: Option<NodeId>) -> NodeId {
    let leader = world.leader().unwrap();
    let call = CreateJoinTokenCall {
        key: None,
        role: None,
        replaces,
        ttl: Some(Duration::from_secs(3_600)),
        up_to: None,
        by: "tests".to_owned(),
        timeout: TIMEOUT,
    };
    let node = world.running(leader).unwrap().node;
    let token: JoinToken = node.create_join_token(call).await.unwrap().value.token.unwrap().parse().unwrap();
    let machine = world.new_machine();
    let joined = world.ask_to_join(leader, machine.request(&token)).await.unwrap().unwrap();
    let id = joined.id;
    assert!(world.install(machine, joined));
    world.start(id);
    id
}

/// No other voter could take over from the only one, so the new node gets its vote before the old one leaves.
#[test]
fn the_only_voter_can_be_replaced() {
    on_three_nodes(&ScenarioPlan::without_faults(1), async |world| {
        put(&world.running(1).unwrap().node, "/before").await;
        world.oracle.observe(&Fact::AskedToLeave { node: 1 });
        let new = join(&world, Some(1)).await;
        wait_until("the old node ends", || world.is_retired(1)).await;
        assert_eq!((new, world.leader()), (2, Some(2)));
        put(&world.running(2).unwrap().node, "/after").await;
    });
}

/// A node that has started with a list of members keeps its command when one of them is replaced.
#[test]
fn a_member_that_was_replaced_may_stay_in_the_configuration() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let leader = world.leader().unwrap();
        let old = world.ids().into_iter().find(|id| *id != leader).unwrap();
        world.oracle.observe(&Fact::AskedToLeave { node: old });
        assert_eq!(join(&world, Some(old)).await, 4);
        wait_until("the old node ends", || world.is_retired(old)).await;
        let node = world.running(leader).unwrap().node;
        let differ = async |listed: RangeInclusive<NodeId>| {
            let machine = || MachineReading { configured_members: Some(listed.clone().collect()), ..MachineReading::default() };
            node.look_for_alarms(machine());
            SimRuntime::sleep(ALARMED_AFTER).await;
            node.look_for_alarms(machine());
            node.alarms().alarms.iter().any(|alarm| alarm.alarm == "members_differ")
        };
        assert!(!differ(1..=3).await, "node {old} was a member");
        assert!(differ(1..=5).await, "node 5 never was");
    });
}

/// A leader that is cut off does not know yet that another one leads, and that the members change without it.
#[test]
fn a_deposed_leader_does_not_list_the_members_as_the_leader() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let deposed = world.leader().unwrap();
        let others: Vec<NodeId> = world.ids().into_iter().filter(|id| *id != deposed).collect();
        let cuts: Vec<_> = others.iter().flat_map(|other| [(deposed, *other), (*other, deposed)]).collect();
        cuts.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        let leadership = |id| world.running(id).and_then(|running| running.replica.leadership());
        wait_until("another leader", || others.iter().any(|other| leadership(*other).is_some())).await;
        let led = leadership(deposed);
        let list = async |id| world.running(id).unwrap().node.members(TIMEOUT).await;
        assert!(!list(deposed).await.from_leader);
        assert_eq!((led.is_some(), leadership(deposed)), (true, led), "it still believes that it leads");
        for other in others {
            assert!(list(other).await.from_leader, "node {other}");
        }
        cuts.iter().for_each(|(from, to)| world.net.heal(*from, *to));
    });
}

/// A node that has stopped knows no leader and will never know one: it must not look for one without a pause.
#[test]
fn a_node_that_has_stopped_refuses_to_change_members_at_once() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let leader = world.leader().unwrap();
        let (host, running) = (world.host(leader).unwrap(), world.running(leader).unwrap());
        let (replica, led) = (running.replica.clone(), running.replica.leadership());
        // All of it is on the machine, which ends soon after its node: a task of another one would wait for ever.
        let changing = host.spawn(async move {
            assert_eq!(running.replica.leadership_change(led).await, None);
            let request = MemberRequest::Remove { node: 1, by: "tests".to_owned() };
            running.node.change_member(None, request, TIMEOUT).await
        });
        drop(host.spawn(async move { replica.shutdown().await }));
        let answer = SimRuntime::timeout(TIMEOUT, changing).await.expect("an answer before the machine ends");
        answer.unwrap().unwrap_err();
    });
}

/// The note about a change and the key of its request are two commands. Each try must go on where an earlier one ended: if it
/// began with the note again, no request would ever get an answer.
#[test]
fn a_change_of_a_vote_is_answered_although_no_try_has_time_for_two_commands() {
    let flushes = Flushes { at_least: SLOW_FLUSH, micros: 1_500 };
    on_three_nodes(&ScenarioPlan { flushes, ..ScenarioPlan::without_faults(3) }, async |world| {
        let leader = world.leader().unwrap();
        let learner = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let node = world.running(leader).unwrap().node;
        world.oracle.observe(&Fact::AskedToLeave { node: learner });
        let key = node.new_grant_id();
        let begun = SimInstant::now();
        loop {
            let request = MemberRequest::Demote { node: learner, key: None, by: "tests".to_owned() };
            let Err(error) = node.change_member(Some(key), request, BRIEF_TRY).await else { break };
            assert!(SimInstant::now() - begun < CHANGED_SLOWLY_WITHIN, "{error:?}");
            SimRuntime::sleep(LOOK).await;
        }
        let members = node.members(TIMEOUT).await.members;
        assert!(members.iter().any(|row| row.id == learner && !row.voter), "{members:?}");
    });
}

/// What the audit of a node has after an entry: the verbs and the results.
fn acts_after(world: &World, node: NodeId, seq: u64) -> Vec<(String, String)> {
    let state = world.running(node).unwrap().replica.state();
    state.audit().from(seq + 1).map(|(_, record)| (record.verb.clone(), record.result.clone())).collect()
}

/// On slow disks, asks the leader with this timeout to take a member's vote, and leaves after half a flush. Returns the error
/// if there was an answer by then, and what the audit has about it in the end.
fn asked_for_half_a_flush(timeout: Duration) -> (Option<CallError>, Vec<(String, String)>) {
    let flushes = Flushes { at_least: SLOW_FLUSH, micros: 1_500 };
    let (mut ended, mut acts) = (None, Vec::new());
    on_three_nodes(&ScenarioPlan { flushes, ..ScenarioPlan::without_faults(3) }, async |world| {
        let leader = world.leader().unwrap();
        let learner = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let node = world.running(leader).unwrap().node;
        world.oracle.observe(&Fact::AskedToLeave { node: learner });
        wait_until("the cluster's version", || node.cluster().cluster_version >= MEMBERSHIP_SINCE).await;
        let before = node.cluster().audit_head.map_or(0, |head| head.seq);
        let request = MemberRequest::Demote { node: learner, key: None, by: "tests".to_owned() };
        let changed = node.change_member(Some(node.new_grant_id()), request, timeout);
        ended = SimRuntime::timeout(SLOW_FLUSH / 2, changed).await.ok().map(Result::unwrap_err);
        wait_until("the change is in the audit", || !acts_after(&world, leader, before).is_empty()).await;
        SimRuntime::sleep(SLOW_FLUSH * 4).await;
        acts = acts_after(&world, leader, before);
    });
    (ended, acts)
}

/// Its note comes after the deadline of its caller, which may never ask again.
#[test]
fn a_change_of_a_vote_that_runs_out_of_time_is_in_the_audit() {
    let (ended, acts) = asked_for_half_a_flush(SLOW_FLUSH / 3);
    assert!(matches!(ended, Some(CallError::Membership(MembershipError::Unfinished { .. }))), "{ended:?}");
    assert_eq!(acts, [("members.demote".to_owned(), "unknown".to_owned())]);
}

#[test]
fn a_change_of_a_vote_whose_caller_leaves_is_in_the_audit() {
    let (ended, acts) = asked_for_half_a_flush(TIMEOUT);
    assert!(ended.is_none(), "{ended:?}");
    assert_eq!(acts, [("members.demote".to_owned(), "ok".to_owned())]);
}

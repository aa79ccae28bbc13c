//! Learns which processes the other voters run, so that no election has to ask for that first.

use crate::core::Core;
use fairhold_types::NodeId;
use futures_util::future::join_all;
use openraft::AsyncRuntime;
use std::{sync::Arc, time::Duration};

/// How often a node greets the other voters in one data centre, besides each change of the leader: they may have restarted.
const LEARN_EVERY: Duration = Duration::from_secs(60);

/// Greets the other voters after each change of the leader, and now and then, until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut known = None;
    loop {
        let changed = core.until(|metrics| {
            let now = (metrics.current_leader?, metrics.vote.leader_id.term);
            (known != Some(now)).then_some(now)
        });
        match RT::timeout(LEARN_EVERY * core.time_scale, changed).await {
            Ok(Some(now)) => known = Some(now),
            Ok(None) => return,
            Err(_) => {}
        }
        let others: Vec<NodeId> =
            core.with_metrics(|metrics| metrics.membership_config.voter_ids().filter(|id| *id != core.id).collect());
        join_all(others.into_iter().map(|id| core.learn_process(id, core.lease))).await;
    }
}

//! Logs changes of the leader.

use crate::core::Core;
use fairhold_types::NodeId;
use openraft::AsyncRuntime;
use std::sync::Arc;

/// Logs each change of the leader once.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut last: (Option<NodeId>, u64) = (None, 0);
    let id = core.id;
    loop {
        let seen = core.until(|metrics| {
            // The term of a leader is known once the vote for it is on disk.
            let vote = &metrics.vote;
            let leader = metrics.current_leader.filter(|leader| vote.committed && vote.leader_id.node_id == *leader);
            let now = (leader, vote.leader_id.term);
            // Without a leader, each failed election has a new term: that is not logged.
            let has_changed = now.0 != last.0 || (now.0.is_some() && now.1 != last.1);
            has_changed.then_some(now)
        });
        let Some((leader, term)) = seen.await else { return };
        if leader.is_some() {
            core.shared.metrics.leader_changes.inc();
        }
        match leader {
            Some(leader) if leader == id => tracing::info!(term, "this node leads"),
            Some(leader) => tracing::info!(term, leader, "node {leader} leads"),
            None => tracing::info!(term, "there is no known leader"),
        }
        last = (leader, term);
    }
}

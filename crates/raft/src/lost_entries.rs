//! Storage that went back in time: a node without log entries that it had acknowledged.
//!
//! A leader's heartbeat names the last log entry that the follower has acknowledged to this very leader, in this term. A follower
//! that accepts the leader's vote and does not have this entry has lost it: its data directory is an older copy, or its disk lost
//! what it had reported as written. Nothing else explains it. What a later leader cuts off, it cuts off under a higher vote, by
//! which the older heartbeat is refused; what a snapshot covers counts as there; and an entry is acknowledged after its sync.
//!
//! Such a node may have forgotten votes as well. It takes no further part, says so to everyone that asks it, and ends.

use crate::{
    core::Core,
    peer::Refusal,
    replica::stop,
    types::Types,
    wire::{Declined, Reply},
};
use fairhold_types::{
    NodeId,
    planted::{self, Bug},
};
use openraft::{
    AsyncRuntime,
    raft::{AppendEntriesRequest, AppendEntriesResponse},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// For how long a node that lost entries says so to those that ask, before it ends.
const TELLS_FOR: Duration = Duration::from_millis(500);

/// What a node's storage has lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the storage of node {node} has lost log entries that node {node} had acknowledged: it acknowledged all through entry \
     {acknowledged} to node {leader}, and {}. Its data directory is an older copy, or its disk lost what it had reported as \
     written. A node that may have forgotten its votes takes no part, because acknowledged writes could be lost by it; the \
     other nodes go on. Start node {node} with its newest data directory. If that is gone, leave node {node} switched off: this \
     version of Fairhold cannot replace a member yet", has_text(*has)
)]
pub struct LostEntries {
    /// The node.
    pub node: NodeId,
    /// The leader to which it had acknowledged them.
    pub leader: NodeId,
    /// The index of the last log entry that it had acknowledged.
    pub acknowledged: u64,
    /// The index of the last log entry that it has.
    pub has: Option<u64>,
}

fn has_text(has: Option<u64>) -> String {
    has.map_or_else(|| "has none".to_owned(), |has| format!("has them through entry {has}"))
}

impl LostEntries {
    /// How many entries are gone, at least.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.acknowledged + 1).saturating_sub(self.has.map_or(0, |has| has + 1)).max(1)
    }
}

/// Nodes that have told this one that they lost entries. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Losses(Arc<Mutex<BTreeMap<NodeId, LostEntries>>>);

impl Losses {
    /// Takes note of a refusal, and logs it once.
    pub(crate) fn note(&self, refusal: &Refusal) {
        let Refusal::LostEntries(lost) = refusal else { return };
        if self.locked().insert(lost.node, lost.clone()).as_ref() != Some(lost) {
            tracing::error!(node = lost.node, "{lost}");
        }
    }

    /// The node takes part again: it has its newest data directory.
    pub(crate) fn forget(&self, node: NodeId) {
        self.locked().remove(&node);
    }

    /// What a node has lost, if it has.
    pub(crate) fn of(&self, node: NodeId) -> Option<LostEntries> {
        self.locked().get(&node).cloned()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<NodeId, LostEntries>> {
        // It is whole after every single statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a heartbeat. Where it shows that this node has lost entries, the node stops.
pub(crate) async fn heartbeat<RT: AsyncRuntime>(core: Arc<Core<RT>>, rpc: AppendEntriesRequest<Types<RT>>) -> Reply<RT> {
    let (acknowledged, leader) = (rpc.prev_log_id, rpc.vote.leader_id.node_id);
    match (core.raft.append_entries(rpc).await, acknowledged) {
        (Ok(AppendEntriesResponse::Conflict), Some(acknowledged)) if !planted::has(Bug::HidesLostEntries) => {
            let has = core.look(|metrics| metrics.last_log_index);
            let lost = LostEntries { node: core.id, leader, acknowledged: acknowledged.index, has };
            let refusal = Refusal::LostEntries(lost.clone());
            if core.lost.set(lost).is_ok() {
                let core = core.clone();
                drop(RT::spawn(async move {
                    // The leader may have stopped waiting for this answer while a disk was slow.
                    RT::sleep(TELLS_FOR).await;
                    stop(&core).await;
                }));
            }
            Reply::Declined(Declined::Refused(refusal))
        }
        (Ok(response), _) => Reply::Append(response),
        (Err(_), _) => Reply::Declined(Declined::NotRunning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_lost_and_what_to_do() {
        let lost = LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) };
        let text = lost.to_string();
        assert!(text.contains("all through entry 57 to node 1, and has them through entry 40."), "{text}");
        assert!(text.contains("Start node 2 with its newest data directory"), "{text}");
        assert_eq!(lost.count(), 17);
        assert_eq!(LostEntries { has: None, ..lost.clone() }.count(), 58);
        assert_eq!(LostEntries { has: Some(57), ..lost }.count(), 1, "entries of another leader stand in their place");
    }

    #[test]
    fn it_is_known_until_the_node_takes_part_again() {
        let losses = Losses::default();
        let lost = LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) };
        losses.note(&Refusal::Starting);
        losses.note(&Refusal::LostEntries(lost.clone()));
        assert_eq!((losses.of(1), losses.of(2)), (None, Some(lost)));
        losses.forget(2);
        assert_eq!(losses.of(2), None);
    }
}

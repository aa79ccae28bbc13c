//! Storage that went back in time: a node without log entries that it had acknowledged.
//!
//! A leader's heartbeat names the last log entry that the follower has acknowledged to this very leader, in this term. A follower
//! that accepts the leader's vote and does not have this entry has lost it: its data directory is an older copy, or its disk lost
//! what it had reported as written. Nothing else explains it. What a later leader cuts off, it cuts off under a higher vote, by
//! which the older heartbeat is refused; what a snapshot covers counts as there; and an entry is acknowledged after its sync.
//!
//! Such a node may have forgotten votes as well. It takes no further part, says so to everyone that asks it, and ends.

use fairhold_types::NodeId;
use serde::{Deserialize, Serialize};

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
}

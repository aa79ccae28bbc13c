//! Storage that went back in time: a node without log entries that it had acknowledged.
//!
//! A leader's heartbeat names the last log entry that the follower has acknowledged to this leader in this term. A
//! follower that accepts the leader's vote but does not have this entry has lost it: its data directory is an older
//! copy, or its disk lost data that it had reported as written. Nothing else explains it. A later leader truncates
//! entries only under a higher vote, and that vote rejects the older heartbeat. Entries covered by a snapshot count as
//! present. An entry is acknowledged only after its sync.
//!
//! Such a node may have forgotten votes as well. It stops taking part, reports the loss to every node that contacts it,
//! and ends.

use fairhold_types::NodeId;
use serde::{Deserialize, Serialize};

/// What a node's storage has lost. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "node {node} has lost log entries that it had acknowledged: it acknowledged all entries through {acknowledged} to node \
     {leader}, but {}. Its data directory is an older copy, or its disk lost data that it had reported as written. The node may \
     also have forgotten votes, which could lose acknowledged writes, so it takes no part; the other nodes continue. Start node \
     {node} with its newest data directory. If that is gone, replace the node: `fairhold cluster replace {node}`",
    has_text(*has)
)]
pub struct LostEntries {
    /// The node.
    pub node: NodeId,
    /// The leader to which it acknowledged them.
    pub leader: NodeId,
    /// The index of the last log entry that it acknowledged.
    pub acknowledged: u64,
    /// The index of the last log entry that it still has.
    pub has: Option<u64>,
}

fn has_text(has: Option<u64>) -> String {
    has.map_or_else(|| "has none".to_owned(), |has| format!("has only those through {has}"))
}

impl LostEntries {
    /// The minimum number of entries that are lost.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.acknowledged + 1).saturating_sub(self.has.map_or(0, |has| has + 1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_is_lost_and_what_to_do() {
        let lost = LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) };
        let text = lost.to_string();
        assert!(text.contains("all entries through 57 to node 1, but has only those through 40."), "{text}");
        assert!(text.contains("Start node 2 with its newest data directory"), "{text}");
        assert_eq!(lost.count(), 17);
        assert_eq!(LostEntries { has: None, ..lost.clone() }.count(), 58);
        assert_eq!(LostEntries { has: Some(57), ..lost }.count(), 1, "another leader's entries took their place");
    }
}

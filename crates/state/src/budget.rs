//! The state's budget in bytes: it keeps the state within the memory of the smallest node.
//!
//! Each node reports what it can hold (`Command::NoteCapacity`), and the smallest number is the budget of all. It is part of the
//! state, so every node refuses the same commands. There is no budget until the first node has reported.
//!
//! **Over the budget,** a command that would make the state larger is refused. A command that frees something always passes, and
//! so does the retry of a completed request: it changes nothing. A transaction is judged as a whole. The last part of the budget
//! is only for the ids that the state remembers: so writes that enlarge nothing still work when nothing can be created any more.
//! Before it comes a part for locks and sessions alone, so that values cannot stop them.

use crate::weight::{META_PAIR_BYTES, NODE_BYTES};
use fairhold_types::{
    NodeId,
    limits::{META_PAIRS_MAX, PATH_BYTES_MAX, PATH_LEVELS_MAX},
};
use imbl::OrdMap;

/// The percentage of the budget that writes to the tree may fill. The rest is for locks, so that values cannot stop them.
const WRITTEN_PARTS: u64 = 75;
/// The percentage of the budget that new items may fill. The rest is for the ids that the state remembers.
const CREATED_PARTS: u64 = 95;
/// The history of all locks takes at most the budget divided by this: beyond it, it forgets its oldest entries.
const HISTORY_PART: u64 = 8;
/// More than a command can add for one node, or for one lock of a grant: all levels above it, each with its path, its name again
/// and its numbers, and what stands there.
pub(crate) const GROWTH_AT_ONCE: u64 =
    PATH_LEVELS_MAX as u64 * (4 * NODE_BYTES + 3 * PATH_BYTES_MAX as u64) + 8 * META_PAIR_BYTES * META_PAIRS_MAX as u64;

/// What the nodes can hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Budget {
    /// What each node has said.
    pub(crate) capacities: OrdMap<NodeId, u64>,
    /// The least of it: a cache.
    pub(crate) bytes_max: Option<u64>,
}

impl Budget {
    pub(crate) fn capacities(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.capacities.iter().map(|(node, bytes)| (*node, *bytes))
    }

    pub(crate) fn note(&mut self, node: NodeId, bytes: u64) {
        self.capacities.insert(node, bytes);
        self.bytes_max = self.capacities.values().min().copied();
    }

    /// The most that the history may take.
    pub(crate) fn history_bytes_max(&self) -> u64 {
        self.bytes_max.map_or(u64::MAX, |most| most / HISTORY_PART)
    }
}

/// How much of the budget a command may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It frees something, or keeps what is there: the budget does not stop it.
    Always,
    /// It creates nothing, and is remembered: it may use all of the budget.
    Tombstone,
    /// It may create something: not in the last part of the budget.
    Created,
    /// It may write to the tree: not in the part for locks either.
    Written,
}

impl Room {
    /// How much of the budget may be filled by what such a command creates.
    pub(crate) fn created_max(self, bytes_max: u64) -> u64 {
        match self {
            Room::Written => bytes_max / 100 * WRITTEN_PARTS,
            Room::Created => bytes_max / 100 * CREATED_PARTS,
            Room::Always | Room::Tombstone => bytes_max,
        }
    }
}

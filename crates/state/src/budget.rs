//! The state's budget in bytes: it keeps the state within the memory of the smallest node.
//!
//! Each node reports what it can hold (`Command::RecordCapacity`), and the smallest number is the budget of all. It is
//! part of the state, so every node refuses the same commands. There is no budget until the first node has reported.
//!
//! **Over the budget,** a command that would make the state larger is refused. A command that frees something always
//! passes, and so does the retry of a completed request, because it changes nothing. A transaction counts as a whole.
//! The last part of the budget is reserved for the ids that the state remembers, so writes that enlarge nothing still
//! work when nothing can be created any more. The part before it is reserved for locks and sessions, so that values
//! cannot stop them.

use crate::weight::{META_PAIR_BYTES, NODE_BYTES};
use fairhold_types::{
    NodeId,
    limits::{META_PAIRS_MAX, PATH_BYTES_MAX, PATH_LEVELS_MAX},
};
use imbl::OrdMap;

/// The percentage of the budget that writes to the tree may fill. The rest is for locks, so that values cannot stop
/// them.
const WRITTEN_PERCENT: u64 = 75;
/// The percentage of the budget that new items may fill. The rest is for the ids that the state remembers.
const CREATED_PERCENT: u64 = 95;
/// The history of all locks takes at most this fraction of the budget. Beyond it, the oldest entries are dropped.
const HISTORY_DIVISOR: u64 = 8;
/// More than a command can add for one node, or for one lock of a grant: all levels above it, with their paths and
/// statistics, and the contender there.
pub(crate) const GROWTH_AT_ONCE: u64 =
    PATH_LEVELS_MAX as u64 * (4 * NODE_BYTES + 3 * PATH_BYTES_MAX as u64) + 8 * META_PAIR_BYTES * META_PAIRS_MAX as u64;

/// The capacities that the nodes have reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Budget {
    /// The capacity of each node.
    pub(crate) capacities: OrdMap<NodeId, u64>,
    /// The smallest capacity: a cache.
    pub(crate) bytes_max: Option<u64>,
}

impl Budget {
    pub(crate) fn record(&mut self, node: NodeId, bytes: u64) {
        self.capacities.insert(node, bytes);
        self.bytes_max = self.capacities.values().min().copied();
    }

    /// The bound on the bytes of the history.
    pub(crate) fn history_bytes_max(&self) -> u64 {
        self.bytes_max.map_or(u64::MAX, |most| most / HISTORY_DIVISOR)
    }
}

/// How much of the budget a command may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetShare {
    /// All of it and more: the command frees something or changes nothing that counts.
    Always,
    /// All of it: the command creates nothing but the tombstone of its key.
    Tombstone,
    /// All but the last part: the command may create something.
    Created,
    /// All but the part for locks: the command may write to the tree.
    Written,
}

impl BudgetShare {
    /// How many bytes the state may have after such a command has created something.
    pub(crate) fn created_max(self, bytes_max: u64) -> u64 {
        match self {
            BudgetShare::Written => bytes_max / 100 * WRITTEN_PERCENT,
            BudgetShare::Created => bytes_max / 100 * CREATED_PERCENT,
            BudgetShare::Always | BudgetShare::Tombstone => bytes_max,
        }
    }
}

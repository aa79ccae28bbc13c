//! The state's budget in bytes: it keeps the state within the memory of the smallest node.
//!
//! Each node reports what it can hold (`Command::NoteCapacity`), and the smallest number is the budget of all. It is part of the
//! state, so every node refuses the same commands. There is no budget until the first node has reported.
//!
//! **Over the budget,** a command that would make the state larger is refused. A command that frees something always passes, and
//! so does the retry of a completed request: it changes nothing. A transaction is judged as a whole. The last part of the budget
//! is only for the ids that the state remembers: so writes that enlarge nothing still work when nothing can be created any more.
//! Before it comes a part for locks and sessions alone, so that values cannot stop them.

use crate::{
    State,
    apply::{Change, Effect},
    command::{Command, Operation, Outcome, Rejection, Transact},
    record::Revocation,
    weight::{META_PAIR_BYTES, NODE_BYTES, of_word},
};
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
const GROWTH_AT_ONCE: u64 =
    PATH_LEVELS_MAX as u64 * (4 * NODE_BYTES + 3 * PATH_BYTES_MAX as u64) + 8 * META_PAIR_BYTES * META_PAIRS_MAX as u64;

/// What the nodes can hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Budget {
    /// What each node has said.
    capacities: OrdMap<NodeId, u64>,
    /// The least of it: a cache.
    bytes_max: Option<u64>,
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
    Remembered,
    /// It may create something: not in the last part of the budget.
    Created,
    /// It may write to the tree: not in the part for locks either.
    Written,
}

impl Room {
    /// How much of the budget may be filled by what such a command creates.
    fn created_max(self, bytes_max: u64) -> u64 {
        match self {
            Room::Written => bytes_max / 100 * WRITTEN_PARTS,
            Room::Created => bytes_max / 100 * CREATED_PARTS,
            Room::Always | Room::Remembered => bytes_max,
        }
    }
}

/// The state before a command that there may be no room for.
pub(crate) struct Judgement {
    before: State,
    room: Room,
}

impl State {
    /// How many bytes it counts (`weight`).
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lasting_bytes() + self.memory.bytes()
    }

    /// The same without what is remembered for a minute.
    fn lasting_bytes(&self) -> u64 {
        self.tree.bytes() + self.sessions.bytes() + self.history.bytes() + self.statistics.bytes() + self.pending.bytes()
    }

    /// How many bytes it may count; none before a node has said what it can hold.
    #[must_use]
    pub fn bytes_max(&self) -> Option<u64> {
        self.budget.bytes_max
    }

    /// What a node has said that it can hold.
    #[must_use]
    pub fn capacity_of(&self, node: NodeId) -> Option<u64> {
        self.budget.capacities.get(&node).copied()
    }

    /// What it counts is what a walk over all of it counts.
    pub(crate) fn check_bytes(&self) -> Result<(), String> {
        for (what, counted, found) in [
            ("nodes", self.tree.bytes(), self.tree.recounted()),
            ("sessions", self.sessions.bytes(), self.sessions.recounted()),
            ("remembered ids", self.memory.bytes(), self.memory.recounted()),
            ("times of holding", self.history.bytes(), self.history.recounted()),
            ("locks' numbers", self.statistics.bytes(), self.statistics.recounted()),
            ("pieces of pending work", self.pending.bytes(), self.pending.recounted()),
        ] {
            if counted != found {
                return Err(format!("the {what} count {counted} bytes, and are {found}"));
            }
        }
        if self.budget.bytes_max != self.budget.capacities.values().min().copied() {
            return Err("the budget is not the least that a node can hold".to_owned());
        }
        Ok(())
    }

    /// Keeps the state as it is where there may be no room for what a command adds, so that it can be judged when it is done.
    /// Far from the budget that is nothing but a sum. In a box, so that a command that needs none moves one word.
    pub(crate) fn judgement(&self, command: &Command) -> Option<Box<Judgement>> {
        let bytes_max = self.budget.bytes_max?;
        let room = command.room();
        let near = self.bytes().saturating_add(command.growth_at_most()) > room.created_max(bytes_max);
        (near && room != Room::Always && !self.is_freed_by(command)).then(|| Box::new(Judgement { before: self.clone(), room }))
    }

    /// Whether a command that may also only be remembered ends somebody's grant, or removes nodes: a small node counts less than
    /// the key of its removal.
    fn is_freed_by(&self, command: &Command) -> bool {
        if let Command::Transact(transact) = command {
            let removes = |operations: &[Operation]| {
                !operations.is_empty() && operations.iter().all(|operation| matches!(operation, Operation::Delete { .. }))
            };
            removes(&transact.then) && transact.otherwise.as_deref().is_none_or(removes)
        } else if let Command::Release { grant, .. } = command {
            self.index.grants.contains_key(grant)
        } else if let Command::Break(order) = command {
            self.index.queues.get(&order.lock).is_some_and(|queue| !queue.holders.is_empty())
        } else {
            false
        }
    }

    /// Refuses a word for this many holders if the budget has no room for all of them. Later commands tell most of the holders.
    pub(crate) fn require_room_for_words(&self, holders: usize, word: &Revocation) -> Result<(), Rejection> {
        let (used, Some(max)) = (self.bytes(), self.budget.bytes_max) else { return Ok(()) };
        let words = of_word(word).saturating_mul(holders as u64);
        if used.saturating_add(words) > max { Err(Rejection::StateFull { used, max }) } else { Ok(()) }
    }

    /// Reverts a command that exceeds the budget.
    pub(crate) fn judge(&mut self, judgement: Judgement) -> Result<(), Rejection> {
        let Judgement { before, room } = judgement;
        let Some(max) = self.budget.bytes_max else { return Ok(()) };
        // A time of holding that comes into the history stops nobody: that has a bound of its own.
        let (now, then) = (self.history.bytes(), before.history.bytes());
        let bytes = self.bytes();
        let grew = bytes - now > before.bytes() - then;
        let lasts = self.lasting_bytes() - now > before.lasting_bytes() - then;
        let created = matches!(room, Room::Created | Room::Written) && lasts;
        let full = (grew && bytes > max) || (created && bytes > room.created_max(max));
        if !full {
            return Ok(());
        }
        let used = before.bytes();
        *self = before;
        Err(Rejection::StateFull { used, max })
    }
}

impl Change<'_> {
    /// Notes what a node can hold.
    pub(crate) fn note_capacity(&mut self, node: NodeId, bytes: u64) -> Effect {
        if self.state.capacity_of(node) == Some(bytes) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.budget.note(node, bytes);
        Effect::Changed(Outcome::Done)
    }
}

impl Command {
    /// How far it may fill the state.
    pub(crate) fn room(&self) -> Room {
        match self {
            Command::Transact(_) => Room::Written,
            Command::OpenSession(_) | Command::Acquire(_) | Command::SetLock(_) => Room::Created,
            Command::SetGrantTimeout { .. }
            | Command::Release { .. }
            | Command::Break(_)
            | Command::Downgrade { key: Some(_), .. }
            | Command::Upgrade { .. }
            | Command::Proclaim(_)
            | Command::Revoke(_)
            | Command::NoteKey { .. } => Room::Remembered,
            Command::FormCluster { .. }
            | Command::CloseSession { .. }
            | Command::ExpireSession { .. }
            // It lets others in, and leaves a time of holding: these have a bound of their own.
            | Command::Downgrade { key: None, .. }
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::EndCooling { .. }
            | Command::Forget { .. }
            | Command::ForgetLocks { .. }
            | Command::EndSession { .. }
            | Command::Sweep { .. }
            | Command::ForgetHistory { .. }
            | Command::EndUpgrade { .. }
            | Command::EndHolds { .. }
            | Command::Continue { .. }
            | Command::NoteCapacity { .. } => Room::Always,
        }
    }

    /// Whether it may create or enlarge something that stays.
    #[must_use]
    pub fn creates(&self) -> bool {
        if let Command::Transact(transact) = self {
            let frees = |operation: &Operation| matches!(operation, Operation::Delete { .. } | Operation::Check { .. });
            return !transact.then.iter().chain(transact.otherwise.iter().flatten()).all(frees);
        }
        matches!(self.room(), Room::Created | Room::Written)
    }

    /// More bytes than it can add.
    pub(crate) fn growth_at_most(&self) -> u64 {
        if let Command::Transact(transact) = self {
            of_transaction(transact)
        } else if let Command::Acquire(acquire) = self {
            GROWTH_AT_ONCE * (1 + acquire.wants.len() as u64)
        } else if let Command::Revoke(_) = self {
            // Each holder may be told a word.
            u64::MAX
        } else {
            GROWTH_AT_ONCE
        }
    }
}

fn of_transaction(transact: &Transact) -> u64 {
    let operations = transact.then.iter().chain(transact.otherwise.iter().flatten());
    operations.fold(GROWTH_AT_ONCE, |sum, operation| sum + GROWTH_AT_ONCE + operation.weight() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Lifetime, Operation};
    use fairhold_types::{Path, time::WallMillis};

    #[test]
    fn each_operation_of_a_transaction_may_make_a_node() {
        let put = |name: &str| Operation::Put {
            path: Path::root().child(name),
            value: Vec::new().into(),
            parents: false,
            lifetime: Lifetime::Persistent,
        };
        let growth = |then: Vec<Operation>, otherwise: Option<Vec<Operation>>| {
            let at = WallMillis(0);
            Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise, at }).growth_at_most()
        };
        let one = growth(vec![put("a")], None);
        assert!(one >= 2 * GROWTH_AT_ONCE, "{one}");
        let paths = "/a".len() as u64;
        assert_eq!(growth(vec![put("a"), put("b")], Some(vec![put("c")])), one + 2 * (GROWTH_AT_ONCE + paths));
    }
}

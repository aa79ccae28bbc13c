//! How a command may grow the state: what it adds must fit into the budget (`budget`).

use crate::{
    State,
    budget::{BudgetShare, GROWTH_AT_ONCE},
    change::{Change, Effect},
    check::ensure,
    command::{Command, CreateJoinToken, Operation, Outcome, Rejection, SetMember, Transact},
    record::Revocation,
    weight::revocation_weight,
};
use fairhold_types::NodeId;

/// The state before a command that might exceed the budget.
pub(crate) struct BudgetCheck {
    before: State,
    share: BudgetShare,
}

impl State {
    /// The weight of the state in bytes (`weight`).
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lasting_bytes() + self.tombstones.table.bytes()
    }

    /// The same without the tombstones, which last a minute.
    fn lasting_bytes(&self) -> u64 {
        self.tree.bytes() + self.sessions.bytes() + self.pending.work.bytes() + self.access.bytes() + self.audit.bytes()
    }

    /// The budget in bytes; `None` until a node has reported its capacity.
    #[must_use]
    pub fn bytes_max(&self) -> Option<u64> {
        self.budget.bytes_max
    }

    /// The capacity that a node has reported.
    #[must_use]
    pub fn capacity_of(&self, node: NodeId) -> Option<u64> {
        self.budget.capacities.get(&node).copied()
    }

    /// Compares the running counts with a walk over all tables.
    pub(crate) fn check_bytes(&self) -> Result<(), String> {
        for (what, counted, found) in [
            ("nodes and locks", self.tree.bytes(), self.tree.recounted()),
            ("sessions", self.sessions.bytes(), self.sessions.recounted()),
            ("tombstones", self.tombstones.table.bytes(), self.tombstones.table.recounted()),
            ("pieces of pending work", self.pending.work.bytes(), self.pending.work.recounted()),
        ] {
            ensure(counted == found, || format!("the {what} count {counted} bytes, but a walk finds {found}"))?;
        }
        let least = self.budget.capacities.values().min().copied();
        ensure(self.budget.bytes_max == least, || "the budget is not the smallest capacity of a node".to_owned())
    }

    /// Keeps a copy of the state if the command might exceed the budget, so that the result can be checked and
    /// reverted. Far from the budget this costs only a sum. Boxed, so that a command without a check moves one word.
    pub(crate) fn budget_check(&self, command: &Command) -> Option<Box<BudgetCheck>> {
        let bytes_max = self.budget.bytes_max?;
        let share = command.budget_share();
        let near = self.bytes().saturating_add(command.growth_max()) > share.created_max(bytes_max);
        (near && share != BudgetShare::Always && !self.frees_memory(command))
            .then(|| Box::new(BudgetCheck { before: self.clone(), share }))
    }

    /// Whether a command that normally only adds a tombstone ends a grant or removes nodes. Such a command passes, even
    /// if the tombstone is larger than the removed node.
    fn frees_memory(&self, command: &Command) -> bool {
        if let Command::Transact(transact) = command {
            let removes = |operations: &[Operation]| {
                !operations.is_empty() && operations.iter().all(|operation| matches!(operation, Operation::Delete { .. }))
            };
            removes(&transact.then) && transact.otherwise.as_deref().is_none_or(removes)
        } else if let Command::Release { grant, .. } = command {
            self.index.ids.grant(grant).is_some()
        } else if let Command::Break(request) = command {
            self.queue_of(&request.lock).is_some_and(|queue| !queue.holders.is_empty())
        } else {
            false
        }
    }

    /// Refuses a revocation if the budget has no room for it at all holders. Later commands reach most of them.
    pub(crate) fn require_room_for_revocations(&self, holders: usize, revocation: &Revocation) -> Result<(), Rejection> {
        let Some(max) = self.budget.bytes_max else { return Ok(()) };
        let used = self.bytes();
        let bytes = revocation_weight(revocation).saturating_mul(holders as u64);
        if used.saturating_add(bytes) > max { Err(Rejection::StateFull { used, max }) } else { Ok(()) }
    }

    /// Reverts a command that exceeds the budget.
    pub(crate) fn enforce_budget(&mut self, budget_check: BudgetCheck) -> Result<(), Rejection> {
        let BudgetCheck { before, share } = budget_check;
        let Some(max) = self.budget.bytes_max else { return Ok(()) };
        // Entries in the history do not count here: the history has a bound of its own.
        let history = self.tree.locks.history_bytes;
        let history_before = before.tree.locks.history_bytes;
        let bytes = self.bytes();
        let grew = bytes - history > before.bytes() - history_before;
        let lasts = self.lasting_bytes() - history > before.lasting_bytes() - history_before;
        let created = matches!(share, BudgetShare::Created | BudgetShare::Written) && lasts;
        let full = (grew && bytes > max) || (created && bytes > share.created_max(max));
        if !full {
            return Ok(());
        }
        let used = before.bytes();
        *self = before;
        Err(Rejection::StateFull { used, max })
    }
}

impl Change<'_> {
    /// Records the capacity of a node.
    pub(crate) fn record_capacity(&mut self, node: NodeId, bytes: u64) -> Effect {
        if self.state.capacity_of(node) == Some(bytes) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.budget.record(node, bytes);
        Effect::Changed(Outcome::Done)
    }
}

impl Command {
    /// How much of the budget it may fill.
    pub(crate) fn budget_share(&self) -> BudgetShare {
        match self {
            Command::Transact(_) => BudgetShare::Written,
            Command::OpenSession(_) | Command::Acquire(_) | Command::SetLock(_) => BudgetShare::Created,
            Command::SetGrantTimeout { .. }
            | Command::Release { .. }
            | Command::Break(_)
            | Command::Downgrade { key: Some(_), .. }
            | Command::Upgrade { .. }
            | Command::Proclaim(_)
            | Command::Revoke(_)
            | Command::RecordKey { .. }
            | Command::CreateJoinToken(CreateJoinToken { key: Some(_), .. })
            | Command::SetMember(SetMember { key: Some(_), .. })
            | Command::SetTiming { key: Some(_), .. } => BudgetShare::Tombstone,
            Command::ChangeAccess(request) => request.budget_share(),
            Command::Guarded(guarded) => guarded.command().budget_share(),
            Command::Attributed(attributed) => attributed.command().budget_share(),
            Command::ForTenant(of) => of.command().budget_share(),
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::CloseSession { .. }
            | Command::ExpireSession { .. }
            // It lets others in and adds to the history. Both have bounds of their own.
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
            | Command::ContinuePendingWork { .. }
            | Command::RecordCapacity { .. }
            // Members must be changed even if the state is full. What is recorded about them has bounds of its own.
            | Command::CreateJoinToken(CreateJoinToken { key: None, .. })
            | Command::RevokeJoinToken { .. }
            | Command::AdmitNode(_)
            | Command::SettleJoin { .. }
            | Command::RequestRemoval(_)
            | Command::RecordRemoval { .. }
            | Command::SetMember(SetMember { key: None, .. })
            | Command::SetTiming { key: None, .. }
            // The act is done, so its note is never refused.
            | Command::NoteAct(_)
            | Command::ExpireTokens { .. } => BudgetShare::Always,
        }
    }

    /// Whether it may create or enlarge something that lasts.
    #[must_use]
    pub fn creates(&self) -> bool {
        if let Command::Transact(transact) = self.unguarded() {
            let frees = |operation: &Operation| matches!(operation, Operation::Delete { .. } | Operation::Check { .. });
            return !transact.then.iter().chain(transact.otherwise.iter().flatten()).all(frees);
        }
        matches!(self.budget_share(), BudgetShare::Created | BudgetShare::Written)
    }

    /// An upper bound of the bytes that it can add.
    pub(crate) fn growth_max(&self) -> u64 {
        if let Command::Transact(transact) = self {
            of_transaction(transact)
        } else if let Command::Acquire(acquire) = self {
            GROWTH_AT_ONCE * (1 + acquire.wants.len() as u64)
        } else if let Command::ChangeAccess(request) = self {
            GROWTH_AT_ONCE + request.growth_of_lists()
        } else if let Command::Revoke(_) = self {
            // It may add a revocation to each holder.
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
    fn each_operation_of_a_transaction_may_create_a_node() {
        let put = |name: &str| Operation::Put {
            path: Path::root().child(name),
            value: Vec::new().into(),
            parents: false,
            lifetime: Lifetime::Persistent,
        };
        let growth = |then: Vec<Operation>, otherwise: Option<Vec<Operation>>| {
            let at = WallMillis(0);
            Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise, at }).growth_max()
        };
        let one = growth(vec![put("a")], None);
        assert!(one >= 2 * GROWTH_AT_ONCE, "{one}");
        let paths = "/a".len() as u64;
        assert_eq!(growth(vec![put("a"), put("b")], Some(vec![put("c")])), one + 2 * (GROWTH_AT_ONCE + paths));
    }
}

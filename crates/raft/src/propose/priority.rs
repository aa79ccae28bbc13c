//! Which commands are urgent, and which need disk space.

use fairhold_state::command::Command;

/// Size up to which a command that only removes or checks needs no disk space. A larger one could fill the log with its
/// own text.
const FREEING_BYTES_MAX: usize = 64 * 1024;

/// Whether a command is urgent: it ends something, sets how long something lives, or concerns the cluster itself. All
/// other commands begin or write something.
pub(crate) fn is_urgent(command: &Command) -> bool {
    match command {
        Command::Release { .. }
        | Command::Withdraw { .. }
        | Command::Abandon { .. }
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::EndCooling { .. }
        | Command::SetGrantTimeout { .. }
        | Command::Break(_)
        | Command::EndSession { .. }
        | Command::Downgrade { .. }
        | Command::EndUpgrade { .. }
        | Command::EndHolds { .. }
        | Command::ContinuePendingWork { .. }
        | Command::SetLock(_)
        | Command::Revoke(_)
        | Command::RecordCapacity { .. }
        | Command::CreateJoinToken(_)
        | Command::RevokeJoinToken { .. }
        | Command::AdmitNode(_)
        | Command::SettleJoin { .. }
        | Command::RequestRemoval(_)
        | Command::RecordRemoval { .. }
        | Command::SetMember(_)
        | Command::SetTiming { .. }
        | Command::ChangeAccess(_)
        | Command::NoteAct(_)
        | Command::RaiseClusterVersion { .. }
        | Command::FormClusterAt { .. }
        | Command::FormCluster { .. } => true,
        Command::OpenSession(_)
        | Command::Acquire(_)
        | Command::Upgrade { .. }
        | Command::Transact(_)
        | Command::Proclaim(_)
        | Command::Forget { .. }
        | Command::ForgetHistory { .. }
        | Command::ForgetLocks { .. }
        | Command::RecordKey { .. }
        | Command::ExpireTokens { .. }
        | Command::Sweep { .. } => false,
        Command::Guarded(guarded) => is_urgent(guarded.command()),
        Command::Attributed(attributed) => is_urgent(attributed.command()),
        Command::ForTenant(of) => is_urgent(of.command()),
    }
}

/// Whether a command needs disk space: it makes the state larger, or is large itself. It is refused while the disk is
/// nearly full. A small command that ends or removes something frees space, once a snapshot without it replaces the
/// log.
pub(crate) fn needs_room(command: &Command, bytes: usize) -> bool {
    let command = command.unguarded();
    command.creates() || matches!(command, Command::Upgrade { .. } | Command::Proclaim(_)) || bytes > FREEING_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::command::{Operation, Transact};
    use fairhold_types::{Path, time::WallMillis};

    /// Transactions that only check once filled the disks of all nodes, because they were treated as deletes.
    #[test]
    fn a_large_transaction_needs_space_even_if_it_only_checks_or_removes() {
        let path = Path::parse(&format!("/{}", "p".repeat(1_000))).unwrap();
        let transact = |count| {
            let then = vec![Operation::Check { path: path.clone(), version: None }; count];
            let command = Command::Transact(Transact { key: None, conditions: vec![], then, otherwise: None, at: WallMillis(0) });
            needs_room(&command, command.size())
        };
        assert!(!transact(1) && !transact(50));
        assert!(transact(100) && transact(1_000));
    }
}

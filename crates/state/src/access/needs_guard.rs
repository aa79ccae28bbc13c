//! Which commands need a right, and therefore a guard.

use crate::command::Command;
use fairhold_types::planted::{self, Bug};

impl Command {
    /// Whether it needs a right. An id is a right of its own: its owner may end or renew what it names. The leader's
    /// verdicts are nobody's.
    #[must_use]
    pub fn needs_guard(&self) -> bool {
        match self {
            Command::OpenSession(_)
            | Command::Acquire(_)
            | Command::Transact(_)
            | Command::Upgrade { .. }
            | Command::Proclaim(_)
            | Command::Break(_)
            | Command::EndSession { .. }
            | Command::SetLock(_)
            | Command::Revoke(_)
            | Command::CreateJoinToken(_)
            | Command::RevokeJoinToken { .. }
            | Command::RequestRemoval(_)
            | Command::SetMember(_)
            | Command::SetTiming { .. }
            | Command::ChangeAccess(_) => true,
            // The id of a grant or of a session.
            Command::CloseSession { .. }
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::SetGrantTimeout { .. }
            | Command::Downgrade { .. }
            | Command::EndUpgrade { .. } => false,
            // Verdicts.
            Command::ExpireSession { .. }
            | Command::EndCooling { .. }
            | Command::Forget { .. }
            | Command::ForgetLocks { .. }
            | Command::Sweep { .. }
            | Command::ForgetHistory { .. }
            | Command::EndHolds { .. }
            | Command::ContinuePendingWork { .. }
            | Command::ExpireTokens { .. } => planted::has(Bug::VerdictNeedsGuard),
            // What the leader and the nodes do for themselves. A join token is a right of its own.
            Command::FormCluster { .. }
            | Command::FormClusterAt { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::RecordKey { .. }
            | Command::RecordCapacity { .. }
            | Command::AdmitNode(_)
            | Command::SettleJoin { .. }
            | Command::RecordRemoval { .. }
            // The right to an act outside the state was decided before the act.
            | Command::NoteAct(_) => false,
            Command::Guarded(guarded) => guarded.command().needs_guard(),
            Command::Attributed(attributed) => attributed.command().needs_guard(),
            Command::ForTenant(of) => of.command().needs_guard(),
        }
    }
}

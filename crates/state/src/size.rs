//! The size of commands in the log.

use crate::command::{Command, Condition, Meta, Operation};

/// The parts of a command that do not grow with its texts, values and lists.
const COMMAND_BYTES: usize = 160;
/// The same for a condition, an operation, and an entry of a list.
const STEP_BYTES: usize = 40;
/// A guard.
const GUARD_BYTES: usize = 19;
/// An origin, without its texts.
const ORIGIN_BYTES: usize = 12;
/// The number of a tenant, and the code of its variant.
const TENANT_BYTES: usize = 10;
/// The length prefixes of a key and its value.
const PAIR_BYTES: usize = 6;

impl Command {
    /// An upper bound of its bytes in the log. Queues, log entries and the log itself are bounded by it.
    #[must_use]
    pub fn size(&self) -> usize {
        let inside = match self {
            Command::Transact(transact) => {
                let operations = transact.then.iter().chain(transact.otherwise.iter().flatten());
                let steps = transact.conditions.iter().map(Condition::weight).chain(operations.map(Operation::weight));
                steps.map(|bytes| STEP_BYTES + bytes).sum()
            }
            Command::Acquire(acquire) => {
                let locks: usize = acquire.wants.iter().map(|want| STEP_BYTES + want.lock.as_str().len()).sum();
                let value = acquire.value.as_ref().map_or(0, Vec::len);
                value + locks + acquire.owner.text.len() + of_meta(&acquire.meta)
            }
            Command::OpenSession(open) => open.name.len() + of_meta(&open.meta),
            Command::Proclaim(request) => request.election.as_str().len() + request.value.len(),
            Command::Break(request) => request.lock.as_str().len() + request.by.len() + request.reason.len(),
            Command::Revoke(request) => request.lock.as_str().len() + request.by.len() + request.reason.len(),
            Command::SetLock(request) => request.lock.as_str().len() + request.by.len(),
            Command::CreateJoinToken(request) => request.by.len(),
            Command::AdmitNode(request) => request.url.len() + request.address.len(),
            Command::RequestRemoval(request) => request.by.len() + request.other_voters.len() * STEP_BYTES,
            Command::SetMember(request) => request.zone.as_ref().map_or(0, String::len) + request.by.len(),
            Command::SetTiming { by, .. } => by.len(),
            Command::ChangeAccess(request) => request.text_bytes() + request.entries() * STEP_BYTES,
            Command::ExpireTokens { tokens, .. } => tokens.len() * STEP_BYTES,
            Command::Guarded(guarded) => return GUARD_BYTES + guarded.command().size(),
            Command::Attributed(attributed) => {
                return ORIGIN_BYTES + attributed.origin().text_bytes() + attributed.command().size();
            }
            Command::NoteAct(note) => note.text_bytes(),
            Command::ForTenant(of) => return TENANT_BYTES + GUARD_BYTES + of.command().size(),
            Command::EndSession { by, reason, .. } => by.len() + reason.len(),
            Command::EndCooling { grants, .. } => grants.len() * STEP_BYTES,
            Command::EndHolds { holds, .. } => holds.len() * STEP_BYTES,
            Command::ForgetLocks { locks } => locks.iter().map(|(lock, _)| STEP_BYTES + lock.as_str().len()).sum(),
            Command::Sweep { nodes, .. } => nodes.iter().map(|node| STEP_BYTES + node.path.as_str().len()).sum(),
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::CloseSession { .. }
            | Command::ExpireSession { .. }
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::SetGrantTimeout { .. }
            | Command::Forget { .. }
            | Command::ForgetHistory { .. }
            | Command::Downgrade { .. }
            | Command::Upgrade { .. }
            | Command::EndUpgrade { .. }
            | Command::ContinuePendingWork { .. }
            | Command::RecordKey { .. }
            | Command::RecordCapacity { .. }
            | Command::RevokeJoinToken { .. }
            | Command::SettleJoin { .. }
            | Command::RecordRemoval { .. } => 0,
        };
        COMMAND_BYTES + inside
    }
}

fn of_meta(meta: &Meta) -> usize {
    meta.iter().map(|(key, value)| PAIR_BYTES + key.len() + value.len()).sum()
}

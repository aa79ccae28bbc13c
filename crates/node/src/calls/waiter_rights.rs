//! Whether a request that still waits may go on: its caller may have lost its rights since.

use crate::{api::CallError, node::Node};
use fairhold_access::{Need, Verb};
use fairhold_state::{command::Acquire, read::GrantStatus};
use fairhold_types::{GrantId, LockName};
use openraft_rt::AsyncRuntime;

impl<RT: AsyncRuntime> Node<RT> {
    /// Refuses an acquire that still waits, if its caller has lost the right by now.
    pub(crate) fn check_waiter(&self, acquire: &Acquire) -> Result<(), CallError> {
        if self.is_enforced() { self.require(&acquire.needs()) } else { Ok(()) }
    }

    /// Refuses an upgrade that still waits, if its caller has lost the right by now.
    pub(crate) fn check_upgrade(&self, grant: GrantId) -> Result<(), CallError> {
        if !self.is_enforced() {
            return Ok(());
        }
        let locks: Vec<LockName> = self.0.replica.read(|state| match state.grant(&grant) {
            GrantStatus::Live(contender) => state.locks_of(contender.number),
            GrantStatus::Ended(_) | GrantStatus::Unknown => Vec::new(),
        });
        self.require(&locks.iter().map(|lock| Need::on_lock(Verb::Acquire, lock)).collect::<Vec<_>>())
    }
}

/// The answer to a request that was withdrawn because its caller has lost the right. If it was granted first, it is held:
/// the loss of a right takes no lock away.
pub(crate) fn instead_of_timeout<T>(answer: Result<T, CallError>, refused: CallError) -> Result<T, CallError> {
    match answer {
        Err(CallError::WaitTimeout { .. }) => Err(refused),
        other => other,
    }
}

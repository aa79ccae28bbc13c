//! Checks whether a candidate is a copy: another process runs with the same data directory at the address of the member.
//!
//! A leader knows that from its heartbeats. While no node leads, nobody sends any, so a voter asks at that address. Without
//! this, a copy could lead, and the term and the id of a vote do not tell the two processes apart.

use crate::{base::peer::Refusal, core::Core};
use fairhold_types::NodeId;
use openraft::AsyncRuntime;
use std::time::Duration;

/// Refuses a candidate if another process answers at its address within this time. If none answers, the candidate counts: it
/// may have another address by now. An older program does not tell its boot number.
pub(super) async fn check<RT: AsyncRuntime>(
    core: &Core<RT>,
    (candidate, boot): (NodeId, u64),
    within: Duration,
) -> Result<(), Refusal> {
    if boot == 0 || core.processes.of(candidate) == Some(boot) {
        return Ok(());
    }
    match core.learn_process(candidate, within).await {
        Some(original) if original != boot => {
            tracing::warn!(
                node = candidate,
                "refused node {candidate} as a candidate: it is a copy, and its original answers at the address of the member"
            );
            Err(Refusal::Duplicate { id: candidate })
        }
        Some(_) | None => Ok(()),
    }
}

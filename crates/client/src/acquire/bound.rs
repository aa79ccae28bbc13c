//! How long a grant may be held, as far as this client knows.

use crate::{hold::hold_state::HoldState, wire::clock::Moment};
use fairhold_types::{FencingToken, dto};
use std::time::Duration;

/// Whether the grant waited in the queue, and so may be younger than the first request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuedEvidence {
    /// No request allowed a wait.
    No,
    /// A request allowed a wait. The client does not know whether the grant waited.
    Perhaps,
    /// The grant was seen in the queue.
    Yes,
}

/// The part of the longest hold that an answer may take before the grant counts as one that waited.
const PROMPT_PER_MAX_HOLD: u32 = 10;

/// The state of a grant that the client learned of just now. [`Acquire::max_hold`](crate::Acquire::max_hold) says which
/// bound applies. `max_hold` is the longest hold that the caller asked for, `first_sent` the moment before the first
/// request was sent.
pub(super) fn hold_state(
    grant: &dto::Grant,
    token: FencingToken,
    max_hold: Option<Duration>,
    first_sent: Option<Moment>,
    queued: QueuedEvidence,
) -> HoldState {
    let now = Moment::now();
    let sent = first_sent.unwrap_or(now);
    // Only the first hold of a grant sets the bound.
    let max_hold = max_hold.filter(|_| grant.holds.is_none_or(|holds| holds <= 1));
    let bound = max_hold.map(|max_hold| {
        let has_waited = match queued {
            QueuedEvidence::No => false,
            QueuedEvidence::Perhaps => sent.until(now) > max_hold / PROMPT_PER_MAX_HOLD,
            QueuedEvidence::Yes => true,
        };
        (max_hold, if has_waited { now } else { sent })
    });
    HoldState::new(token, bound)
}

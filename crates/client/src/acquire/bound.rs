//! Up to when a grant may be held, as far as that is known here.

use crate::{hold::hold_state::HoldState, wire::clock::Moment};
use fairhold_types::{FencingToken, dto};
use std::time::Duration;

/// Whether the grant may be younger than the first request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuedEvidence {
    /// No request may wait.
    No,
    /// A request may wait; whether it does, is not known.
    Perhaps,
    /// It was seen to stand in the queue.
    Yes,
}

/// The part of the longest hold that an answer may take before the grant counts as one that waited.
const PROMPT_PER_MAX_HOLD: u32 = 10;

/// The terms of a grant that was heard of right now; [`Acquire::max_hold`](crate::Acquire::max_hold) says which bound holds.
/// `max_hold` is the longest hold that the caller asked for, `first_sent` the moment before the first request was sent.
pub(super) fn terms(
    grant: &dto::Grant,
    token: FencingToken,
    max_hold: Option<Duration>,
    first_sent: Option<Moment>,
    waited: QueuedEvidence,
) -> HoldState {
    let now = Moment::now();
    let sent = first_sent.unwrap_or(now);
    // A further hold bounds nothing: the first one does.
    let max_hold = max_hold.filter(|_| grant.holds.is_none_or(|holds| holds <= 1));
    let bound = max_hold.map(|max_hold| {
        let has_waited = match waited {
            QueuedEvidence::No => false,
            QueuedEvidence::Perhaps => sent.until(now) > max_hold / PROMPT_PER_MAX_HOLD,
            QueuedEvidence::Yes => true,
        };
        (max_hold, if has_waited { now } else { sent })
    });
    HoldState::new(token, bound)
}

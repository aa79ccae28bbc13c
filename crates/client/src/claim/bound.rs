//! Up to when a grant may be held, as far as that is known here.

use super::Claim;
use crate::{clock::Moment, terms::Terms};
use fairhold_types::{FencingToken, dto};

/// Whether the grant may be younger than the first request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// No request may wait.
    No,
    /// A request may wait; whether it does, is not known.
    Perhaps,
    /// It was seen to stand in the queue.
    Yes,
}

/// The part of the longest hold that an answer may take before the grant counts as one that waited.
const PROMPT_PER_MAX_HOLD: u32 = 10;

impl Claim<'_> {
    /// The terms of a grant of which was heard right now; [`Acquire::max_hold`](crate::Acquire::max_hold) says which bound holds.
    pub(super) fn terms(&self, grant: &dto::Grant, token: FencingToken) -> Terms {
        let now = Moment::now();
        let sent = self.first_sent.unwrap_or(now);
        // A further hold bounds nothing: the first one does.
        let max_hold = self.wish.max_hold.filter(|_| grant.holds.is_none_or(|holds| holds <= 1));
        let bound = max_hold.map(|max_hold| {
            let has_waited = match self.waited {
                Waited::No => false,
                Waited::Perhaps => sent.until(now) > max_hold / PROMPT_PER_MAX_HOLD,
                Waited::Yes => true,
            };
            (max_hold, if has_waited { now } else { sent })
        });
        Terms::new(token, bound)
    }
}

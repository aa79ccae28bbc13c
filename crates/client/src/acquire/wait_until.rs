//! How long a claim is tried.

use fairhold_types::limits::WAIT_MAX;
use std::time::Duration;
use tokio::time::Instant;

/// How long after the caller's time the server's own "too late" may arrive.
const LATE_ANSWER: Duration = Duration::from_secs(1);

/// How long to try.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitUntil {
    /// Until it is held.
    Held,
    /// Waiting for it until then.
    At(Instant),
    /// Not waiting for it, only for an answer.
    Now(Instant),
}

impl WaitUntil {
    /// How long a server may wait.
    pub(super) fn wait(self) -> Duration {
        match self {
            WaitUntil::Held => WAIT_MAX,
            WaitUntil::At(until) => until.saturating_duration_since(Instant::now()).min(WAIT_MAX),
            WaitUntil::Now(_) => Duration::ZERO,
        }
    }

    /// When no answer is waited for any more.
    pub(super) fn give_up_at(self) -> Option<Instant> {
        match self {
            WaitUntil::Held => None,
            WaitUntil::At(until) => Some(until + LATE_ANSWER),
            WaitUntil::Now(until) => Some(until),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        match self {
            WaitUntil::Held => false,
            WaitUntil::At(until) | WaitUntil::Now(until) => Instant::now() >= until,
        }
    }
}

//! How long an acquire keeps trying.

use fairhold_types::limits::WAIT_MAX;
use std::time::Duration;
use tokio::time::Instant;

/// How long after the end of the caller's wait the server's own `wait_timeout` may arrive.
const LATE_ANSWER: Duration = Duration::from_secs(1);

/// How long an acquire keeps trying.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitUntil {
    /// Wait until the lock is held.
    Held,
    /// Wait for the lock until then.
    At(Instant),
    /// Do not wait for the lock; wait for an answer until then.
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

    /// When to stop waiting for an answer.
    pub(super) fn give_up_at(self) -> Option<Instant> {
        match self {
            WaitUntil::Held => None,
            WaitUntil::At(until) => Some(until + LATE_ANSWER),
            WaitUntil::Now(until) => Some(until),
        }
    }

    pub(super) fn is_over(self) -> bool {
        match self {
            WaitUntil::Held => false,
            WaitUntil::At(until) | WaitUntil::Now(until) => Instant::now() >= until,
        }
    }
}

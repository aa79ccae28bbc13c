//! Log lines that another node can cause: limited in rate, however often it asks.

use openraft::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::time::Duration;

/// The shortest time between two lines of one kind.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Rate limit for a log line.
pub(crate) struct Complaint<RT: AsyncRuntime>(Mutex<Option<RT::Instant>>);

impl<RT: AsyncRuntime> Default for Complaint<RT> {
    fn default() -> Self {
        Complaint(Mutex::new(None))
    }
}

impl<RT: AsyncRuntime> Complaint<RT> {
    /// Whether the line is due; from then on it is not, for a while.
    pub(crate) fn is_due(&self) -> bool {
        let now = RT::Instant::now();
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| now >= last + SAID_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

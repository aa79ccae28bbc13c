//! Rate limits for log lines that another node can trigger.

use openraft::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::time::Duration;

/// Minimum time between two lines of one kind.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Rate limit for one kind of log line.
pub(crate) struct LogLimit<RT: AsyncRuntime>(Mutex<Option<RT::Instant>>);

impl<RT: AsyncRuntime> Default for LogLimit<RT> {
    fn default() -> Self {
        LogLimit(Mutex::new(None))
    }
}

impl<RT: AsyncRuntime> LogLimit<RT> {
    /// Returns whether the line may be logged now. If so, the next one is due only after `LOG_INTERVAL`.
    pub(crate) fn is_due(&self) -> bool {
        let now = RT::Instant::now();
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| now >= last + LOG_INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }
}

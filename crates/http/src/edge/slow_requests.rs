//! Slow requests: a line in the log for each, up to a limit in a second. Further ones are counted.

use fairhold_metrics::{Counter, Registry};
use fairhold_types::{limits::SLOW_REQUESTS_LOGGED_MAX, time::WallMillis};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Which requests are slow, and how many were. Clones share it. By default, none is.
#[derive(Debug, Clone, Default)]
pub struct SlowRequests(Arc<SlowRequestsInner>);

#[derive(Debug, Default)]
struct SlowRequestsInner {
    /// In nanoseconds; 0: no request is slow.
    limit: AtomicU64,
    /// The current second, and how many lines it has.
    second: Mutex<(u64, u32)>,
    slow: Counter,
    unlogged: Counter,
}

/// A request that is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlowRequest {
    /// The log has a line for it.
    Logged,
    /// There were too many in this second.
    Counted,
}

impl SlowRequests {
    /// From now on a request that takes longer than this is slow; with zero, none is.
    pub fn set_limit(&self, limit: Duration) {
        self.0.limit.store(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// A request has ended now, after this long without its waits for others. If it is slow, it is counted.
    pub(crate) fn judge(&self, took: Duration, now: impl FnOnce() -> WallMillis) -> Option<SlowRequest> {
        let limit = self.0.limit.load(Relaxed);
        if limit == 0 || took <= Duration::from_nanos(limit) {
            return None;
        }
        self.0.slow.inc();
        let second = now().0 / 1_000;
        let mut current = self.0.second.lock();
        if current.0 != second {
            *current = (second, 0);
        }
        if current.1 < SLOW_REQUESTS_LOGGED_MAX {
            current.1 += 1;
            return Some(SlowRequest::Logged);
        }
        drop(current);
        self.0.unlogged.inc();
        Some(SlowRequest::Counted)
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Requests that took longer than slow-request, without their waits for others";
        registry.register("http_slow_requests", help, self.0.slow.clone());
        let help = "Slow requests without a line in the log, because there were too many in a second";
        registry.register("http_slow_requests_unlogged", help, self.0.unlogged.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn judge(slow: &SlowRequests, took: Duration, millis: u64) -> Option<SlowRequest> {
        slow.judge(took, || WallMillis(millis))
    }

    #[test]
    fn the_log_has_ten_slow_requests_in_a_second_and_the_rest_is_counted() {
        let slow = SlowRequests::default();
        assert_eq!(judge(&slow, 9 * SECOND, 0), None, "without a limit, none is slow");
        slow.set_limit(SECOND);
        assert_eq!(judge(&slow, SECOND, 5_000), None);
        for number in 0..25 {
            let expected = if number < SLOW_REQUESTS_LOGGED_MAX { SlowRequest::Logged } else { SlowRequest::Counted };
            assert_eq!(judge(&slow, 2 * SECOND, 5_000 + u64::from(number)), Some(expected), "{number}");
        }
        assert_eq!((slow.0.slow.get(), slow.0.unlogged.get()), (25, 15));
        assert_eq!(judge(&slow, 2 * SECOND, 6_000), Some(SlowRequest::Logged), "another second");
        assert_eq!(judge(&slow, 2 * SECOND, 4_000), Some(SlowRequest::Logged), "the clock was set back");
        slow.set_limit(3 * SECOND);
        assert_eq!(judge(&slow, 2 * SECOND, 9_000), None);
    }
}

//! The clock that decides whether a lease is valid, and the one rule of validity.
//!
//! A client relies on a lease because of a keepalive that *it* sent and that was acknowledged, counted from **before**
//! the keepalive was sent: the server counts the full time from its arrival, which is later. The server's own clock
//! plays no part.

use std::time::Duration;
use tokio::sync::watch;

/// How often a wait for an end checks the clock: tokio's time stops while the machine is suspended, and this clock does
/// not.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How much too fast or too slow a clock may run, in percent. Working hardware stays below a hundredth of this.
pub const CLOCK_RATE_BOUND_PERCENT: u32 = 1;

/// The smallest margin: it covers the moment between reading the clock and acting on it.
pub const MARGIN_MIN: Duration = Duration::from_millis(20);

/// The time that the client subtracts from a lease of this length, because the client's clock may run slow by
/// [`CLOCK_RATE_BOUND_PERCENT`] while the server's clock runs fast by as much.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(fairhold_client::margin(Duration::from_secs(30)), Duration::from_millis(600));
/// ```
#[must_use]
pub fn margin(ttl: Duration) -> Duration {
    // Divide first, so that no time overflows. The rounding error is a few nanoseconds.
    (ttl / 100).saturating_mul(2 * CLOCK_RATE_BOUND_PERCENT).max(MARGIN_MIN)
}

/// A moment on a clock that never goes back and that counts time in which the machine is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment(since_boot())
    }

    pub(crate) fn plus(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time))
    }

    /// The time from this moment to a later one; zero if the other one is earlier.
    pub(crate) fn until(self, later: Moment) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// Until when the client may rely on a lease of this length whose keepalive was sent at that moment.
pub(crate) fn valid_until(sent: Moment, ttl: Duration) -> Moment {
    sent.plus(ttl.saturating_sub(margin(ttl)))
}

/// Waits until `left` reports the end, and returns it. It calls `left` again after each change. The sender of the
/// changes must live as long as this wait.
pub(crate) async fn wait_for_end<T, E>(mut changes: watch::Receiver<T>, left: impl Fn() -> Result<Duration, E>) -> E {
    loop {
        changes.mark_unchanged();
        match left() {
            Err(ended) => return ended,
            // After a change or after that time, check again.
            Ok(left) => drop(tokio::time::timeout(left.min(CHECK_EVERY), changes.changed()).await),
        }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Both parts of a time since boot are non-negative.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The monotonic clock, on systems without a boot-time clock. It may not count time in which the machine is suspended.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_lease_is_valid_for_less_than_its_time_from_before_it_was_sent() {
        let sent = Moment(ms(1_000));
        for (ttl, margin_of_ttl) in [(1_000, 20), (2_000, 40), (30_000, 600), (3_600_000, 72_000)] {
            assert_eq!(margin(ms(ttl)), ms(margin_of_ttl));
            assert!(margin(Duration::MAX) < Duration::MAX / 49);
            assert_eq!(valid_until(sent, ms(ttl)), Moment(ms(1_000 + ttl - margin_of_ttl)));
        }
    }

    #[test]
    fn with_both_clocks_at_their_bounds_the_client_gives_up_before_the_server() {
        for ttl in [ms(1_000), ms(30_000), ms(3_600_000)] {
            // In true time: the client's clock is slow, so it relies on the lease for longer; the server's clock is
            // fast, so it waits less.
            let relies = (ttl - margin(ttl)).as_secs_f64() / (1.0 - f64::from(CLOCK_RATE_BOUND_PERCENT) / 100.0);
            let waits = ttl.as_secs_f64() / (1.0 + f64::from(CLOCK_RATE_BOUND_PERCENT) / 100.0);
            assert!(relies <= waits, "{ttl:?}: the client relies on it for {relies} s, the server waits {waits} s");
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let before = Moment::now();
        assert!(before <= Moment::now() && before.until(Moment::now()) < ms(60_000));
        assert_eq!(before.plus(ms(5)).until(before), Duration::ZERO);
    }
}

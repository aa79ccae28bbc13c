//! The clock by which a lease is judged, and the one rule of validity.
//!
//! A lease is believed in from a keepalive that *this* client sent and that was acknowledged, counted from **before** it was
//! sent: the server gives the full time from its arrival on, which is later. What the server says of its own clock plays no part.

use std::time::Duration;
use tokio::sync::watch;

/// The clock is looked at this often while somebody waits for the end of something: tokio's time stands still while the
/// machine is suspended, ours does not.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// By how much a clock may run too fast or too slow, in percent. Working hardware stays below a hundredth of this.
pub const CLOCK_RATE_BOUND_PERCENT: u32 = 1;

/// The least margin: for the moment between looking at the clock and acting on it.
pub const MARGIN_MIN: Duration = Duration::from_millis(20);

/// What is taken off a lease of this length: the client's clock may run slow by [`CLOCK_RATE_BOUND_PERCENT`] while the
/// server's runs fast by as much.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(fairhold_client::margin(Duration::from_secs(30)), Duration::from_millis(600));
/// ```
#[must_use]
pub fn margin(ttl: Duration) -> Duration {
    // Divided first: no time is too long for it. In nanoseconds nothing that matters is lost by that.
    (ttl / 100).saturating_mul(2 * CLOCK_RATE_BOUND_PERCENT).max(MARGIN_MIN)
}

/// A moment on a clock that never goes back and that counts the time in which the machine was suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// The present moment.
    pub(crate) fn now() -> Moment {
        Moment(since_boot())
    }

    pub(crate) fn plus(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time))
    }

    /// How long it is from this moment to a later one; zero where that is over.
    pub(crate) fn until(self, later: Moment) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// Up to when a lease of that length may be believed in, whose keepalive was sent at that moment.
pub(crate) fn valid_until(sent: Moment, ttl: Duration) -> Moment {
    sent.plus(ttl.saturating_sub(margin(ttl)))
}

/// Waits until there is nothing left, and says how it ended. What is left is asked again whenever something changes that it
/// depends on; whoever changes it has to live as long as this wait.
pub(crate) async fn wait_for_end<T, E>(mut changes: watch::Receiver<T>, left: impl Fn() -> Result<Duration, E>) -> E {
    loop {
        changes.mark_unchanged();
        match left() {
            Err(ended) => return ended,
            // Whether it changed or time passed, it is looked at again.
            Ok(left) => drop(tokio::time::timeout(left.min(LOOK_EVERY), changes.changed()).await),
        }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither part of a time since boot is negative.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Where there is no such clock, the monotonic one: time in which the machine was suspended may not count there.
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
    fn a_lease_is_believed_in_for_less_than_its_time_from_before_it_was_asked_for() {
        let sent = Moment(ms(1_000));
        for (ttl, margin_of_it) in [(1_000, 20), (2_000, 40), (30_000, 600), (3_600_000, 72_000)] {
            assert_eq!(margin(ms(ttl)), ms(margin_of_it));
            assert!(margin(Duration::MAX) < Duration::MAX / 49);
            assert_eq!(valid_until(sent, ms(ttl)), Moment(ms(1_000 + ttl - margin_of_it)));
        }
    }

    #[test]
    fn with_both_clocks_at_their_bounds_the_client_gives_up_before_the_server() {
        for ttl in [ms(1_000), ms(30_000), ms(3_600_000)] {
            // In true time: the client's clock is slow, so it believes for longer; the server's is fast, so it waits less.
            let believes = (ttl - margin(ttl)).as_secs_f64() / (1.0 - f64::from(CLOCK_RATE_BOUND_PERCENT) / 100.0);
            let waits = ttl.as_secs_f64() / (1.0 + f64::from(CLOCK_RATE_BOUND_PERCENT) / 100.0);
            assert!(believes <= waits, "{ttl:?}: the client believes for {believes} s, the server waits {waits} s");
        }
    }

    #[test]
    fn the_clock_goes_forward() {
        let before = Moment::now();
        assert!(before <= Moment::now() && before.until(Moment::now()) < ms(60_000));
        assert_eq!(before.plus(ms(5)).until(before), Duration::ZERO);
    }
}

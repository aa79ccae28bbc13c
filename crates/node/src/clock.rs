//! The one place that reads the wall clock: for times that people read. No rule depends on it.

use fairhold_types::{duration, time::WallMillis};
use std::sync::OnceLock;

/// Shows the time, in milliseconds since the Unix epoch.
pub type WallClock = fn() -> WallMillis;

static OTHER_CLOCK: OnceLock<WallClock> = OnceLock::new();

/// Takes another clock for this machine's, in the whole process and for good: a simulator's, whose runs must repeat. `false`
/// where there is another one already.
pub fn use_wall_clock(clock: WallClock) -> bool {
    OTHER_CLOCK.set(clock).is_ok()
}

/// The wall clock, in milliseconds since the Unix epoch.
pub(crate) fn wall_now() -> WallMillis {
    match OTHER_CLOCK.get() {
        Some(clock) => clock(),
        None => this_machine(),
    }
}

#[expect(clippy::disallowed_methods, reason = "times for people come from the wall clock, and only from here")]
fn this_machine() -> WallMillis {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallMillis(duration::millis(since_epoch))
}

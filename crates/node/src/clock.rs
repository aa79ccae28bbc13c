//! The only place that reads the wall clock. Its times are for people; no rule depends on them.

use fairhold_types::{duration, time::WallMillis};
use std::sync::OnceLock;

/// Returns the time, in milliseconds since the Unix epoch.
pub type WallClock = fn() -> WallMillis;

static OTHER_CLOCK: OnceLock<WallClock> = OnceLock::new();

/// Replaces the wall clock of this machine in the whole process, for a simulator whose runs must repeat. It cannot be
/// undone. Returns `false` if the clock was replaced before.
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

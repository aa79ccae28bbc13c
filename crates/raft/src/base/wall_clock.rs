//! The wall clock of this machine. The leader takes from it when a join token expires; everything else is for people.

use fairhold_types::{duration, time::WallMillis};
use std::sync::OnceLock;

/// Returns the time, in milliseconds since the Unix epoch.
pub type WallClock = fn() -> WallMillis;

static OTHER_CLOCK: OnceLock<WallClock> = OnceLock::new();

/// Replaces the wall clock of all replicas in this process, for a simulator whose runs must repeat. It cannot be
/// undone. Returns `false` if the clock was replaced before.
pub fn use_wall_clock(clock: WallClock) -> bool {
    OTHER_CLOCK.set(clock).is_ok()
}

/// The wall clock, in milliseconds since the Unix epoch.
pub fn wall_now() -> WallMillis {
    match OTHER_CLOCK.get() {
        Some(clock) => clock(),
        None => this_machine(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the leader decides by the wall clock whether a join token has expired")]
fn this_machine() -> WallMillis {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallMillis(duration::millis(since_epoch))
}

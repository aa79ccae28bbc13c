//! The one place that reads the wall clock: for times that people read. No rule depends on it.

use fairhold_types::time::WallMillis;

/// The wall clock of this machine, in milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "times for people come from the wall clock, and only from here")]
pub(crate) fn wall_now() -> WallMillis {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

//! The conditions of a scenario: its network and its disks.

use std::time::Duration;

/// How the net behaves while nothing is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// A message takes up to so many microseconds.
    pub(crate) delay_micros: u64,
    /// One message in so many breaks its connection; 0: none does.
    pub(crate) break_one_in: u32,
    /// One heartbeat or vote in so many arrives twice; 0: none does.
    pub(crate) twice_one_in: u32,
}

/// How long a flush takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flushes {
    /// Each takes so long at least.
    pub(crate) at_least: Duration,
    /// And up to so many microseconds more.
    pub(crate) micros: u64,
}

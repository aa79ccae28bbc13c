//! The conditions of a scenario: its network and its disks.

use std::time::Duration;

/// How the network behaves while nothing is partitioned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NetworkConditions {
    /// The longest delay of a message, in microseconds.
    pub(crate) delay_micros: u64,
    /// One in this many messages breaks its connection; 0: none.
    pub(crate) break_one_in: u32,
    /// One in this many heartbeats or votes arrives twice; 0: none.
    pub(crate) twice_one_in: u32,
}

/// How long a flush takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flushes {
    /// The minimum time of each flush.
    pub(crate) at_least: Duration,
    /// The maximum additional time, in microseconds.
    pub(crate) micros: u64,
}

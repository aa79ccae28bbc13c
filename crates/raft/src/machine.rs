//! Drives the state machine: applies log entries to it, and writes and reads its snapshots.

pub(crate) mod apply;
pub(crate) mod counters;
pub mod defect;
pub(crate) mod log_bytes;
pub(crate) mod shared;
pub mod snapshot;
pub(crate) mod snapshot_writer;
pub(crate) mod stopped;

//! Tasks that run for as long as the replica does.

pub(crate) mod disk_reports;
pub(crate) mod known_processes;
pub(crate) mod leader_log;
pub(crate) mod removal_watch;
pub(crate) mod round_trip_watch;
pub(crate) mod set_addresses;
pub(crate) mod snapshots;

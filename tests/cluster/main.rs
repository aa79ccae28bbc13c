//! Black-box tests of a cluster: real processes, real sockets, HTTP alone. Each test is one story.

mod client;
mod disk_double;
mod harness;
mod procfs;
mod raw;
mod trial;

mod admin;
mod all_killed;
mod bad_input;
mod curl;
mod demos;
mod dev;
mod disk_bounded;
mod disk_full;
mod disk_mounted;
mod exactly_once;
mod fairness;
mod going_away;
mod hostile;
mod idle;
mod leader_killed;
mod leases;
mod limits;
mod listing;
mod metrics;
mod overload;
mod paused;
mod power_cut;
mod queue;
mod quorum;
mod sessions;
mod snapshot;
mod soak;
mod strangers;
mod streams;

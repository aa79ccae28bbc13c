//! The behaviour of one node: what a request does here, when a waiting request wakes, and the leader's clock.
//!
//! - `api`: the calls and their answers. `calls`: what each call does. `views`: what callers see of the state.
//! - `access`: the caller of a request, and how its rights are decided.
//! - `hub`: receives every applied event, and wakes the requests that wait at this node.
//! - `feed`: the newest events, and the watchers that they concern.
//! - `leader`: the leader's clock, keepalives, and everything that ends by itself.
//! - `alarms`: what the node sees of its cluster, for the rules of its alarms. `looks`: what the members say about
//!   themselves. `divergence`: whether they still have the same state.
//! - `base`: tasks, shutdown, metrics, memory, and long walks over the state.
//! - `node`: the parts of a node, started and stopped together. `scrape`: its metrics. `capacity`: how large a state it
//!   can hold.
//! - `bench_support`: what the benchmarks of watches measure.
//!
//! The crate is generic over the runtime: time and tasks come only from it, so that a simulator can run a node.

pub mod access;
mod alarms;
pub mod api;
mod base;
pub mod bench_support;
mod calls;
mod capacity;
pub mod clock;
mod divergence;
mod feed;
mod hub;
mod leader;
mod looks;
pub mod node;
mod scrape;
mod views;

pub use calls::{backup, elections, events, watch};
pub use feed::{change, watch_filter};
pub use node::{Node, NodeParts};

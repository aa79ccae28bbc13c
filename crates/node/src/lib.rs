//! One node's behaviour: what a request does here, who is woken when, and the leader's clock.
//!
//! - `acquire`, `abandon`, `hold`, `reads`, `writes`, `tree`: the calls of the API (`api` has their types). `view`,
//!   `positions`: what it is shown; `turns`: how a long walk lets others run.
//! - `elections`: who leads, and telling it.
//! - `watch`, `scope`, `change`: what a watch tells, and of what. `watchers`, `ring`: whom a change concerns, and what is kept.
//! - `hub`: wakes the requests that wait here. `keepalive`: gathers keepalives, and proves them at the leader.
//! - `capacity`: how large a state this node can hold. `memory`: whether it is short of memory.
//! - `expiry`: the leader's clock, the only one that judges; `sweeps`: which nodes of the tree have had their time.
//! - `workbench`: what benchmarks measure of watches.
//!
//! Generic over the runtime: time and tasks come from it alone, so that a simulator can run a node.

mod abandon;
mod acquire;
mod admin;
mod ahead;
pub mod api;
mod bounded;
mod capacity;
pub mod change;
mod chore;
pub mod clock;
mod convert;
mod deadlines;
pub mod elections;
mod expiry;
mod hold;
mod hub;
mod idle_locks;
mod initial;
mod keepalive;
mod marks;
mod memory;
mod metrics;
pub mod node;
mod open_request;
mod positions;
mod reads;
mod ring;
pub mod scope;
mod standing;
mod stop;
mod sweeps;
mod tasks;
#[cfg(test)]
mod test_clock;
mod tree;
mod turns;
mod verdicts;
mod view;
pub mod watch;
mod watchers;
pub mod workbench;
mod write_key;
mod writes;

pub use node::{Node, NodeParts};

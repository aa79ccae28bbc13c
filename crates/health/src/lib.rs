//! What is wrong with a cluster, and what to do about it: the rules of `fairhold doctor`, which looks from outside, and
//! the alarms that each node raises about what it knows itself.
//!
//! All of it is a pure function of what was seen. The callers do the looking: `cli` probes a cluster, and a node looks at
//! itself and its machine.

pub mod alarms;
pub mod answer;
pub mod cluster_probe;
pub mod divergence;
pub mod finding;
pub mod locks;
pub mod round_trips;
pub mod rules;
mod text;

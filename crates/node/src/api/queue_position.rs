//! What a waiter learns about the contenders ahead of it.

use fairhold_state::command::{HolderFacts, Meta};
use std::time::Duration;

/// A waiter's position and the contenders ahead, as far as this node knows: for people to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuePosition {
    /// The number of contenders ahead, plus 1; 0 if unknown.
    pub position: u64,
    /// The first contenders ahead, in order, holders first.
    pub ahead: Vec<Ahead>,
    /// The estimated waiting time, from the usual holding time; `None` if the holder exceeds it, or if it is unknown.
    pub estimate: Option<Duration>,
}

/// A contender ahead of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Its public facts.
    pub facts: HolderFacts,
    /// Its metadata, for people to read; of the first contender only.
    pub meta: Meta,
}

//! What a caller is told of those who stand ahead of it.

use fairhold_state::command::{HolderFacts, Meta};
use std::time::Duration;

/// Who stands ahead of a caller, as far as this node knows: for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InTheWay {
    /// Those ahead and 1; 0 where it is not known.
    pub position: u64,
    /// The first of those ahead, in order, holders first.
    pub ahead: Vec<Ahead>,
    /// How long those ahead may take yet, by what was usual.
    pub estimate: Option<Duration>,
}

/// A grant ahead of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// The waiter's owner.
    pub facts: HolderFacts,
    /// Its pairs of text, for people; of the first one only.
    pub meta: Meta,
}

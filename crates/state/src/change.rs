//! A command at work.

use crate::{
    State,
    command::{Event, Outcome},
};
use fairhold_types::{LockName, Revision, time::WallMillis};
use std::collections::BTreeSet;

/// A command at work: the state, the revision that it gets if it changes anything, and what happened so far.
pub(crate) struct Change<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) revision: Revision,
    pub(crate) at: WallMillis,
    pub(crate) events: Vec<Event>,
    /// How many nodes recursive deletes have removed.
    pub(crate) removed: usize,
    /// How many nodes were created.
    pub(crate) created: usize,
    /// Locks of which it was told that an administrator took them. Hardly a command has any, and each would drop an empty set.
    pub(crate) broken: Option<BTreeSet<LockName>>,
    /// What it has cost so far, in steps of about a microsecond.
    pub(crate) steps: u64,
    /// Those of them that are counted against what one command may do; the rest has bounds of its own.
    pub(crate) counted: u64,
}

/// What a rule did.
pub(crate) enum Effect {
    /// The state is another, and the command takes its revision.
    Changed(Outcome),
    /// The state is the same: the command was repeated, late or without an object.
    Unchanged(Outcome),
}

impl Change<'_> {
    /// Counts work that has a bound of its own.
    pub(crate) fn note_steps(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// Counts work of which one command may do so much only.
    pub(crate) fn step(&mut self, steps: u64) {
        self.steps += steps;
        self.counted += steps;
    }

    /// Whether the command may do more.
    pub(crate) fn has_room(&self) -> bool {
        self.counted < self.state.piece_steps
    }

    /// Whether it may end more, and then still grant what is free by that.
    pub(crate) fn has_room_to_end(&self) -> bool {
        self.counted < (self.state.piece_steps * 3 / 4).max(1)
    }

    /// The answer to a verdict on many objects.
    pub(crate) fn judged(&self, objects: usize) -> Effect {
        let outcome = Outcome::Judged { objects: objects as u64 };
        if self.events.is_empty() { Effect::Unchanged(outcome) } else { Effect::Changed(outcome) }
    }
}

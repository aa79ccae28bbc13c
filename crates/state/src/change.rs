//! A command while it is applied.

use crate::{
    State,
    command::{Event, Outcome},
};
use fairhold_access::{PrincipalKey, TenantNumber};
use fairhold_types::{LockName, Revision, time::WallMillis};
use std::collections::BTreeSet;

/// A command while it is applied: the state, the revision that it takes if it changes anything, and its events so far.
pub(crate) struct Change<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) revision: Revision,
    pub(crate) at: WallMillis,
    /// The principal that its guard names.
    pub(crate) principal: Option<PrincipalKey>,
    /// The tenant of that principal.
    pub(crate) tenant: Option<TenantNumber>,
    pub(crate) events: Vec<Event>,
    /// How many nodes its recursive deletes have removed.
    pub(crate) removed: usize,
    /// How many nodes it has created.
    pub(crate) created: usize,
    /// Locks for which it has emitted `Event::Broken`. Few commands have any, and dropping an empty set costs time.
    pub(crate) broken: Option<BTreeSet<LockName>>,
    /// Its cost so far, in steps of about a microsecond.
    pub(crate) steps: u64,
    /// The part of `steps` that counts against the bound on one command. The rest has bounds of its own.
    pub(crate) counted: u64,
}

/// The result of a rule.
pub(crate) enum Effect {
    /// The state changed, and the command takes its revision.
    Changed(Outcome),
    /// The state did not change: the command was a repetition, late, or had nothing to act on.
    Unchanged(Outcome),
}

impl Change<'_> {
    /// Adds work that has a bound of its own.
    pub(crate) fn add_uncounted_steps(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// Adds work that counts against the bound on one command.
    pub(crate) fn count_steps(&mut self, steps: u64) {
        self.steps += steps;
        self.counted += steps;
    }

    /// Whether the command may do more work.
    pub(crate) fn has_steps_left(&self) -> bool {
        self.counted < self.state.piece_steps
    }

    /// Whether the command may end more and still have room for the grants that follow.
    pub(crate) fn has_steps_left_to_end(&self) -> bool {
        self.counted < (self.state.piece_steps * 3 / 4).max(1)
    }

    /// The answer to a verdict on many objects.
    pub(crate) fn judged(&self, objects: usize) -> Effect {
        let outcome = Outcome::Judged { objects: objects as u64 };
        if self.events.is_empty() { Effect::Unchanged(outcome) } else { Effect::Changed(outcome) }
    }
}

//! Actors: the parties of the deadlock check.

use crate::{record::Contender, small_set::SmallSet};
use fairhold_types::{GrantNumber, SessionNumber};

/// A party that waits and releases as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// A named session with an owner that its caller named.
    Named(SessionNumber, String),
    /// A single grant.
    Unnamed(GrantNumber),
}

/// The grants and waits of a named actor, over all locks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ActorWaits {
    /// How many live grants it has.
    pub(crate) grants: usize,
    /// Its grants that are queued or wait for an upgrade.
    pub(crate) waiting: SmallSet<GrantNumber, 2>,
}

impl Actor {
    pub(crate) fn of(contender: &Contender) -> Actor {
        Actor::named(contender).unwrap_or(Actor::Unnamed(contender.number))
    }

    /// The named actor of a contender, if it has one.
    pub(crate) fn named(contender: &Contender) -> Option<Actor> {
        let has_name = contender.owner.given && !contender.anonymous;
        has_name.then(|| Actor::Named(contender.session, contender.owner.text.clone()))
    }
}

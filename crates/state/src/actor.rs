//! Actors: the parties of the deadlock check.

use crate::{record::Contender, small_set::SmallSet};
use fairhold_types::{GrantNumber, SessionNumber};

/// A party that waits and releases as one. It borrows the owner's text: a search makes one for each contender that it
/// visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor<'a> {
    /// A named session with an owner that its caller named.
    Named(SessionNumber, &'a str),
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

impl<'a> Actor<'a> {
    pub(crate) fn of(contender: &'a Contender) -> Actor<'a> {
        if contender.owner.given && !contender.anonymous {
            Actor::Named(contender.session, &contender.owner.text)
        } else {
            Actor::Unnamed(contender.number)
        }
    }

    /// The key of its waits in the index, if it is named.
    pub(crate) fn key(self) -> Option<(SessionNumber, String)> {
        if let Actor::Named(session, owner) = self { Some((session, owner.to_owned())) } else { None }
    }
}

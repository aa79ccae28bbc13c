//! What waits and releases as one, for the search for deadlocks.

use crate::record::Contender;
use fairhold_types::{GrantNumber, SessionNumber};

/// What waits and releases as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// A session's owner, by name.
    Named(SessionNumber, String),
    /// A grant by itself.
    Alone(GrantNumber),
}

/// What a named actor does, all locks together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ActorWaits {
    /// How many live grants it has.
    pub(crate) grants: usize,
    /// Those of them that wait, to be granted or to be the only holder.
    pub(crate) waits: imbl::OrdSet<GrantNumber>,
}

impl Actor {
    pub(crate) fn of(contender: &Contender) -> Actor {
        if contender.owner.given && !contender.anonymous {
            Actor::Named(contender.session, contender.owner.text.clone())
        } else {
            Actor::Alone(contender.number)
        }
    }
}

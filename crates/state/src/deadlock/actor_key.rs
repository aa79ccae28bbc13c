//! An actor as a key that borrows its name: a search makes one for each contender that it looks at.

use super::request::WaitRequest;
use crate::{actor::Actor, record::Contender};
use fairhold_types::{GrantNumber, SessionNumber};

/// An actor as a key that borrows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ActorKey<'a> {
    Named(SessionNumber, &'a str),
    Alone(GrantNumber),
}

impl<'a> ActorKey<'a> {
    pub(super) fn of(contender: &'a Contender) -> ActorKey<'a> {
        if contender.owner.given && !contender.anonymous {
            ActorKey::Named(contender.session, &contender.owner.text)
        } else {
            ActorKey::Alone(contender.number)
        }
    }

    pub(super) fn of_request(request: &'a WaitRequest<'a>) -> ActorKey<'a> {
        match &request.actor {
            Actor::Named(session, owner) => ActorKey::Named(*session, owner),
            Actor::Alone(number) => ActorKey::Alone(*number),
        }
    }
}

//! An actor as a map key that borrows the owner's text. A search makes one for each contender that it visits.

use super::request::WaitRequest;
use crate::{actor::Actor, record::Contender};
use fairhold_types::{GrantNumber, SessionNumber};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ActorKey<'a> {
    Named(SessionNumber, &'a str),
    Unnamed(GrantNumber),
}

impl<'a> ActorKey<'a> {
    pub(super) fn of(contender: &'a Contender) -> ActorKey<'a> {
        if contender.owner.given && !contender.anonymous {
            ActorKey::Named(contender.session, &contender.owner.text)
        } else {
            ActorKey::Unnamed(contender.number)
        }
    }

    pub(super) fn of_request(request: &'a WaitRequest<'a>) -> ActorKey<'a> {
        match &request.actor {
            Actor::Named(session, owner) => ActorKey::Named(*session, owner),
            Actor::Unnamed(number) => ActorKey::Unnamed(*number),
        }
    }
}

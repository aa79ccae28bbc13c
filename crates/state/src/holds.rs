//! The holds of one grant: the first one, and those that the same owner added (`reentrant`); and repeated acquires with
//! the id of one of them.
//!
//! Every hold has its own id, and a release names one. The grant ends with its last hold. With a plain counter, a
//! repeated release could end the hold of an outer section.

use crate::{
    change::{Change, Effect},
    command::{Acquire, Claimant, Event, HeldGrant, Outcome, Queued, Rejection, Want},
    ids::IdUse,
    key_use::refuse_difference,
    record::{Contender, Hold, SessionRecord},
};
use fairhold_types::{EndReason, GrantId, GrantNumber, Mode, SessionNumber, limits::HOLDS_MAX};
use std::cmp::Reverse;

impl Change<'_> {
    /// Attaches a repeated acquire to the live hold with its id. Only its attempt counts from now on.
    pub(crate) fn attach(&mut self, number: GrantNumber, acquire: &Acquire) -> Result<Effect, Rejection> {
        let contender = self.contender(number);
        let session = self.state.session(contender.session);
        let id = acquire.grant;
        let election = self.state.is_election(&contender.lock) == Some(true);
        refuse_other_acquire(contender, session, acquire, election)?;
        self.update_contenders(number, |contender| match contender.further_holds.iter_mut().find(|hold| hold.grant == id) {
            Some(hold) => hold.attempt += 1,
            None => contender.attempt += 1,
        });
        let contender = self.contender(number);
        let attempt = contender.attempt_of(&id);
        let outcome = hold_outcome(contender, &id);
        for lock in self.locks_of(number) {
            self.events.push(Event::Attached { lock, grant: number, attempt });
        }
        Ok(Effect::Changed(outcome))
    }

    /// A grant that the same owner of the session already holds and that covers the request. Among several, the one
    /// with the most permits; among equals, the oldest.
    pub(crate) fn held_by_same_owner(&self, session: SessionNumber, acquire: &Acquire) -> Option<GrantNumber> {
        let want = acquire.wants.first().filter(|_| acquire.reentrant)?;
        let queue = self.state.queue_of(&want.lock)?;
        let owner = acquire.owner.given.then_some(acquire.owner.text.as_str());
        let held = match &queue.by_holder {
            Some(index) => index.grant_of(session, owner).and_then(|number| self.state.contender_in(&want.lock, number)),
            None => {
                let holders = queue.holders.iter().filter_map(|number| self.state.contender_in(&want.lock, *number));
                let own = holders.filter(|holder| holder.session == session && !holder.cooling && same_owner(holder, acquire));
                own.min_by_key(|holder| (Reverse(holder.permits), holder.number))
            }
        };
        // All holders of a lock have the same mode.
        let has_it = |holder: &&Contender| {
            (holder.mode == Mode::Exclusive || want.mode == Mode::Shared) && holder.permits >= acquire.permits
        };
        held.filter(has_it).filter(|holder| !self.state.is_dead(holder)).map(|holder| holder.number)
    }

    /// Adds a hold to a held grant.
    pub(crate) fn add_hold(&mut self, number: GrantNumber, acquire: &Acquire) -> Result<Effect, Rejection> {
        if self.contender(number).holds() >= HOLDS_MAX {
            return Err(Rejection::HoldsFull { max: HOLDS_MAX as u64 });
        }
        self.require_tombstone_room()?;
        let hold = Hold {
            grant: acquire.grant,
            attempt: 1,
            want: acquire.wants[0].clone(),
            limit: acquire.limit,
            permits: acquire.permits,
            priority: acquire.priority,
            meta: acquire.meta.clone(),
            lock_delay_ms: acquire.lock_delay_ms,
            max_hold_ms: acquire.max_hold_ms,
        };
        self.update_contenders(number, |contender| contender.further_holds.push(hold.clone()));
        self.state.index.ids.insert(acquire.grant, IdUse::Grant(number));
        self.emit_holds(number);
        Ok(Effect::Changed(hold_outcome(self.contender(number), &acquire.grant)))
    }

    /// Ends one of several holds of a grant.
    pub(crate) fn end_hold(&mut self, number: GrantNumber, id: GrantId, reason: EndReason) {
        self.update_contenders(number, |contender| {
            contender.further_holds.retain(|hold| hold.grant != id);
            contender.first_released |= contender.grant == id;
        });
        self.state.index.ids.remove(&id);
        let session = self.contender(number).session;
        self.remember_in_session(session, id, reason);
        self.emit_holds(number);
    }

    fn emit_holds(&mut self, number: GrantNumber) {
        let holds = self.contender(number).holds() as u64;
        for lock in self.locks_of(number) {
            self.events.push(Event::Holds { lock, grant: number, holds });
        }
    }
}

/// The outcome for the caller of a hold: held or queued.
pub(crate) fn hold_outcome(contender: &Contender, id: &GrantId) -> Outcome {
    let number = contender.number;
    let session = contender.session;
    let attempt = contender.attempt_of(id);
    match contender.token() {
        Some(token) => Outcome::Held(HeldGrant { number, token, session, attempt }),
        None => Outcome::Queued(Queued { number, session, attempt }),
    }
}

/// An owner that the server derived from the connection may differ when the caller reconnects.
fn same_owner(contender: &Contender, acquire: &Acquire) -> bool {
    contender.owner.given == acquire.owner.given && (!acquire.owner.given || contender.owner.text == acquire.owner.text)
}

/// Refuses a repeated acquire that differs from the hold with its id. The wait is not compared. Of a value, only its
/// presence is compared: the leader may have proclaimed another.
fn refuse_other_acquire(
    contender: &Contender,
    session: Option<&SessionRecord>,
    acquire: &Acquire,
    election: bool,
) -> Result<(), Rejection> {
    let first = Hold::first_of(contender);
    let hold = contender.further_holds.iter().find(|hold| hold.grant == acquire.grant).unwrap_or(&first);
    let others: &[Want] = if hold.grant == contender.grant { &contender.others } else { &[] };
    let requested: Vec<&Want> = std::iter::once(&hold.want).chain(others).collect();
    let same_names = requested.iter().map(|want| &want.lock).eq(acquire.wants.iter().map(|want| &want.lock));
    let same_modes = requested.iter().map(|want| want.mode).eq(acquire.wants.iter().map(|want| want.mode));
    let same_session = match &acquire.claimant {
        Claimant::Session(id) => session.is_some_and(|session| session.id == Some(*id)),
        Claimant::Anonymous { .. } => contender.anonymous,
    };
    refuse_difference(&[
        ("name", !same_names),
        ("mode", !same_modes),
        ("value", election != acquire.value.is_some()),
        ("limit", hold.limit != acquire.limit),
        ("permits", hold.permits != acquire.permits),
        ("priority", hold.priority != acquire.priority),
        ("session", !same_session),
        ("owner", !same_owner(contender, acquire)),
        ("lock_delay", hold.lock_delay_ms != acquire.lock_delay_ms),
        ("max_hold", hold.max_hold_ms != acquire.max_hold_ms),
        ("meta", hold.meta != acquire.meta),
    ])
}

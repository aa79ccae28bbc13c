//! What an administrator sets of a lock, and asks of those who hold it; and the end of a grant that was held for as long as
//! it may.

use crate::{
    apply::{Change, Effect},
    command::{Event, Outcome, Rejection, Revoke, SetLock},
    grant::Keeper,
    record::{LockSettings, Revocation},
};
use fairhold_types::{EndReason, FencingToken, GrantNumber, LockName, Mode};
use std::collections::BTreeSet;

impl Change<'_> {
    /// Sets what is named. Nobody who holds is un-held; whoever waits and can no longer fit ends. Where anything stays as it
    /// would
    /// not be by itself, the lock is not forgotten.
    pub(crate) fn set_lock(&mut self, order: SetLock) -> Result<Effect, Rejection> {
        // A contender's node is no lock, and a lock below one would outlive it.
        if order.lock.is_reserved() {
            return Err(Rejection::Unsupported { what: "a lock with a contender's name".to_owned() });
        }
        let before = self.state.settings(&order.lock).cloned();
        let mut after = before.clone().unwrap_or_default();
        after.used = true;
        if let Some(limit) = order.limit.filter(|limit| after.limit != Some(*limit)) {
            (after.limit, after.limited_at) = (Some(limit), Some(self.revision));
        }
        after.max_waiters = order.max_waiters.or(after.max_waiters);
        after.max_hold_ms = order.max_hold_ms.or(after.max_hold_ms).filter(|most| *most > 0);
        let set_limit = after.limited_at.is_some() && after.limit.is_some_and(|limit| limit > 1);
        after.kept = set_limit || after.max_waiters.is_some() || after.max_hold_ms.is_some();
        if before.as_ref() == Some(&after) {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        self.open_lock(&order.lock, None, order.at);
        *self.state.settings_mut(&order.lock) = after;
        self.events.push(Event::LockSet { lock: order.lock.clone(), by: order.by.clone() });
        let locks = self.end_who_cannot_fit(&order.lock, &order.by);
        self.advance_all(locks);
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Ends those who wait for more permits than there are, or to share what has a limit; says which locks may go on.
    fn end_who_cannot_fit(&mut self, lock: &LockName, by: &str) -> BTreeSet<LockName> {
        let mut locks = BTreeSet::from([lock.clone()]);
        let limit = self.state.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let waiting = self.state.index.queues.get(lock).into_iter().flat_map(|queue| &queue.waiting);
        let cannot = |number: &GrantNumber| {
            let contender = self.state.contender_in(lock, *number);
            contender.is_some_and(|waits| waits.permits > limit || (limit > 1 && waits.mode == Mode::Shared))
        };
        let ended: Vec<GrantNumber> = waiting.map(|place| place.number()).filter(cannot).collect();
        let note = format!("the limit of {} was set to {limit}", lock.as_str());
        for number in ended {
            locks.extend(self.break_contender(number, by, &note, Keeper::Session));
        }
        locks
    }

    /// Asks those who hold the lock to give it back. Nothing ends by it.
    pub(crate) fn revoke(&mut self, order: Revoke) -> Effect {
        let queue = self.state.index.queues.get(&order.lock);
        let holders = queue.into_iter().flat_map(|queue| &queue.holders).copied();
        let holders: Vec<GrantNumber> = holders.filter(|number| !self.state.index.cooling.contains(number)).collect();
        if holders.is_empty() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        let word = Revocation { revision: self.revision, by: order.by, reason: order.reason };
        for grant in holders {
            self.alter(grant, |contender| contender.revoked = Some(word.clone()));
            let (lock, by, reason) = (order.lock.clone(), word.by.clone(), word.reason.clone());
            self.events.push(Event::Revoked { lock, grant, by, reason });
        }
        Effect::Changed(Outcome::Done)
    }

    /// Notes for how long a grant may hold that was just given: the least of what its request and its locks say.
    pub(crate) fn bound_hold(&mut self, number: GrantNumber) {
        let of_lock = |lock: &LockName| self.state.settings(lock).and_then(|settings| settings.max_hold_ms);
        let asked = self.contender(number).max_hold_ms;
        let hold_ms = self.state.locks_of(number).iter().filter_map(of_lock).chain(asked).min();
        if hold_ms.is_some() {
            self.alter(number, |contender| contender.hold_ms = hold_ms);
            self.state.index.bounded.insert(number);
        }
    }

    /// Ends a grant that was held for as long as it may, with all its holds: as one whose session expired, lock delay
    /// included. It
    /// is ignored where it has another token by now.
    pub(crate) fn end_bounded(&mut self, number: GrantNumber, token: FencingToken) -> Effect {
        let held = self.state.contender(number).filter(|contender| contender.hold_ms.is_some());
        let Some(contender) = held.filter(|contender| contender.token() == Some(token)) else {
            return Effect::Unchanged(Outcome::Nothing);
        };
        let (session, anonymous, delay) = (contender.session, contender.anonymous, contender.lock_delay_ms);
        let locks = self.state.locks_of(number);
        if delay > 0 {
            self.cool_contender(number, Keeper::Session);
        } else {
            self.end_contender(number, EndReason::Expired, Keeper::Session);
        }
        if anonymous {
            self.events.push(Event::SessionClosed { session });
            self.remove_session(session);
        }
        self.advance_all(locks);
        Effect::Changed(Outcome::Done)
    }
}

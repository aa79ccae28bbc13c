//! Granting: gives the lock, in order, to all waiters whose turn has come.

use crate::{
    State,
    change::Change,
    command::Event,
    pending::Pending,
    record::{Contender, LockSettings},
};
use fairhold_types::{
    FencingToken, GrantNumber, LockName,
    planted::{self, Bug},
};

/// What it costs to grant one lock of a grant.
const GRANT_STEPS: u64 = 8;

impl Change<'_> {
    /// Grants, in order, to all whose turn has come: one exclusive contender, or a batch of readers, or as many as have permits.
    /// A grant of several locks takes them together, and then the contenders behind it in the other locks may go on too. What is
    /// more than one command may do is left to later ones.
    pub(crate) fn advance_all(&mut self, locks: impl IntoIterator<Item = LockName>) {
        // Sorted, and the next one is the last: most often it is one lock, for which a set costs more.
        let mut locks: Vec<LockName> = locks.into_iter().collect();
        locks.sort_unstable_by(|one, other| other.cmp(one));
        locks.dedup();
        while let Some(lock) = locks.pop() {
            if self.is_still_broken(&lock) {
                continue;
            }
            self.finish_upgrade(&lock);
            loop {
                if !self.has_room() {
                    self.leave_advance(lock);
                    locks.into_iter().rev().for_each(|lock| self.leave_advance(lock));
                    return;
                }
                if let Some(dead) = self.state.first_dead(&lock) {
                    add_others(&mut locks, self.end_dead(dead), &lock);
                    self.finish_upgrade(&lock);
                } else if let Some(number) = self.state.first_grantable(&lock) {
                    add_others(&mut locks, self.give(number), &lock);
                } else {
                    break;
                }
            }
        }
    }

    /// Whether some hold a lock yet that lost it. The last of them may have gone with their sessions: then that is done, and a
    /// newcomer finds the lock free.
    fn is_still_broken(&mut self, lock: &LockName) -> bool {
        let Some(number) = self.state.index.breaking.get(lock).copied() else { return false };
        let held = self.state.index.queues.get(lock).is_some_and(|queue| !queue.holders.is_empty());
        if !held {
            self.finish(number);
        }
        held
    }

    /// Leaves it to later commands to grant those of a lock whose turn has come.
    fn leave_advance(&mut self, lock: LockName) {
        if self.is_still_broken(&lock) {
            return;
        }
        let advancing = self.state.index.advancing.contains(&lock);
        if !advancing && self.state.index.queues.contains_key(&lock) {
            self.leave(Pending::Advance { lock });
        }
    }

    pub(crate) fn advance(&mut self, lock: &LockName) {
        self.advance_all([lock.clone()]);
    }

    /// Grants all locks of a grant, and says which they are.
    fn give(&mut self, number: GrantNumber) -> Vec<LockName> {
        let (revision, at) = (self.revision, self.at);
        self.alter(number, |contender| {
            assert!(contender.granted_at.is_none(), "grant #{number} was granted twice");
            contender.granted_at = Some(revision);
            contender.held_since = Some(at);
        });
        let locks = self.state.locks_of(number);
        self.bound_hold(number);
        for lock in &locks {
            self.step(GRANT_STEPS);
            let granted = self.contender_in(lock, number).clone();
            self.count_granted(&granted);
            let holders = self.state.index.grant(&granted);
            self.state.index_holder(&granted, holders);
            self.note_token(lock, number);
            self.tell_leader(lock);
        }
        locks
    }

    /// Notes that this revision is the token of a holder.
    pub(crate) fn note_token(&mut self, lock: &LockName, number: GrantNumber) {
        let token = FencingToken(if planted::has(Bug::TokenOfTheQueue) { number.0 } else { self.revision.0 });
        let settings = self.state.settings_mut(lock);
        assert!(settings.last_token <= Some(token), "the fencing token of {lock} went back to {token}");
        settings.last_token = Some(token);
        self.events.push(Event::Granted { lock: lock.clone(), grant: number, token });
    }
}

/// Adds locks, each once, to those that are sorted from the last to the first.
fn add_others(locks: &mut Vec<LockName>, more: Vec<LockName>, but: &LockName) {
    for lock in more {
        if lock != *but
            && let Err(at) = locks.binary_search_by(|known| lock.cmp(known))
        {
            locks.insert(at, lock);
        }
    }
}

impl State {
    /// The first holder or the first of those who wait, where its session has ended: it is in nobody's way. One that lost another
    /// of its locks is left to the pieces of that break.
    fn first_dead(&self, lock: &LockName) -> Option<GrantNumber> {
        if self.index.ending.is_empty() {
            return None;
        }
        let queue = self.index.queues.get(lock)?;
        let first = [queue.holders.get_min().copied(), queue.waiting.get_min().map(|place| place.number())];
        let is_left = |first: &Contender| !first.cooling && self.is_ending(first.session);
        first.into_iter().flatten().find(|number| self.contender_in(lock, *number).is_some_and(is_left))
    }

    /// The first of those who wait, where it can be granted now.
    fn first_grantable(&self, lock: &LockName) -> Option<GrantNumber> {
        let waiting = &self.index.queues.get(lock)?.waiting;
        let newest = planted::has(Bug::OvertakesWaiters);
        let number = if newest { waiting.get_max()? } else { waiting.get_min()? }.number();
        if !self.is_ready(lock, number) {
            return None;
        }
        let alone = self.contender_in(lock, number).is_some_and(|contender| !contender.is_of_several());
        let together = || self.locks_of(number).iter().all(|other| other == lock || self.is_ready(other, number));
        (alone || together()).then_some(number)
    }

    /// Whether it waits as the first, and those who hold leave it room: one that has several locks is reserved then, as long as
    /// it is not so in all of them.
    pub(crate) fn is_ready(&self, lock: &LockName, number: GrantNumber) -> bool {
        let Some(queue) = self.index.queues.get(lock) else { return false };
        let Some(contender) = self.contender_in(lock, number) else { return false };
        if self.index.breaking.contains_key(lock) || self.is_dead(contender) {
            return false;
        }
        let limit = self.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let first = queue.waiting.get_min().is_some_and(|place| place.number() == number);
        (first || planted::has(Bug::OvertakesWaiters)) && self.fits(queue, contender.mode, contender.permits, limit)
    }
}

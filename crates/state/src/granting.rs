//! Granting: gives the lock, in order, to all waiters whose turn has come.

use crate::{
    State,
    change::Change,
    command::Event,
    pending::Pending,
    record::{Contender, LockSettings},
    service_rank::ServiceRank,
};
use fairhold_types::{
    FencingToken, GrantNumber, LockName, Revision,
    planted::{self, Bug},
};
use imbl::OrdSet;

/// What it costs to grant one lock of a grant.
const GRANT_STEPS: u64 = 8;

impl Change<'_> {
    /// Grants, in order, to all whose turn has come: one exclusive contender, or a batch of readers, or as many as have permits.
    /// A grant of several locks takes them together, and then the contenders behind it in the other locks may go on too. What is
    /// more than one command may do is left to later ones.
    pub(crate) fn grant_waiters(&mut self, locks: impl IntoIterator<Item = LockName>) {
        // Sorted, and the next one is the last: most often it is one lock, for which a set costs more.
        let mut locks: Vec<LockName> = locks.into_iter().collect();
        locks.sort_unstable_by(|one, other| other.cmp(one));
        locks.dedup();
        while let Some(lock) = locks.pop() {
            if self.is_being_broken(&lock) {
                continue;
            }
            self.finish_upgrade(&lock);
            loop {
                if !self.has_room() {
                    self.defer_granting(lock);
                    locks.into_iter().rev().for_each(|lock| self.defer_granting(lock));
                    return;
                }
                if let Some(dead) = self.state.first_dead(&lock) {
                    add_others(&mut locks, self.end_dead(dead), &lock);
                    self.finish_upgrade(&lock);
                } else if let Some(number) = self.state.first_grantable(&lock) {
                    add_others(&mut locks, self.grant(number), &lock);
                } else {
                    break;
                }
            }
        }
    }

    /// Whether some hold a lock yet that lost it. The last of them may have gone with their sessions: then that is done, and a
    /// newcomer finds the lock free.
    fn is_being_broken(&mut self, lock: &LockName) -> bool {
        let Some(number) = self.state.index.breaking.get(lock).copied() else { return false };
        let held = self.state.index.queues.get(lock).is_some_and(|queue| !queue.holders.is_empty());
        if !held {
            self.finish_pending(number);
        }
        held
    }

    /// Leaves it to later commands to grant those of a lock whose turn has come.
    fn defer_granting(&mut self, lock: LockName) {
        if self.is_being_broken(&lock) {
            return;
        }
        let granting = self.state.index.granting.contains(&lock);
        if !granting && self.state.index.queues.contains_key(&lock) {
            self.defer(Pending::Grant { lock });
        }
    }

    pub(crate) fn grant_waiters_of(&mut self, lock: &LockName) {
        self.grant_waiters([lock.clone()]);
    }

    /// Grants all locks of a grant, and says which they are.
    fn grant(&mut self, number: GrantNumber) -> Vec<LockName> {
        let revision = self.revision;
        let at = self.at;
        self.update_contenders(number, |contender| {
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
            self.emit_proclaimed(lock);
        }
        locks
    }

    /// Notes that this revision is the token of a holder.
    pub(crate) fn note_token(&mut self, lock: &LockName, number: GrantNumber) {
        let token = token_of_grant(self.revision, number);
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
        let first = [queue.holders.get_min().copied(), queue.waiting.get_min().map(|rank| rank.number())];
        let is_left = |first: &Contender| !first.cooling && self.is_ending(first.session);
        first.into_iter().flatten().find(|number| self.contender_in(lock, *number).is_some_and(is_left))
    }

    /// The first of those who wait, where it can be granted now.
    fn first_grantable(&self, lock: &LockName) -> Option<GrantNumber> {
        let waiting = &self.index.queues.get(lock)?.waiting;
        let number = next_waiter(waiting)?.number();
        if !self.can_be_granted(lock, number) {
            return None;
        }
        let alone = self.contender_in(lock, number).is_some_and(|contender| !contender.is_multi_lock());
        let together = || self.locks_of(number).iter().all(|other| other == lock || self.can_be_granted(other, number));
        (alone || together()).then_some(number)
    }

    /// Whether it waits as the first, and those who hold leave it room: one that has several locks is reserved then, as long as
    /// it is not so in all of them.
    pub(crate) fn can_be_granted(&self, lock: &LockName, number: GrantNumber) -> bool {
        let Some(queue) = self.index.queues.get(lock) else { return false };
        let Some(contender) = self.contender_in(lock, number) else { return false };
        if self.index.breaking.contains_key(lock) || self.is_dead(contender) {
            return false;
        }
        let limit = self.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let first = queue.waiting.get_min().is_some_and(|rank| rank.number() == number);
        (first || may_overtake()) && self.is_compatible(queue, contender.mode, contender.permits, limit)
    }
}

/// The token is the revision of the grant. The planted bug takes the revision at which it queued.
fn token_of_grant(revision: Revision, number: GrantNumber) -> FencingToken {
    FencingToken(if planted::has(Bug::TokenOfTheQueue) { number.0 } else { revision.0 })
}

/// The first waiter. The planted bug takes the last one.
fn next_waiter(waiting: &OrdSet<ServiceRank>) -> Option<ServiceRank> {
    let next = if may_overtake() { waiting.get_max() } else { waiting.get_min() };
    next.copied()
}

/// Never, except with the planted bug.
pub(crate) fn may_overtake() -> bool {
    planted::has(Bug::OvertakesWaiters)
}

//! Granting: gives a lock to its waiters, in order.

use crate::{
    State,
    change::Change,
    command::Event,
    contender::Locks,
    holder_index::HolderIndex,
    lock_table::LockRecord,
    pending::Pending,
    record::{Contender, LockSettings},
    service_rank::ServiceRank,
    small_set::SmallSet,
};
use fairhold_types::{
    FencingToken, GrantNumber, LockName,
    planted::{self, Bug},
};
use std::sync::Arc;

/// The cost of granting one lock of a grant, in steps.
const GRANT_STEPS: u64 = 8;

impl Change<'_> {
    /// Grants waiters in order while they are compatible with the holders: one exclusive contender, a batch of readers,
    /// or as many as have permits. A multi-lock grant takes all its locks together, and then the contenders behind it
    /// in its other locks may be granted too. Later commands grant the rest if one command has too few steps.
    pub(crate) fn grant_waiters(&mut self, locks: impl IntoIterator<Item = LockName>) {
        let mut locks = locks.into_iter();
        let Some(first) = locks.next() else { return };
        // Sorted in reverse, so that `pop` returns the next lock. One lock, the usual case, needs no list.
        let mut rest: Vec<LockName> = Vec::new();
        let mut next = Some(first);
        if let Some(second) = locks.next() {
            rest.extend(next.into_iter().chain([second]).chain(locks));
            rest.sort_unstable_by(|one, other| other.cmp(one));
            rest.dedup();
            next = rest.pop();
        }
        while let Some(lock) = next {
            if !self.grant_waiters_at(&lock, &mut rest) {
                self.defer_granting(lock);
                rest.into_iter().rev().for_each(|lock| self.defer_granting(lock));
                return;
            }
            next = rest.pop();
        }
    }

    /// Grants the waiters of one lock. Adds to `rest` the other locks in which they are granted or end. Returns false if
    /// too few steps are left.
    fn grant_waiters_at(&mut self, lock: &LockName, rest: &mut Vec<LockName>) -> bool {
        if self.is_being_broken(lock) {
            return true;
        }
        if self.state.queue_of(lock).is_none() {
            return self.has_steps_left();
        }
        self.finish_upgrade(lock);
        loop {
            if !self.has_steps_left() {
                return false;
            }
            if let Some(dead) = self.state.first_dead(lock) {
                add_others(rest, self.end_dead(dead), lock);
                self.finish_upgrade(lock);
            } else if let Some(number) = self.state.first_grantable(lock) {
                add_others(rest, self.grant(number), lock);
            } else {
                return true;
            }
        }
    }

    /// Whether a lock that is being broken still has holders. The last of them may have ended with their sessions. Then
    /// the break is complete, and newcomers find the lock free.
    fn is_being_broken(&mut self, lock: &LockName) -> bool {
        let Some(number) = self.state.index.breaking.get(lock).copied() else { return false };
        let held = self.state.queue_of(lock).is_some_and(|queue| !queue.holders.is_empty());
        if !held {
            self.finish_pending(number);
        }
        held
    }

    /// Leaves the granting of a lock to later commands.
    fn defer_granting(&mut self, lock: LockName) {
        if self.is_being_broken(&lock) {
            return;
        }
        let granting = self.state.index.granting.contains(&lock);
        if !granting && self.state.index.busy.contains(&lock) {
            self.defer(Pending::Grant { lock });
        }
    }

    /// Grants all locks of a grant. Returns those locks.
    fn grant(&mut self, number: GrantNumber) -> Locks {
        let (revision, at) = (self.revision, self.at);
        let locks = self.locks_of(number);
        let hold_ms = self.max_hold(number, &locks);
        self.update_contenders(number, |contender| {
            assert!(contender.granted_at.is_none(), "grant #{number} was granted twice");
            contender.granted_at = Some(revision);
            contender.held_since = Some(at);
            contender.hold_ms = hold_ms;
        });
        if hold_ms.is_some() {
            self.state.index.bounded.insert(number);
        }
        let waited_ms = at.0.saturating_sub(self.contender(number).queued_at.0);
        let at_once = number.0 == revision.0;
        Arc::make_mut(&mut self.state.totals).granted(waited_ms, at_once);
        let token = self.token_for(number);
        for lock in locks.iter() {
            let node = self.state.contender_node(lock, number).cloned();
            let Some(granted) = node.as_ref().and_then(|node| node.contender()) else {
                unreachable!("grant #{number} has no contender in {lock}")
            };
            let grant = |record: &mut LockRecord| record.grant(granted, token, waited_ms, at_once);
            let Some((election, unindexed)) = self.state.tree.locks.update(lock, grant) else {
                unreachable!("{lock} has a contender, but no record")
            };
            self.state.index.end_wait(granted);
            if unindexed {
                self.state.index_holders(lock);
            }
            self.emit_granted(lock, number, token, election);
        }
        locks
    }

    /// The maximum hold time of a new grant: the smallest `max_hold` of its request and its locks.
    fn max_hold(&self, number: GrantNumber, locks: &Locks) -> Option<u64> {
        locks.iter().fold(self.contender(number).max_hold_ms, |hold_ms, lock| shorter(hold_ms, self.state.settings(lock)))
    }

    /// Sets the maximum hold time of a grant that an upgrade has made new.
    pub(crate) fn set_max_hold(&mut self, number: GrantNumber) {
        let hold_ms = self.max_hold(number, &self.locks_of(number));
        self.update_contenders(number, |contender| contender.hold_ms = hold_ms);
        match hold_ms {
            Some(_) => self.state.index.bounded.insert(number),
            None => self.state.index.bounded.remove(&number),
        };
    }

    /// Emits the event that a lock was granted and, in an election, the new leader's value.
    pub(crate) fn emit_granted(&mut self, lock: &LockName, number: GrantNumber, token: FencingToken, election: bool) {
        self.count_steps(GRANT_STEPS);
        self.events.push(Event::Granted { lock: lock.clone(), grant: number, token });
        if election {
            self.emit_proclaimed(lock);
        }
    }

    /// The token of a grant that is given now: the revision. With the planted bug, the revision at which it queued.
    pub(crate) fn token_for(&self, number: GrantNumber) -> FencingToken {
        FencingToken(if planted::has(Bug::TokenOfTheQueue) { number.0 } else { self.revision.0 })
    }
}

/// The shorter of the maximum hold time so far and that of a lock.
pub(crate) fn shorter(hold_ms: Option<u64>, settings: Option<&LockSettings>) -> Option<u64> {
    hold_ms.into_iter().chain(settings.and_then(|settings| settings.max_hold_ms)).min()
}

/// Inserts locks that are not yet in the list, which is sorted in reverse.
fn add_others(locks: &mut Vec<LockName>, more: Locks, but: &LockName) {
    for lock in more {
        if lock != *but
            && let Err(at) = locks.binary_search_by(|known| lock.cmp(known))
        {
            locks.insert(at, lock);
        }
    }
}

impl State {
    /// Indexes the holders of a lock that has many. The queue keeps the index up to date.
    pub(crate) fn index_holders(&mut self, lock: &LockName) {
        let mut index = HolderIndex::default();
        let holders = self.queue_of(lock).into_iter().flat_map(|queue| &queue.holders);
        holders.filter_map(|number| self.contender_in(lock, *number)).for_each(|holder| index.add(holder));
        self.tree.locks.update(lock, |record| record.queue_mut().by_holder = Some(Arc::new(index)));
    }

    /// The first holder or the first waiter whose session has ended: it must not block others. The pending work of a
    /// break ends a grant that lost another of its locks.
    fn first_dead(&self, lock: &LockName) -> Option<GrantNumber> {
        if self.index.ending.is_empty() {
            return None;
        }
        let queue = self.queue_of(lock)?;
        let first = [queue.holders.get_min().copied(), queue.waiting.get_min().map(|rank| rank.number())];
        let session_ended = |first: &Contender| !first.cooling && self.is_ending(first.session);
        first.into_iter().flatten().find(|number| self.contender_in(lock, *number).is_some_and(session_ended))
    }

    /// The first waiter, if it can be granted now.
    fn first_grantable(&self, lock: &LockName) -> Option<GrantNumber> {
        let record = self.lock_record(lock)?;
        let number = next_waiter(&record.queue()?.waiting)?.number();
        let contender = self.contender_in(lock, number)?;
        if !self.is_next_and_fits(record, contender) {
            return None;
        }
        let ready = |other: &LockName| other == lock || self.can_be_granted(other, number);
        let all_ready = || self.contender(number).is_some_and(|first| first.locks().all(ready));
        (!contender.is_multi_lock() || all_ready()).then_some(number)
    }

    /// Whether it is the first waiter and compatible with the holders. A multi-lock contender that can be
    /// granted in only some of its locks is reserved there.
    pub(crate) fn can_be_granted(&self, lock: &LockName, number: GrantNumber) -> bool {
        let contender = self.lock_record(lock).zip(self.contender_in(lock, number));
        contender.is_some_and(|(record, contender)| self.is_next_and_fits(record, contender))
    }

    fn is_next_and_fits(&self, record: &LockRecord, contender: &Contender) -> bool {
        let lock = &contender.lock;
        let Some(queue) = record.queue() else { return false };
        let first = queue.waiting.get_min().is_some_and(|rank| rank.number() == contender.number);
        if !(first || planted_overtaking()) || self.index.breaking.contains_key(lock) || self.is_dead(contender) {
            return false;
        }
        self.is_compatible(queue, contender.mode, contender.permits, record.limit())
    }
}

/// The first waiter; with the planted bug, the last.
fn next_waiter(waiting: &SmallSet<ServiceRank, 2>) -> Option<ServiceRank> {
    let next = if planted_overtaking() { waiting.get_max() } else { waiting.get_min() };
    next.copied()
}

/// Always false, except with the planted bug.
pub(crate) fn planted_overtaking() -> bool {
    planted::has(Bug::OvertakesWaiters)
}

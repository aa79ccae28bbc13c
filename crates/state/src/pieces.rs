//! Does what is pending (`pending`), a piece at a time.

use crate::{
    State,
    change::{Change, Effect},
    command::{Event, Outcome},
    grant::TombstoneKeeper,
    pending::Pending,
    place::ServiceRank,
    record::{LockSettings, Revocation},
};
use fairhold_types::{GrantNumber, LockName};
use std::{collections::BTreeSet, ops::Bound};

impl State {
    /// Whether something is left to do for `Command::Continue`.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// How many pieces of work are not finished.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
}

impl Change<'_> {
    /// Leaves work to later commands.
    pub(crate) fn leave(&mut self, pending: Pending) {
        let work = &mut self.state.pending;
        // 0 is before all of them.
        work.next += 1;
        self.state.index.note_pending(work.next, &pending);
        work.work.insert(work.next, pending);
    }

    /// Does the next pieces, as much as one command may.
    pub(crate) fn go_on(&mut self) -> Effect {
        if self.state.pending.is_empty() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        while self.has_room_to_end()
            && let Some((number, pending)) = self.state.pending.turn()
        {
            self.state.pending.last = number;
            match self.piece(number, pending) {
                // It may have been finished by what it let go on.
                Some(rest) => {
                    if let Some(left) = self.state.pending.work.get_mut(&number) {
                        *left = rest;
                    }
                }
                None => self.finish(number),
            }
            self.step(1);
        }
        Effect::Changed(Outcome::Done)
    }

    /// Drops work of which nothing is left.
    pub(crate) fn finish(&mut self, number: u64) {
        if let Some(done) = self.state.pending.work.remove(&number) {
            self.state.index.forget_pending(&done);
        }
    }

    /// Does a piece of that work; gives what is left of it.
    fn piece(&mut self, number: u64, pending: Pending) -> Option<Pending> {
        match pending {
            Pending::EndSession { session, how } => {
                let (locks, done) = self.end_some_of(session, &how);
                if done {
                    self.finish(number);
                }
                self.advance_all(locks);
                (!done).then_some(Pending::EndSession { session, how })
            }
            Pending::Break { lock, by, reason } => {
                let (mut locks, done) = self.break_some(&lock, &by, &reason);
                if done {
                    self.finish(number);
                    locks.insert(lock.clone());
                }
                self.advance_all(locks);
                (!done).then_some(Pending::Break { lock, by, reason })
            }
            Pending::Revoke { lock, after, word } => {
                let after = self.revoke_some(&lock, after, &word)?;
                Some(Pending::Revoke { lock, after, word })
            }
            Pending::Refit { lock, after, by } => {
                let (locks, after) = self.refit_some(&lock, after, &by);
                self.advance_all(locks);
                after.map(|after| Pending::Refit { lock, after: Some(after), by })
            }
            Pending::Advance { lock } => {
                // What is left of it is noted anew.
                self.finish(number);
                self.advance_all([lock]);
                None
            }
        }
    }

    /// Asks the holders of a lock behind that grant to give it back. Returns the last one that was asked, where there are more.
    pub(crate) fn revoke_some(&mut self, lock: &LockName, after: GrantNumber, word: &Revocation) -> Option<GrantNumber> {
        let mut last = after;
        loop {
            let queue = self.state.index.queues.get(lock)?;
            let next = queue.holders.range((Bound::Excluded(last), Bound::Unbounded)).next().copied()?;
            if !self.has_room() {
                return Some(last);
            }
            last = next;
            self.step(HOLDER_STEPS);
            let holder = self.contender_in(lock, next);
            let newer = holder.granted_at > Some(word.revision);
            if newer || holder.cooling || self.state.is_dead(holder) {
                continue;
            }
            self.alter(next, |contender| contender.revoked = Some(word.clone()));
            let (by, reason) = (word.by.clone(), word.reason.clone());
            self.events.push(Event::Revoked { lock: lock.clone(), grant: next, by, reason });
        }
    }

    /// Ends those who wait for more permits than there are, or to share what has a limit, from after that place on; says which
    /// locks may go on, and the last place that was looked at where there are more.
    pub(crate) fn refit_some(
        &mut self,
        lock: &LockName,
        after: Option<ServiceRank>,
        by: &str,
    ) -> (BTreeSet<LockName>, Option<ServiceRank>) {
        let mut locks = BTreeSet::from([lock.clone()]);
        let limit = self.state.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let note = format!("the limit of {} was set to {limit}", lock.as_str());
        let mut last = after;
        loop {
            let begin = last.map_or(Bound::Unbounded, Bound::Excluded);
            let queue = self.state.index.queues.get(lock);
            let Some(next) = queue.and_then(|queue| queue.waiting.range((begin, Bound::Unbounded)).next().copied()) else {
                return (locks, None);
            };
            if !self.has_room_to_end() {
                return (locks, last.or(Some(ServiceRank::first())));
            }
            last = Some(next);
            self.step(1);
            if self.contender_in(lock, next.number()).cannot_fit(limit) {
                locks.extend(self.break_contender(next.number(), by, &note, TombstoneKeeper::Session));
            }
        }
    }
}

/// What it costs to change one contender.
pub(crate) const HOLDER_STEPS: u64 = 4;

//! Work that is too much for one command, and is done in pieces: each piece is a command of its own, `Continue`.
//!
//! What is pending is part of the state, so all nodes do the same pieces, and a new leader goes on where the old one stopped.
//! The leader proposes pieces as long as there is something pending. They take turns, so that a large piece of work does not hold
//! up a small one.

use crate::{
    State,
    apply::{Change, Effect},
    command::{Event, Outcome},
    grant::Keeper,
    index::Place,
    record::{LockSettings, Revocation},
    weighed::Weighed,
};
use fairhold_types::{GrantNumber, LockName, SessionNumber};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, ops::Bound};

/// One piece of work that is not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pending {
    /// The grants and nodes of a session that has ended.
    EndSession { session: SessionNumber, how: SessionEnd },
    /// The holders of a lock that an administrator broke.
    Break { lock: LockName, by: String, reason: String },
    /// The holders of a lock that an administrator revoked, from after that grant on.
    Revoke { lock: LockName, after: GrantNumber, word: Revocation },
    /// The waiters of a lock whose settings changed, from after that place on: waiters that can no longer fit end.
    Refit { lock: LockName, after: Option<Place>, by: String },
    /// The waiters of a lock that may be granted.
    Advance { lock: LockName },
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SessionEnd {
    /// By its owner.
    Closed,
    /// By the leader's verdict.
    Expired,
    /// By an administrator.
    Ended { by: String, reason: String },
}

/// All that is pending.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PendingWork {
    work: Weighed<u64, Pending>,
    /// The number of the next piece of work.
    next: u64,
    /// The one that was worked on last.
    last: u64,
}

impl Pending {
    pub(crate) fn concerns(&self, of: &LockName) -> bool {
        match self {
            Pending::Break { lock, .. } | Pending::Refit { lock, .. } | Pending::Revoke { lock, .. } => lock == of,
            Pending::EndSession { .. } | Pending::Advance { .. } => false,
        }
    }
}

impl PendingWork {
    pub(crate) fn len(&self) -> usize {
        self.work.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// How many bytes all of it counts together.
    pub(crate) fn bytes(&self) -> u64 {
        self.work.bytes()
    }

    /// The same, by a walk over all of it.
    pub(crate) fn recounted(&self) -> u64 {
        self.work.recounted()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.work.values()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&u64, &Pending)> {
        self.work.iter()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Pending> {
        self.work.get(&number)
    }

    /// Its counters, as a snapshot keeps them.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.next, self.last)
    }

    pub(crate) fn restore_counters(&mut self, (next, last): (u64, u64)) {
        (self.next, self.last) = (next, last);
    }

    pub(crate) fn restore(&mut self, number: u64, pending: Pending) {
        self.work.insert(number, pending);
    }

    /// The one whose turn it is.
    fn turn(&self) -> Option<(u64, Pending)> {
        let after = self.work.range((Bound::Excluded(self.last), Bound::Unbounded)).next();
        after.or_else(|| self.work.iter().next()).map(|(number, pending)| (*number, pending.clone()))
    }
}

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
    pub(crate) fn refit_some(&mut self, lock: &LockName, after: Option<Place>, by: &str) -> (BTreeSet<LockName>, Option<Place>) {
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
                return (locks, last.or(Some(Place::first())));
            }
            last = Some(next);
            self.step(1);
            if self.contender_in(lock, next.number()).cannot_fit(limit) {
                locks.extend(self.break_contender(next.number(), by, &note, Keeper::Session));
            }
        }
    }
}

/// What it costs to change one contender.
pub(crate) const HOLDER_STEPS: u64 = 4;

//! What an administrator takes away: a lock from those who hold it, a session with all that it owns.

use crate::{
    apply::{Change, Effect},
    command::{Break, Event, Outcome, Rejection},
    grant::Keeper,
    memory::Remembered,
};
use fairhold_types::{EndReason, GrantNumber, LockName, SessionNumber, limits::BROKEN_NAMED_MAX};
use std::collections::BTreeSet;

impl Change<'_> {
    /// Ends all who hold the lock, and one that cools; the next get their turn in the same step. Where nobody holds it the order
    /// is remembered all the same: repeated later, with the same key, it must not hit those who hold then.
    pub(crate) fn break_lock(&mut self, order: Break) -> Result<Effect, Rejection> {
        if self.written_before(order.key)?.is_some() {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        self.require_memory()?;
        let queue = self.state.index.queues.get(&order.lock);
        let holders: Vec<GrantNumber> = queue.into_iter().flat_map(|queue| &queue.holders).copied().collect();
        let mut locks = BTreeSet::from([order.lock.clone()]);
        for number in &holders {
            locks.extend(self.break_contender(*number, &order.by, &order.reason, Keeper::Session));
        }
        if !holders.is_empty() {
            self.events.push(Event::Broken { lock: order.lock.clone(), by: order.by, reason: order.reason });
        }
        self.advance_all(locks);
        let what = Remembered::Write { fingerprint: order.key.fingerprint, succeeded: true, results: Vec::new() };
        self.state.memory.remember(order.key.key, self.revision, what);
        let named = holders.iter().copied().take(BROKEN_NAMED_MAX).collect();
        Ok(Effect::Changed(Outcome::Broken { holders: holders.len() as u64, named }))
    }

    /// Ends a session by its number, with all that it owns, held or queued. What it had left to cool goes on cooling.
    pub(crate) fn end_session(&mut self, number: SessionNumber, by: &str, reason: &str) -> Result<Effect, Rejection> {
        let session = self.state.sessions.get(&number).ok_or(Rejection::NoSession)?;
        if session.id.is_some() {
            self.events.push(Event::SessionClosed { session: number });
        }
        let (mut locks, mut broken): (BTreeSet<LockName>, BTreeSet<LockName>) = (BTreeSet::new(), BTreeSet::new());
        for grant in self.state.grants_of(number) {
            let held = self.contender(grant).granted_at.is_some();
            for lock in self.break_contender(grant, by, reason, Keeper::Table) {
                // A grant that only waited may come before the one that held.
                if held && broken.insert(lock.clone()) {
                    self.events.push(Event::Broken { lock: lock.clone(), by: by.to_owned(), reason: reason.to_owned() });
                }
                locks.insert(lock);
            }
        }
        self.remove_ephemerals(number);
        self.remove_session(number);
        self.advance_all(locks);
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Says which locks may go on.
    pub(crate) fn break_contender(&mut self, number: GrantNumber, by: &str, note: &str, keeper: Keeper) -> Vec<LockName> {
        let contender = self.contender(number);
        let (cooling, ids) = (contender.cooling, contender.ids().collect::<Vec<_>>());
        if cooling {
            return self.free_cooling(number);
        }
        let locks = self.end_contender(number, EndReason::Broken, keeper);
        for lock in &locks {
            self.note_who_ended(lock, number, by, note);
        }
        if !note.is_empty() {
            // In the room that was reserved for the grant when it queued.
            for id in ids {
                self.state.memory.remember(id, self.revision, Remembered::Broken { note: note.to_owned() });
            }
        }
        locks
    }
}

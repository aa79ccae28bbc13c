//! How an administrator takes a lock from its holders. `session` has the end of a session.

use crate::{
    change::{Change, Effect},
    command::{Break, Event, Outcome, Rejection},
    contender::Locks,
    grant::TombstoneKeeper,
    pending::Pending,
    tombstones::Tombstone,
};
use fairhold_types::{EndReason, GrantNumber, LockName, limits::BROKEN_NAMED_MAX};
use std::collections::BTreeSet;

impl Change<'_> {
    /// Ends the holders of a lock and its cooling grants. The lock is granted again once the last of them is gone. The
    /// holders lose the lock at once; this command ends as many as it may, and later ones end the rest. The key is
    /// remembered even if the lock has no holder: a repeated request must not end later holders.
    pub(crate) fn break_lock(&mut self, request: &Break) -> Result<Effect, Rejection> {
        if self.state.was_written(request.key)? {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        let Break { key, lock, token, by, reason, at: _ } = request;
        // A refusal need not be remembered: a stale token stays stale.
        token.map_or(Ok(()), |token| self.state.verify_fence(lock, token, None))?;
        self.require_tombstone_room()?;
        let breaking = self.state.index.breaking.contains_key(lock);
        let queue = self.state.queue_of(lock).filter(|_| !breaking);
        let holders = queue.map_or(0, |queue| queue.holders.len());
        let named: Vec<GrantNumber> =
            queue.into_iter().flat_map(|queue| &queue.holders).copied().take(BROKEN_NAMED_MAX).collect();
        if holders > 0 {
            self.emit_broken(lock, by, reason);
            let (mut locks, done) = self.break_some_holders(lock, by, reason);
            if done {
                locks.insert(lock.clone());
            } else {
                self.defer(Pending::Break { lock: lock.clone(), by: by.clone(), reason: reason.clone() });
            }
            self.grant_waiters(locks);
        }
        self.remember_write(*key);
        Ok(Effect::Changed(Outcome::Broken { holders: holders as u64, named }))
    }

    /// Ends holders of a lock, as many as one command may. Returns their other locks, which may have a next grant, and
    /// whether no holder is left.
    pub(crate) fn break_some_holders(&mut self, lock: &LockName, by: &str, reason: &str) -> (BTreeSet<LockName>, bool) {
        let mut locks = BTreeSet::new();
        while let Some(holder) = self.state.queue_of(lock).and_then(|queue| queue.holders.get_min()).copied() {
            if !self.has_steps_left_to_end() {
                return (locks, false);
            }
            locks.extend(self.break_contender(holder, by, reason, TombstoneKeeper::Session));
        }
        locks.remove(lock);
        (locks, true)
    }

    /// Ends a grant: held, queued or cooling. Returns the locks that may have a next grant.
    pub(crate) fn break_contender(&mut self, number: GrantNumber, by: &str, note: &str, keeper: TombstoneKeeper) -> Locks {
        let contender = self.contender(number);
        if contender.cooling {
            return self.free_cooling(number);
        }
        let ids: Vec<_> = contender.ids().collect();
        let locks = self.end_contender(number, EndReason::Broken, keeper);
        for lock in locks.iter() {
            self.record_who_ended(lock, number, by, note);
        }
        if !note.is_empty() {
            // This uses the room that was reserved when the grant queued.
            for id in ids {
                self.state.tombstones.remember(id, self.revision, Tombstone::Broken { note: note.to_owned() });
            }
        }
        locks
    }

    /// Emits, once for each lock and command, that an administrator took it.
    pub(crate) fn emit_broken(&mut self, lock: &LockName, by: &str, reason: &str) {
        if self.broken.get_or_insert_default().insert(lock.clone()) {
            self.events.push(Event::Broken { lock: lock.clone(), by: by.to_owned(), reason: reason.to_owned() });
        }
    }
}

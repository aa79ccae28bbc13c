//! Does pending work (`pending`), one piece at a time.

use crate::{
    State,
    change::{Change, Effect},
    command::{Event, Outcome},
    grant::TombstoneKeeper,
    pending::Pending,
    record::{LockSettings, Revocation},
    service_rank::ServiceRank,
};
use fairhold_types::{GrantNumber, LockName};
use std::{collections::BTreeSet, ops::Bound};

/// The cost of changing one contender, in steps.
const CONTENDER_STEPS: u64 = 4;

impl State {
    /// Whether `Command::ContinuePendingWork` has anything to do.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.work.is_empty()
    }

    /// The number of unfinished items of pending work.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.work.len()
    }
}

impl State {
    /// The next piece. Sessions that shall end come first: a piece that grants must not grant to them.
    fn next_piece(&self) -> Option<(u64, Pending)> {
        let first = self.index.ending_openers.get_min().map(|(_, number)| *number);
        let first = first.and_then(|number| Some((number, self.pending.work.get(&number)?.clone())));
        first.or_else(|| self.pending.next_in_turn())
    }
}

impl Change<'_> {
    /// Leaves work to later commands.
    pub(crate) fn defer(&mut self, pending: Pending) {
        let work = &mut self.state.pending;
        // Numbers begin at 1: 0 is before all of them.
        work.next += 1;
        self.state.index.add_pending(work.next, &pending);
        self.state.tree.uses.begin(work.next, &pending);
        work.work.insert(work.next, pending);
    }

    /// Does the next pieces, as much as one command may.
    pub(crate) fn continue_pending(&mut self) -> Effect {
        if self.state.pending.work.is_empty() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.run_pieces();
        Effect::Changed(Outcome::Done)
    }

    /// Does pieces until this command has done enough.
    pub(crate) fn run_pieces(&mut self) {
        while self.has_steps_left_to_end()
            && let Some((number, pending)) = self.state.next_piece()
        {
            self.state.pending.last = number;
            match self.run_piece(number, pending) {
                // Grants that the piece caused may have finished the work.
                Some(rest) => {
                    if let Some(left) = self.state.pending.work.get_mut(&number) {
                        *left = rest;
                    }
                }
                None => self.finish_pending(number),
            }
            self.count_steps(1);
        }
    }

    /// Removes finished work.
    pub(crate) fn finish_pending(&mut self, number: u64) {
        if let Some(done) = self.state.pending.work.remove(&number) {
            self.state.index.remove_pending(&done);
        }
    }

    /// Does one piece of the work. Returns what is left of it.
    fn run_piece(&mut self, number: u64, pending: Pending) -> Option<Pending> {
        match pending {
            Pending::EndSession { session, how } => {
                let (locks, done) = self.end_some_grants(session, &how);
                if done {
                    self.finish_pending(number);
                }
                self.grant_waiters(locks);
                (!done).then_some(Pending::EndSession { session, how })
            }
            Pending::Break { lock, by, reason } => {
                let (mut locks, done) = self.break_some_holders(&lock, &by, &reason);
                if done {
                    self.finish_pending(number);
                    locks.insert(lock.clone());
                }
                self.grant_waiters(locks);
                (!done).then_some(Pending::Break { lock, by, reason })
            }
            Pending::Revoke { lock, after, revocation } => {
                let after = self.revoke_some(&lock, after, &revocation)?;
                Some(Pending::Revoke { lock, after, revocation })
            }
            Pending::ApplyLimit { lock, after, by } => {
                let (locks, after) = self.end_unfit_waiters(&lock, after, &by);
                self.grant_waiters(locks);
                after.map(|after| Pending::ApplyLimit { lock, after: Some(after), by })
            }
            Pending::EndSessionsOf(sessions) => self.end_some_sessions(&sessions).then_some(Pending::EndSessionsOf(sessions)),
            Pending::CountTenant { tenant, .. } => self.count_some(tenant),
            Pending::Grant { lock } => {
                // `grant_waiters` adds the rest as new work.
                self.finish_pending(number);
                self.grant_waiters([lock]);
                None
            }
        }
    }

    /// Asks the holders of a lock after a grant to release it. Returns the last one asked, if more remain.
    pub(crate) fn revoke_some(&mut self, lock: &LockName, after: GrantNumber, revocation: &Revocation) -> Option<GrantNumber> {
        let mut last = after;
        loop {
            let queue = self.state.queue_of(lock)?;
            let next = queue.holders.range((Bound::Excluded(last), Bound::Unbounded)).next().copied()?;
            if !self.has_steps_left() {
                return Some(last);
            }
            last = next;
            self.count_steps(CONTENDER_STEPS);
            let holder = self.contender_in(lock, next);
            let newer = holder.granted_at > Some(revocation.revision);
            if newer || holder.cooling || self.state.is_dead(holder) {
                continue;
            }
            self.update_contenders(next, |contender| contender.revoked = Some(revocation.clone()));
            self.events.push(Event::Revoked {
                lock: lock.clone(),
                grant: next,
                by: revocation.by.clone(),
                reason: revocation.reason.clone(),
            });
        }
    }

    /// Ends waiters after a rank that want more permits than the limit, or shared mode on a lock with a limit. Returns
    /// the locks that may have a next grant, and the last visited rank if more are left.
    pub(crate) fn end_unfit_waiters(
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
            let queue = self.state.queue_of(lock);
            let Some(next) = queue.and_then(|queue| queue.waiting.range((begin, Bound::Unbounded)).next().copied()) else {
                return (locks, None);
            };
            if !self.has_steps_left_to_end() {
                return (locks, last.or(Some(ServiceRank::first())));
            }
            last = Some(next);
            self.count_steps(1);
            if self.contender_in(lock, next.number()).can_never_fit(limit) {
                locks.extend(self.break_contender(next.number(), by, &note, TombstoneKeeper::Session));
            }
        }
    }
}

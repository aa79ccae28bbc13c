//! How a grant ends: released, withdrawn, abandoned or expired; and the lock delay that may follow.

use crate::{
    State,
    change::{Change, Effect},
    command::{Event, Outcome, Rejection},
    contender::Locks,
    holds::hold_outcome,
    key_use::KeyUse,
    keys::ChangeKeys,
    read::GrantStatus,
    record::Contender,
    tombstones::Tombstone,
};
use fairhold_types::{
    EndReason, GrantId, GrantNumber, SessionId, SessionNumber,
    planted::{self, Bug},
};
use std::collections::BTreeSet;

/// The cost of ending one contender, in steps.
const END_STEPS: u64 = 8;

/// Where the tombstone of an ended grant is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TombstoneKeeper {
    /// In its session, if that is a named session that stays open.
    Session,
    /// In the table, because the session ends too.
    Table,
}

impl Change<'_> {
    /// Releases a grant. An unknown id is remembered as ended, so that a late acquire is refused. If the caller names
    /// the session of the grant, that session remembers the id for as long as it is open.
    pub(crate) fn release(&mut self, grant: GrantId, session: Option<SessionId>) -> Result<Effect, Rejection> {
        match self.state.use_of(&grant) {
            KeyUse::Grant(number) => Ok(self.release_live(number, grant)),
            KeyUse::Free => {
                if session.is_none() {
                    self.require_tombstone_room()?;
                }
                Ok(self.remember_released(grant, session, Tombstone::Grant(EndReason::Released)))
            }
            // This restarts the time for which the id is remembered: the caller can repeat the release for as long as
            // the acquire may still arrive.
            KeyUse::Tombstone(_, what @ (Tombstone::Grant(_) | Tombstone::Broken { .. })) => {
                let what = what.clone();
                Ok(self.remember_released(grant, session, what))
            }
            KeyUse::Session(_)
            | KeyUse::Change(_)
            | KeyUse::Ended(_)
            | KeyUse::Tombstone(_, Tombstone::Session | Tombstone::Write { .. }) => Ok(Effect::Unchanged(Outcome::Nothing)),
        }
    }

    fn release_live(&mut self, number: GrantNumber, grant: GrantId) -> Effect {
        let contender = self.contender(number);
        if self.state.is_dead(contender) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        let reason = if contender.granted_at.is_some() { EndReason::Released } else { EndReason::Withdrawn };
        self.end_hold_or_grant(number, grant, reason)
    }

    /// Ends one hold of a grant, and with the last one the grant.
    fn end_hold_or_grant(&mut self, number: GrantNumber, id: GrantId, reason: EndReason) -> Effect {
        if self.contender(number).holds() > 1 {
            self.end_hold(number, id, reason);
        } else {
            let locks = self.end_contender(number, reason, TombstoneKeeper::Session);
            self.grant_waiters(locks);
        }
        Effect::Changed(Outcome::Done)
    }

    /// Remembers an id without a live grant as released.
    fn remember_released(&mut self, grant: GrantId, session: Option<SessionId>, what: Tombstone) -> Effect {
        let Some(session) = session else {
            self.state.tombstones.remember(grant, self.revision, what);
            return Effect::Changed(Outcome::Done);
        };
        let open = self.state.session_by_id(&session).map(|session| (session.number, session.ended.floor()));
        match open {
            // The ended session, or the floor, refuses a later acquire.
            None => Effect::Unchanged(Outcome::Nothing),
            Some((_, floor)) if Some(grant) <= floor => Effect::Unchanged(Outcome::Nothing),
            Some((number, _)) => {
                let reason = if let Tombstone::Grant(reason) = what { reason } else { EndReason::Broken };
                self.remember_in_session(number, grant, reason);
                Effect::Changed(Outcome::Done)
            }
        }
    }

    /// Takes a waiter out of the queue. If the grant is held by now, the outcome says so, and nothing changes.
    pub(crate) fn withdraw(&mut self, grant: GrantId, attempt: u64) -> Result<Effect, Rejection> {
        let number = self.live_grant(&grant)?;
        let contender = self.contender(number);
        if contender.attempt_of(&grant) > attempt {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        if contender.granted_at.is_some() {
            return Ok(Effect::Unchanged(hold_outcome(contender, &grant)));
        }
        let locks = self.end_contender(number, EndReason::Withdrawn, TombstoneKeeper::Session);
        self.grant_waiters(locks);
        Ok(Effect::Changed(Outcome::Done))
    }

    /// The caller disconnected. Its grant ends, queued or held, unless a newer attempt has attached.
    pub(crate) fn abandon(&mut self, grant: GrantId, attempt: u64) -> Effect {
        match self.live_grant(&grant) {
            Ok(number) if self.contender(number).attempt_of(&grant) <= attempt || abandons_newer_attempt() => {
                self.end_hold_or_grant(number, grant, EndReason::Withdrawn)
            }
            Ok(_) | Err(_) => Effect::Unchanged(Outcome::Nothing),
        }
    }

    /// Ends lock delays.
    pub(crate) fn end_cooling(&mut self, grants: &[GrantNumber]) -> Effect {
        self.end_judged(grants, |change, number| {
            change.state.index.cooling.contains(number).then(|| change.free_cooling(*number))
        })
    }

    /// Ends the grants that one verdict names, up to the limit of a command. `end` ends one of them; it returns `None` if
    /// the verdict came too late.
    pub(crate) fn end_judged<T>(&mut self, grants: &[T], end: impl Fn(&mut Self, &T) -> Option<Locks>) -> Effect {
        let mut locks = BTreeSet::new();
        let mut judged = 0;
        for grant in grants {
            if !self.has_steps_left_to_end() {
                break;
            }
            judged += 1;
            self.count_steps(1);
            locks.extend(end(self, grant).into_iter().flatten());
        }
        self.grant_waiters(locks);
        self.judged(judged)
    }

    /// Removes the contenders of a cooling grant. Returns its locks, which may have a next grant now.
    pub(crate) fn free_cooling(&mut self, number: GrantNumber) -> Locks {
        let locks = Locks::of(&self.remove_contenders(number).0);
        for lock in locks.iter() {
            self.count_steps(END_STEPS);
            self.events.push(Event::Cooled { lock: lock.clone(), grant: number });
        }
        locks
    }

    /// Ends a live grant, with its contenders and its anonymous session. Returns its locks, which may
    /// have a next grant now.
    pub(crate) fn end_contender(&mut self, number: GrantNumber, reason: EndReason, keeper: TombstoneKeeper) -> Locks {
        let (first, others) = self.remove_contenders(number);
        for contender in std::iter::once(&*first).chain(&others) {
            self.count_steps(END_STEPS);
            let lock = contender.lock.clone();
            self.events.push(Event::Ended { lock, grant: number, session: contender.session, reason });
            self.record_ended(contender, reason);
        }
        self.remember_ended(&first, reason, keeper);
        if first.anonymous && reason != EndReason::Expired {
            self.events.push(Event::SessionClosed { session: first.session });
            self.forget_session(first.session);
        }
        Locks::of(&first)
    }

    /// Ends a held grant that expired. Its contenders stay and block its locks until the lock delay is over.
    pub(crate) fn cool_contender(&mut self, number: GrantNumber, keeper: TombstoneKeeper) {
        let held = self.contender(number).clone();
        self.update_contenders(number, |contender| {
            contender.cooling = true;
            contender.upgrading = false;
            // Tombstones replace these now; they must not count twice.
            contender.keys = ChangeKeys::default();
            contender.further_holds = Vec::new();
        });
        for path in self.secondary_paths(&held) {
            if let Some(node) = self.state.tree.get_mut(path.as_str()) {
                node.ephemeral_owner = SessionNumber(0);
            }
        }
        if let Some(node) = self.state.tree.contender_mut(number) {
            node.ephemeral_owner = SessionNumber(0);
        }
        let contender = self.contender(number).clone();
        if held.upgrading {
            self.update_upgrading(&contender);
        }
        self.state.index.cool(&held);
        self.remember_ended(&held, EndReason::Expired, keeper);
        for lock in self.locks_of(number) {
            self.count_steps(END_STEPS);
            let expired = self.contender_in(&lock, number).clone();
            self.state.tree.locks.update(&lock, |record| record.queue_mut().unindex(&expired));
            self.events.push(Event::Ended {
                lock: lock.clone(),
                grant: number,
                session: contender.session,
                reason: EndReason::Expired,
            });
            self.record_ended(&expired, EndReason::Expired);
            self.events.push(Event::Cooling { lock, grant: number, delay_ms: contender.lock_delay_ms });
        }
    }

    /// The number of a live grant; otherwise how it ended, or that it is unknown.
    pub(crate) fn live_grant(&self, grant: &GrantId) -> Result<GrantNumber, Rejection> {
        match self.state.grant(grant) {
            GrantStatus::Live(contender) => Ok(contender.number),
            GrantStatus::Ended(reason) => Err(self.state.grant_ended(grant, reason)),
            GrantStatus::Unknown => Err(Rejection::NoGrant),
        }
    }

    fn remember_ended(&mut self, contender: &Contender, reason: EndReason, keeper: TombstoneKeeper) {
        let session = contender.session;
        // An ended session remembers nothing, even if one of its grants ends in another way before the pending work
        // ends it.
        let may_keep = matches!(keeper, TombstoneKeeper::Session) && !contender.anonymous;
        for id in contender.ids() {
            if !may_keep || !self.remember_in_session(session, id, reason) {
                self.state.index.ids.remove(&id);
                self.state.tombstones.remember(id, self.revision, Tombstone::Grant(reason));
            }
        }
        for key in contender.keys.iter() {
            self.state.index.ids.remove(&key.key);
            self.remember_write(*key);
        }
    }
}

impl State {
    /// The rejection for a grant that ended this way.
    pub(crate) fn grant_ended(&self, grant: &GrantId, reason: EndReason) -> Rejection {
        Rejection::GrantEnded { reason, note: self.break_note(grant) }
    }
}

/// Always false, except with the planted bug.
fn abandons_newer_attempt() -> bool {
    planted::has(Bug::AbandonsNewerAttempt)
}

//! How a grant ends: released, withdrawn, abandoned or expired; and the lock delay that may follow.

use crate::{
    State,
    change::{Change, Effect},
    command::{Event, Outcome, Rejection},
    holds::hold_outcome,
    key_use::KeyUse,
    keys::ChangeKeys,
    read::GrantStatus,
    record::{Contender, NodeRole},
    tombstones::Tombstone,
};
use fairhold_types::{
    EndReason, GrantId, GrantNumber, LockName, SessionId, SessionNumber, limits,
    planted::{self, Bug},
};
use std::collections::BTreeSet;

/// The cost of ending one contender, in steps.
const END_STEPS: u64 = 8;

/// Where the tombstone of an ended grant is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TombstoneKeeper {
    /// In its session, if that is a named session that lives on.
    Session,
    /// In the table, because the session ends too.
    Table,
}

impl Change<'_> {
    /// Gives a grant back. An unknown id is remembered as ended, so that an acquire that arrives later is refused. If
    /// the caller names the session of the grant, that session remembers it for as long as it lives.
    pub(crate) fn release(&mut self, grant: GrantId, session: Option<SessionId>) -> Result<Effect, Rejection> {
        match self.state.use_of(&grant) {
            KeyUse::Grant(number) => Ok(self.release_live(number, grant)),
            KeyUse::Free => {
                if session.is_none() {
                    self.require_tombstone_room()?;
                }
                Ok(self.remember_released(grant, session, Tombstone::Grant(EndReason::Released)))
            }
            // Its time starts again now: as long as its acquire may still arrive, the caller can repeat the release.
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
        if contender.holds() > 1 {
            self.end_hold(number, grant, EndReason::Released);
            return Effect::Changed(Outcome::Done);
        }
        let locks = self.end_contender(number, reason, TombstoneKeeper::Session);
        self.grant_waiters(locks);
        Effect::Changed(Outcome::Done)
    }

    /// Remembers as released an id that has no live grant.
    fn remember_released(&mut self, grant: GrantId, session: Option<SessionId>, what: Tombstone) -> Effect {
        let Some(session) = session else {
            self.state.tombstones.remember(grant, self.revision, what);
            return Effect::Changed(Outcome::Done);
        };
        let open = self.state.session_by_id(&session).map(|session| (session.number, session.ended.floor()));
        match open {
            // A later acquire is refused by the floor, or because the session has ended.
            None => Effect::Unchanged(Outcome::Nothing),
            Some((_, floor)) if Some(grant) <= floor => Effect::Unchanged(Outcome::Nothing),
            Some((number, _)) => {
                let reason = if let Tombstone::Grant(reason) = what { reason } else { EndReason::Broken };
                self.remember_in_session(number, grant, reason);
                Effect::Changed(Outcome::Done)
            }
        }
    }

    /// The caller stops waiting. If the grant is held by now, the answer says so.
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
        let live = self.live_grant(&grant).ok();
        match live {
            Some(number) if self.contender(number).attempt_of(&grant) > attempt && !abandons_newer_attempt() => {
                Effect::Unchanged(Outcome::Nothing)
            }
            Some(number) if self.contender(number).holds() > 1 => {
                self.end_hold(number, grant, EndReason::Withdrawn);
                Effect::Changed(Outcome::Done)
            }
            Some(number) => {
                let locks = self.end_contender(number, EndReason::Withdrawn, TombstoneKeeper::Session);
                self.grant_waiters(locks);
                Effect::Changed(Outcome::Done)
            }
            None => Effect::Unchanged(Outcome::Nothing),
        }
    }

    /// Ends lock delays.
    pub(crate) fn end_cooling(&mut self, grants: &[GrantNumber]) -> Effect {
        let mut locks = BTreeSet::new();
        let mut judged = 0;
        for number in grants {
            if !self.has_room_to_end() {
                break;
            }
            judged += 1;
            self.step(1);
            if self.state.index.cooling.contains(number) {
                locks.extend(self.free_cooling(*number));
            }
        }
        self.grant_waiters(locks);
        self.judged(judged)
    }

    /// Removes the contenders of a cooling grant. Returns its locks, which may have a next grant now.
    pub(crate) fn free_cooling(&mut self, number: GrantNumber) -> Vec<LockName> {
        let locks: Vec<LockName> = self.remove_contenders(number).into_iter().map(|contender| contender.lock).collect();
        self.step(END_STEPS * locks.len() as u64);
        for lock in &locks {
            self.events.push(Event::Cooled { lock: lock.clone(), grant: number });
        }
        locks
    }

    /// Ends a live grant: its contenders and, if it was made for this grant, its session. Returns its locks, which may
    /// have a next grant now.
    pub(crate) fn end_contender(&mut self, number: GrantNumber, reason: EndReason, keeper: TombstoneKeeper) -> Vec<LockName> {
        let contenders = self.remove_contenders(number);
        self.step(END_STEPS * contenders.len() as u64);
        for contender in &contenders {
            let lock = contender.lock.clone();
            self.events.push(Event::Ended { lock, grant: number, session: contender.session, reason });
            self.emit_vacated(contender);
            self.record_ended(contender, reason);
        }
        if let Some(first) = contenders.first() {
            self.remember_ended(first, reason, keeper);
            if first.anonymous && reason != EndReason::Expired {
                self.events.push(Event::SessionClosed { session: first.session });
                self.forget_session(first.session);
            }
        }
        contenders.into_iter().map(|contender| contender.lock).collect()
    }

    /// Ends a held grant that expired. Its contenders stay and block its locks until the lock delay is over.
    pub(crate) fn cool_contender(&mut self, number: GrantNumber, keeper: TombstoneKeeper) {
        let held = self.contender(number).clone();
        self.update_contenders(number, |contender| {
            contender.cooling = true;
            contender.upgrading = false;
            // These are remembered as ended now, and must not count twice.
            contender.keys = ChangeKeys::default();
            contender.further_holds = Vec::new();
        });
        for path in self.paths_of(number) {
            if let Some(node) = self.state.tree.get_mut(&path) {
                node.ephemeral_owner = SessionNumber(0);
            }
        }
        let contender = self.contender(number).clone();
        if held.upgrading {
            self.state.index.note_upgrading(&contender);
        }
        self.state.index.cool(&held);
        self.remember_ended(&held, EndReason::Expired, keeper);
        for lock in self.state.locks_of(number) {
            self.step(END_STEPS);
            let expired = self.contender_in(&lock, number).clone();
            self.state.unindex_cooling(&expired);
            self.record_ended(&expired, EndReason::Expired);
            self.events.push(Event::Ended {
                lock: lock.clone(),
                grant: number,
                session: contender.session,
                reason: EndReason::Expired,
            });
            self.emit_vacated(&expired);
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

    pub(crate) fn contender(&self, number: GrantNumber) -> &Contender {
        match self.state.contender(number) {
            Some(contender) => contender,
            None => unreachable!("the index has grant #{number}, but the tree has no contender of it"),
        }
    }

    /// The contender of a grant with one lock, to change fields that do not count in its weight. `update_contenders`
    /// can change all fields.
    pub(crate) fn contender_mut(&mut self, number: GrantNumber) -> &mut Contender {
        let path = self.state.index.contenders.get(&number);
        match path.and_then(|path| self.state.tree.get_mut(path)).map(|node| &mut node.role) {
            Some(NodeRole::Contender(contender)) => contender,
            Some(NodeRole::Data | NodeRole::Lock(_)) | None => {
                unreachable!("the index has grant #{number}, but the tree has no contender of it")
            }
        }
    }

    /// Refuses if one more id could not be remembered when it ends. Room is reserved for every live grant, so ending
    /// one never fails.
    pub(crate) fn require_tombstone_room(&self) -> Result<(), Rejection> {
        let index = &self.state.index;
        let reserved = self.state.tombstones.len() + index.grants.len() + index.session_keys.len() + index.change_keys.len();
        if reserved < limits::TOMBSTONES_MAX { Ok(()) } else { Err(Rejection::MemoryFull { max: limits::TOMBSTONES_MAX as u64 }) }
    }

    fn remember_ended(&mut self, contender: &Contender, reason: EndReason, keeper: TombstoneKeeper) {
        let session = contender.session;
        // An ended session remembers nothing, even if one of its grants ends in another way before the pieces of its
        // end reach it.
        let in_session = match keeper {
            TombstoneKeeper::Session => !contender.anonymous && self.state.sessions.contains_key(&session),
            TombstoneKeeper::Table => false,
        };
        for id in contender.ids() {
            if in_session {
                self.remember_in_session(session, id, reason);
            } else {
                self.state.tombstones.remember(id, self.revision, Tombstone::Grant(reason));
            }
        }
        contender.keys.iter().for_each(|key| self.remember_write(*key));
    }
}

impl State {
    /// How a grant ended, while that is remembered.
    pub(crate) fn ended_reason(&self, grant: &GrantId) -> Option<EndReason> {
        if let Some(session) = self.tombstones.in_session.get(grant).and_then(|number| self.sessions.get(number)) {
            return session.ended.get(grant);
        }
        match self.tombstones.get(grant)? {
            Tombstone::Grant(reason) => Some(*reason),
            Tombstone::Broken { .. } => Some(EndReason::Broken),
            Tombstone::Session | Tombstone::Write { .. } => None,
        }
    }

    /// The rejection for a grant that ended this way.
    pub(crate) fn grant_ended(&self, grant: &GrantId, reason: EndReason) -> Rejection {
        Rejection::GrantEnded { reason, note: self.break_note(grant) }
    }
}

/// Always false, except with the planted bug.
fn abandons_newer_attempt() -> bool {
    planted::has(Bug::AbandonsNewerAttempt)
}

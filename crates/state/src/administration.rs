//! Lock settings and revocation by administrators, and the end of grants that reach their maximum hold time.

use crate::{
    change::{Change, Effect},
    command::{Event, Outcome, Rejection, Revoke, SetLock},
    contender::Locks,
    grant::TombstoneKeeper,
    pending::Pending,
    record::{Contender, Revocation},
};
use fairhold_types::{EndReason, FencingToken, GrantNumber};

impl Change<'_> {
    /// Changes the given settings. No holder loses the lock. Waiters that no longer fit the limit end. The cluster
    /// keeps a lock that has a non-default setting.
    pub(crate) fn set_lock(&mut self, request: &SetLock) -> Result<Effect, Rejection> {
        // A contender's name is not a lock. A lock below a contender's node would outlive the contender.
        if request.lock.is_reserved() {
            return Err(Rejection::Unsupported { what: "a lock with a contender's name".to_owned() });
        }
        if let Some(key) = request.key {
            if self.state.was_written(key)? {
                return Ok(Effect::Unchanged(Outcome::Nothing));
            }
            self.require_tombstone_room()?;
        }
        let before = self.state.settings(&request.lock).cloned();
        let mut after = before.clone().unwrap_or_default();
        after.used = true;
        if let Some(limit) = request.limit.filter(|limit| after.limit != Some(*limit)) {
            after.limit = Some(limit);
            after.limited_at = Some(self.revision);
        }
        after.max_waiters = request.max_waiters.or(after.max_waiters);
        after.max_hold_ms = request.max_hold_ms.or(after.max_hold_ms).filter(|max_ms| *max_ms > 0);
        let set_limit = after.limited_at.is_some() && after.limit.is_some_and(|limit| limit > 1);
        after.kept = set_limit || after.max_waiters.is_some() || after.max_hold_ms.is_some();
        if before.is_none() {
            self.state.require_quota_of_lock(&request.lock)?;
        }
        // Remember the key even if nothing changes: a late repetition could change something.
        request.key.into_iter().for_each(|key| self.remember_write(key));
        if before.as_ref() == Some(&after) {
            return Ok(if request.key.is_some() { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) });
        }
        self.open_lock(&request.lock, None, request.at, |record| record.settings_mut().map(|settings| *settings = after));
        self.events.push(Event::LockSet { lock: request.lock.clone(), by: request.by.clone() });
        let (locks, after) = self.end_unfit_waiters(&request.lock, None, &request.by);
        if after.is_some() {
            self.defer(Pending::ApplyLimit { lock: request.lock.clone(), after, by: request.by.clone() });
        }
        self.grant_waiters(locks);
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Asks the holders of a lock to release it. Ends no grant.
    pub(crate) fn revoke(&mut self, request: &Revoke) -> Result<Effect, Rejection> {
        if let Some(key) = request.key {
            if self.state.was_written(key)? {
                return Ok(Effect::Unchanged(Outcome::Nothing));
            }
            self.require_tombstone_room()?;
        }
        let revocation = Revocation { revision: self.revision, by: request.by.clone(), reason: request.reason.clone() };
        let holders = self.state.queue_of(&request.lock).map_or(0, |queue| queue.holders.len());
        self.state.require_room_for_revocations(holders, &revocation)?;
        request.key.into_iter().for_each(|key| self.remember_write(key));
        let rest = self.revoke_some(&request.lock, GrantNumber(0), &revocation);
        let changed = request.key.is_some() || !self.events.is_empty() || rest.is_some();
        if let Some(after) = rest {
            self.defer(Pending::Revoke { lock: request.lock.clone(), after, revocation });
        }
        Ok(if changed { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) })
    }

    /// Ends grants that have reached their maximum hold time, with all their holds. The lock delay applies, as when a
    /// session expires. Skips a grant if its token has changed.
    pub(crate) fn end_holds(&mut self, holds: &[(GrantNumber, FencingToken)]) -> Effect {
        self.end_judged(holds, |change, (number, token)| change.end_overdue(*number, *token))
    }

    fn end_overdue(&mut self, number: GrantNumber, token: FencingToken) -> Option<Locks> {
        let bounded = self.state.contender(number).filter(|contender| contender.hold_ms.is_some());
        let contender = bounded.filter(|contender| self.state.token_of(contender) == Some(token))?;
        let Contender { session, anonymous, lock_delay_ms, .. } = *contender;
        let locks = self.locks_of(number);
        if lock_delay_ms > 0 {
            self.cool_contender(number, TombstoneKeeper::Session);
        } else {
            self.end_contender(number, EndReason::Expired, TombstoneKeeper::Session);
        }
        if anonymous {
            self.events.push(Event::SessionClosed { session });
            self.forget_session(session);
        }
        Some(locks)
    }
}

//! Sessions: opened by a client; ended by the client, by the leader's verdict or by an administrator, with everything
//! they own.

use crate::{
    change::{Change, Effect},
    command::{Event, Meta, OpenSession, Outcome, Rejection, WriteKey},
    contender::Locks,
    grant::TombstoneKeeper,
    ids::IdUse,
    key_use::{KeyUse, other_request, refuse_difference},
    pending::{Pending, SessionEnd},
    record::{Ended, SessionRecord},
    tombstones::Tombstone,
    weight::ended_weight,
};
use fairhold_types::{EndReason, GrantId, GrantNumber, LockName, SessionId, SessionNumber, limits, time::WallMillis};
use std::{collections::BTreeSet, sync::Arc};

/// A session with at most this many grants and ephemeral nodes ends at once, even if other work is pending.
const SMALL_SESSION: usize = 8;

impl Change<'_> {
    pub(crate) fn open_session(&mut self, open: &OpenSession) -> Result<Effect, Rejection> {
        if let Some(key) = open.key {
            match self.state.use_of(&key) {
                KeyUse::Free => self.require_tombstone_room()?,
                KeyUse::Session(number) => {
                    return self.state.session(number).map_or(Err(Rejection::SessionEnded), |session| reopened(session, open));
                }
                KeyUse::Tombstone(_, Tombstone::Session) => return Err(Rejection::SessionEnded),
                KeyUse::Grant(_) | KeyUse::Change(_) | KeyUse::Ended(_) | KeyUse::Tombstone(..) => return Err(other_request()),
            }
        }
        // Without a key, the random id shows that the same command was proposed twice.
        if let Some(session) = self.state.session_by_id(&open.id) {
            return reopened(session, open);
        }
        self.require_session_room()?;
        let number = SessionNumber(self.revision.0);
        self.insert_session(SessionRecord {
            number,
            id: Some(open.id),
            key: open.key,
            timeout_ms: open.timeout_ms,
            name: open.name.as_str().into(),
            meta: open.meta.clone(),
            opened_at: open.at,
            ended: Ended::default(),
        });
        Ok(Effect::Changed(Outcome::SessionOpened { id: open.id, number, timeout_ms: open.timeout_ms }))
    }

    /// Opens the anonymous session of one grant.
    pub(crate) fn open_anonymous_session(&mut self, timeout_ms: u64, at: WallMillis) -> SessionNumber {
        let number = SessionNumber(self.revision.0);
        self.insert_session(SessionRecord {
            number,
            id: None,
            key: None,
            timeout_ms,
            name: Box::default(),
            meta: Meta::new(),
            opened_at: at,
            ended: Ended::default(),
        });
        number
    }

    /// Ends a session at its owner's request.
    pub(crate) fn close_session(&mut self, id: SessionId) -> Result<Effect, Rejection> {
        let number = *self.state.index.session_ids.get(&id).ok_or(Rejection::NoSession)?;
        self.events.push(Event::SessionClosed { session: number });
        Ok(self.end_session_by(number, SessionEnd::Closed))
    }

    /// Ends a session by the leader's verdict. Held grants with a lock delay cool; everything else ends at once.
    pub(crate) fn expire_session(&mut self, number: SessionNumber) -> Effect {
        if !self.state.sessions.contains_key(&number) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.events.push(Event::SessionExpired { session: number });
        self.end_session_by(number, SessionEnd::Expired)
    }

    /// Ends a session by its number, with everything it owns. Grants that already cool are not affected.
    pub(crate) fn end_session(&mut self, number: SessionNumber, by: &str, reason: &str) -> Result<Effect, Rejection> {
        let session = self.state.sessions.get(&number).ok_or(Rejection::NoSession)?;
        if session.id.is_some() {
            self.events.push(Event::SessionClosed { session: number });
        }
        Ok(self.end_session_by(number, SessionEnd::Ended { by: by.to_owned(), reason: reason.to_owned() }))
    }

    /// Removes the session now, and ends as many of its grants and nodes as one command may. Later commands end the
    /// rest, which is dead until then (`visible`). If other work is pending, they end everything of a large session:
    /// otherwise sessions that end together would add a piece each.
    fn end_session_by(&mut self, number: SessionNumber, how: SessionEnd) -> Effect {
        let owns_much = self.state.grant_count(number) + self.state.ephemeral_count(number) > SMALL_SESSION;
        let goes_later = owns_much && self.state.has_pending();
        self.forget_session(number);
        let (locks, done) = if goes_later { (BTreeSet::new(), false) } else { self.end_some_grants(number, &how) };
        if !done {
            self.defer(Pending::EndSession { session: number, how });
        }
        self.grant_waiters(locks);
        Effect::Changed(Outcome::Done)
    }

    /// Ends grants of an ended session and then its nodes, as many as one command may. Returns the locks that may have
    /// a next grant, and whether nothing is left.
    pub(crate) fn end_some_grants(&mut self, session: SessionNumber, how: &SessionEnd) -> (BTreeSet<LockName>, bool) {
        let mut locks = BTreeSet::new();
        while let Some(grant) = self.state.index.of_session.get(&session).and_then(|grants| grants.get_min()).copied() {
            if !self.has_steps_left_to_end() {
                return (locks, false);
            }
            locks.extend(self.end_grant_of(grant, how));
        }
        let done = self.remove_ephemerals(session);
        (locks, done)
    }

    /// Ends a grant because its session has ended. Returns the locks that may have a next grant.
    fn end_grant_of(&mut self, grant: GrantNumber, how: &SessionEnd) -> Locks {
        let contender = self.contender(grant);
        let held = contender.granted_at.is_some();
        match how {
            SessionEnd::Closed => {
                self.end_contender(grant, if held { EndReason::Released } else { EndReason::Withdrawn }, TombstoneKeeper::Table)
            }
            SessionEnd::Expired if held && contender.lock_delay_ms > 0 => {
                // A waiting upgrade of this grant no longer stops new readers.
                let locks = self.locks_of(grant);
                self.cool_contender(grant, TombstoneKeeper::Table);
                locks
            }
            SessionEnd::Expired => self.end_contender(grant, EndReason::Expired, TombstoneKeeper::Table),
            SessionEnd::Ended { by, reason } => {
                let locks = self.break_contender(grant, by, reason, TombstoneKeeper::Table);
                for lock in locks.iter().filter(|_| held) {
                    self.emit_broken(lock, by, reason);
                }
                locks
            }
        }
    }

    /// Ends a grant of an ended session ahead of the pending work that would end it. Returns the locks that may have a
    /// next grant.
    pub(crate) fn end_dead(&mut self, grant: GrantNumber) -> Locks {
        let Some(how) = self.state.session_end(self.contender(grant)).cloned() else {
            unreachable!("grant #{grant} is dead, but nothing is pending for its session")
        };
        self.end_grant_of(grant, &how)
    }

    pub(crate) fn set_grant_timeout(
        &mut self,
        grant: GrantId,
        timeout_ms: u64,
        key: Option<WriteKey>,
    ) -> Result<Effect, Rejection> {
        let number = self.live_grant(&grant)?;
        let contender = self.contender(number);
        let session = contender.session;
        if !contender.anonymous {
            return Err(Rejection::SessionOwned { session });
        }
        if self.already_changed(number, key)? {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        // Remember the key even if nothing changes: a late repetition could change something.
        let remembered = self.remember_change(number, key);
        let record = self.state.sessions.get_mut(&session).ok_or(Rejection::NoSession)?;
        if record.timeout_ms == timeout_ms {
            return Ok(if remembered { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) });
        }
        Arc::make_mut(record).timeout_ms = timeout_ms;
        self.events.push(Event::SessionRetimed { session, timeout_ms });
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Removes a session's record, with its tombstones: they are promised only for the life of the session.
    pub(crate) fn forget_session(&mut self, number: SessionNumber) {
        let Some(session) = self.state.sessions.remove(&number) else {
            return;
        };
        self.state.index.remove_session(&session);
        self.state.forget_opener(number);
        self.add_uncounted_steps(session.ended.len() as u64);
        if let Some(key) = session.key {
            self.state.tombstones.remember(key, self.revision, Tombstone::Session);
        }
    }

    /// Remembers an ended grant in its session, which keeps the newest `SESSION_TOMBSTONES_MAX` by id and a floor.
    /// Returns false if the session is not open.
    pub(crate) fn remember_in_session(&mut self, number: SessionNumber, grant: GrantId, reason: EndReason) -> bool {
        let remember = |session: &mut Arc<SessionRecord>| Arc::make_mut(session).ended.remember(grant, reason);
        let Some(dropped) = self.state.sessions.change(&number, |session| ended_weight(session), remember) else {
            return false;
        };
        self.state.index.ids.insert(grant, IdUse::Ended(number));
        if let Some(dropped) = dropped {
            self.state.index.ids.remove(&dropped);
        }
        true
    }

    pub(crate) fn require_session_room(&self) -> Result<(), Rejection> {
        let max = limits::SESSIONS_MAX;
        if self.state.sessions.len() >= max {
            return Err(Rejection::SessionsFull { max: max as u64 });
        }
        self.tenant.map_or(Ok(()), |tenant| self.state.access.require_quota_of_session(tenant))
    }

    fn insert_session(&mut self, session: SessionRecord) {
        self.events.push(Event::SessionOpened { session: session.number, timeout_ms: session.timeout_ms });
        self.state.index.add_session(&session);
        self.principal.into_iter().for_each(|principal| self.state.record_opener(session.number, principal));
        self.tenant.into_iter().for_each(|tenant| self.state.record_tenant(session.number, tenant));
        self.state.sessions.insert(session.number, Arc::new(session));
    }
}

/// Answers a repeated open with the open session.
fn reopened(session: &SessionRecord, open: &OpenSession) -> Result<Effect, Rejection> {
    let SessionRecord { number, timeout_ms, .. } = *session;
    refuse_difference(&[
        ("ttl", timeout_ms != open.timeout_ms),
        ("name", *session.name != *open.name),
        ("meta", session.meta != open.meta),
    ])?;
    Ok(Effect::Unchanged(Outcome::SessionOpened { id: session.id.unwrap_or(open.id), number, timeout_ms }))
}

//! Sessions: opened by a client, ended by it or by the leader's verdict, together with all that they own.

use crate::{
    apply::{Change, Effect},
    command::{Event, Meta, OpenSession, Outcome, Rejection},
    grant::Keeper,
    memory::Remembered,
    record::{Ended, Session},
};
use fairhold_types::{EndReason, GrantId, SessionId, SessionNumber, limits, time::WallMillis};
use std::{collections::BTreeSet, sync::Arc};

impl Change<'_> {
    pub(crate) fn open_session(&mut self, open: OpenSession) -> Result<Effect, Rejection> {
        if let Some(key) = open.key {
            if let Some(session) = self.state.session_of_key(&key) {
                return reopened(session, &open);
            }
            match self.state.memory.get(&key) {
                Some(Remembered::Session) => return Err(Rejection::SessionEnded),
                Some(Remembered::Grant(_) | Remembered::Broken { .. } | Remembered::Write { .. }) => return Err(other_request()),
                None if self.state.index.grants.contains_key(&key) => return Err(other_request()),
                None if self.state.memory.in_session.contains_key(&key) => return Err(other_request()),
                None => self.require_memory()?,
            }
        }
        // Without a key the id, random as it is, tells that the same command was proposed twice.
        if let Some(session) = self.state.session_by_id(&open.id) {
            return reopened(session, &open);
        }
        self.require_session_room()?;
        let number = SessionNumber(self.revision.0);
        self.insert_session(Session {
            number,
            id: Some(open.id),
            key: open.key,
            timeout_ms: open.timeout_ms,
            name: open.name.into(),
            meta: open.meta,
            opened_at: open.at,
            ended: Ended::default(),
        });
        Ok(Effect::Changed(Outcome::SessionOpened { id: open.id, number, timeout_ms: open.timeout_ms }))
    }

    /// Makes the session of a grant that names none.
    pub(crate) fn open_anonymous_session(&mut self, timeout_ms: u64, at: WallMillis) -> SessionNumber {
        let number = SessionNumber(self.revision.0);
        self.insert_session(Session {
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

    pub(crate) fn close_session(&mut self, id: SessionId) -> Result<Effect, Rejection> {
        let number = *self.state.index.session_ids.get(&id).ok_or(Rejection::NoSession)?;
        self.events.push(Event::SessionClosed { session: number });
        let mut locks = BTreeSet::new();
        for grant in self.state.grants_of(number) {
            let reason = if self.contender(grant).granted_at.is_some() { EndReason::Released } else { EndReason::Withdrawn };
            locks.extend(self.end_contender(grant, reason, Keeper::Table));
        }
        self.remove_ephemerals(number);
        self.remove_session(number);
        self.advance_all(locks);
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Ends a session by the leader's verdict. What it held with a lock delay cools, all else is gone at once.
    pub(crate) fn expire_session(&mut self, number: SessionNumber) -> Result<Effect, Rejection> {
        if !self.state.sessions.contains_key(&number) {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        self.events.push(Event::SessionExpired { session: number });
        let mut locks = BTreeSet::new();
        for grant in self.state.grants_of(number) {
            let contender = self.contender(grant);
            if contender.granted_at.is_some() && contender.lock_delay_ms > 0 {
                // The others may go on all the same, where it was about to be the only one.
                locks.extend(self.state.locks_of(grant));
                self.cool_contender(grant, Keeper::Table);
            } else {
                locks.extend(self.end_contender(grant, EndReason::Expired, Keeper::Table));
            }
        }
        self.remove_ephemerals(number);
        self.remove_session(number);
        self.advance_all(locks);
        Ok(Effect::Changed(Outcome::Done))
    }

    pub(crate) fn set_grant_timeout(&mut self, grant: GrantId, timeout_ms: u64) -> Result<Effect, Rejection> {
        let number = self.live_grant(&grant)?;
        let (session, anonymous) = (self.contender(number).session, self.contender(number).anonymous);
        if !anonymous {
            return Err(Rejection::SessionOwned { session });
        }
        let record = self.state.sessions.get_mut(&session).ok_or(Rejection::NoSession)?;
        if record.timeout_ms == timeout_ms {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        Arc::make_mut(record).timeout_ms = timeout_ms;
        self.events.push(Event::SessionRetimed { session, timeout_ms });
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Removes a session that owns nothing any more. The grants that it remembers were promised for its life, and go with it.
    pub(crate) fn remove_session(&mut self, number: SessionNumber) {
        let Some(session) = self.state.sessions.remove(&number) else {
            return;
        };
        assert!(!self.state.index.of_session.contains_key(&number), "session {number} was removed before its grants");
        assert!(!self.state.index.ephemerals.contains_key(&number), "session {number} was removed before its nodes");
        self.state.index.remove_session(&session);
        for grant in session.ended.ids() {
            self.state.memory.in_session.remove(grant);
        }
        if let Some(key) = session.key {
            self.state.memory.remember(key, self.revision, Remembered::Session);
        }
    }

    /// Remembers an ended grant in its session: the newest `SESSION_ENDED_IDS_MAX` by id, and a floor under them.
    pub(crate) fn remember_in_session(&mut self, number: SessionNumber, grant: GrantId, reason: EndReason) {
        let Some(session) = self.state.sessions.get_mut(&number) else {
            return;
        };
        let dropped = Arc::make_mut(session).ended.remember(grant, reason);
        self.state.memory.in_session.insert(grant, number);
        if let Some(dropped) = dropped {
            self.state.memory.in_session.remove(&dropped);
        }
    }

    pub(crate) fn require_session_room(&self) -> Result<(), Rejection> {
        if self.state.sessions.len() < limits::SESSIONS_MAX {
            Ok(())
        } else {
            Err(Rejection::SessionsFull { max: limits::SESSIONS_MAX as u64 })
        }
    }

    fn insert_session(&mut self, session: Session) {
        self.events.push(Event::SessionOpened { session: session.number, timeout_ms: session.timeout_ms });
        self.state.index.add_session(&session);
        self.state.sessions.insert(session.number, Arc::new(session));
    }
}

/// Answers a repeated open with the session that is open already.
fn reopened(session: &Session, open: &OpenSession) -> Result<Effect, Rejection> {
    let (number, timeout_ms) = (session.number, session.timeout_ms);
    match first_difference(session, open) {
        None => Ok(Effect::Unchanged(Outcome::SessionOpened { id: session.id.unwrap_or(open.id), number, timeout_ms })),
        Some(field) => Err(Rejection::IdempotencyMismatch { field: field.to_owned() }),
    }
}

/// The first field in which a repeated open differs from what it opened.
fn first_difference(session: &Session, open: &OpenSession) -> Option<&'static str> {
    [("ttl", session.timeout_ms != open.timeout_ms), ("name", *session.name != *open.name), ("meta", session.meta != open.meta)]
        .into_iter()
        .find_map(|(field, differs)| differs.then_some(field))
}

/// The key was used with a call of another kind.
pub(crate) fn other_request() -> Rejection {
    Rejection::IdempotencyMismatch { field: "request".to_owned() }
}

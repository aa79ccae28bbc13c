//! What an id or a key was used for, and the answer to a repeated request.

use crate::{
    State,
    change::{Change, Effect},
    command::{Outcome, Rejection, WriteKey},
    ids::IdUse,
    tombstones::Tombstone,
};
use fairhold_types::{EndReason, GrantId, GrantNumber, Revision, SessionNumber, limits};

/// The use of an id or a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyUse<'a> {
    /// Not used, or forgotten.
    Free,
    /// The id of a live grant or of one of its holds.
    Grant(GrantNumber),
    /// The key that opened a live session.
    Session(SessionNumber),
    /// The key of a change of a live grant.
    Change(GrantNumber),
    /// The id of an ended grant, remembered by its session.
    Ended(EndReason),
    /// A tombstone in the table, and its revision.
    Tombstone(Revision, &'a Tombstone),
}

impl KeyUse<'_> {
    /// How the grant with this id ended, if it is the id of an ended grant.
    pub(crate) fn ended_reason(&self) -> Option<EndReason> {
        match self {
            KeyUse::Ended(reason) | KeyUse::Tombstone(_, Tombstone::Grant(reason)) => Some(*reason),
            KeyUse::Tombstone(_, Tombstone::Broken { .. }) => Some(EndReason::Broken),
            KeyUse::Tombstone(_, Tombstone::Session | Tombstone::Write { .. })
            | KeyUse::Free
            | KeyUse::Grant(_)
            | KeyUse::Session(_)
            | KeyUse::Change(_) => None,
        }
    }
}

impl State {
    /// The use of an id or a key.
    #[inline]
    pub(crate) fn use_of(&self, key: &GrantId) -> KeyUse<'_> {
        let ended = |session| self.sessions.get(&session).and_then(|session| session.ended.get(key));
        match self.index.ids.get(key) {
            Some(IdUse::Grant(number)) => KeyUse::Grant(number),
            Some(IdUse::Session(number)) => KeyUse::Session(number),
            Some(IdUse::Change(number)) => KeyUse::Change(number),
            Some(IdUse::Ended(session)) => ended(session).map_or(KeyUse::Free, KeyUse::Ended),
            None => self.tombstones.table.get(key).map_or(KeyUse::Free, |(since, what)| KeyUse::Tombstone(*since, what)),
        }
    }

    /// Whether a write with this key was already done. A key with another use is refused.
    pub fn was_written(&self, key: WriteKey) -> Result<bool, Rejection> {
        self.earlier_outcome(key).map(|outcome| outcome.is_some())
    }

    /// The revision of the write with this key, if it was done without changing a grant.
    pub(crate) fn written_at(&self, key: WriteKey) -> Option<Revision> {
        if let KeyUse::Tombstone(at, Tombstone::Write { fingerprint, .. }) = self.use_of(&key.key) {
            (*fingerprint == key.fingerprint).then_some(at)
        } else {
            None
        }
    }

    /// The outcome of the write with this key, if it was already done.
    #[inline]
    pub(crate) fn earlier_outcome(&self, key: WriteKey) -> Result<Option<Outcome>, Rejection> {
        match self.use_of(&key.key) {
            KeyUse::Free => Ok(None),
            KeyUse::Tombstone(at, Tombstone::Write { fingerprint, succeeded, results }) if *fingerprint == key.fingerprint => {
                let succeeded = *succeeded;
                Ok(Some(match results {
                    Some(results) => Outcome::Written { succeeded, results: results.clone(), at },
                    None => Outcome::WrittenBefore { succeeded, at },
                }))
            }
            KeyUse::Grant(_) | KeyUse::Session(_) | KeyUse::Change(_) | KeyUse::Ended(_) | KeyUse::Tombstone(..) => {
                Err(other_request())
            }
        }
    }
}

impl Change<'_> {
    /// Refuses if one more id could not be remembered when it ends. Room is reserved for every live grant, so ending
    /// one never fails.
    pub(crate) fn require_tombstone_room(&self) -> Result<(), Rejection> {
        let reserved = self.state.tombstones.table.len() + self.state.index.ids.live();
        if reserved < limits::TOMBSTONES_MAX { Ok(()) } else { Err(Rejection::MemoryFull { max: limits::TOMBSTONES_MAX as u64 }) }
    }

    /// Remembers the key of a write without results.
    pub(crate) fn remember_write(&mut self, key: WriteKey) {
        let what = Tombstone::Write { fingerprint: key.fingerprint, succeeded: true, results: Some(Vec::new()) };
        self.state.tombstones.remember(key.key, self.revision, what);
    }

    /// Whether the request with this key already changed the grant. Refuses a key with another use, and a key so old
    /// that the grant may have forgotten it.
    pub(crate) fn already_changed(&self, number: GrantNumber, key: Option<WriteKey>) -> Result<bool, Rejection> {
        let Some(key) = key else { return Ok(false) };
        let keys = &self.contender(number).keys;
        match self.state.use_of(&key.key) {
            KeyUse::Change(of) if of == number && keys.fingerprint(&key.key) == Some(key.fingerprint) => Ok(true),
            // The grant dropped this key for a newer one. The fingerprint covers the grant's id.
            KeyUse::Tombstone(_, Tombstone::Write { fingerprint, .. }) if *fingerprint == key.fingerprint => Ok(true),
            KeyUse::Free if keys.may_have_dropped(&key.key) => Err(Rejection::Forgotten),
            KeyUse::Free => self.require_tombstone_room().map(|()| false),
            KeyUse::Grant(_) | KeyUse::Session(_) | KeyUse::Change(_) | KeyUse::Ended(_) | KeyUse::Tombstone(..) => {
                Err(other_request())
            }
        }
    }

    /// Remembers, for the life of a grant, the key of a request that changed it. Returns whether there was a key.
    pub(crate) fn remember_change(&mut self, number: GrantNumber, key: Option<WriteKey>) -> bool {
        let Some(key) = key else { return false };
        let Some(dropped) = self.state.tree.change_contender(number, |contender| contender.keys.remember(key)) else {
            unreachable!("grant #{number} is live but has no contender");
        };
        self.state.index.ids.insert(key.key, IdUse::Change(number));
        if let Some(dropped) = dropped {
            self.state.index.ids.remove(&dropped.key);
            self.remember_write(dropped);
        }
        true
    }

    /// Remembers the key of a request whose effect is outside the state.
    pub(crate) fn record_key(&mut self, key: WriteKey) -> Result<Effect, Rejection> {
        if self.state.was_written(key)? {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        self.require_tombstone_room()?;
        self.remember_write(key);
        Ok(Effect::Changed(Outcome::Done))
    }
}

/// Refuses a repeated request that differs from the first one. The rejection names the first field that differs.
pub(crate) fn refuse_difference(fields: &[(&str, bool)]) -> Result<(), Rejection> {
    let first = fields.iter().find(|(_, differs)| *differs);
    first.map_or(Ok(()), |(field, _)| Err(Rejection::IdempotencyMismatch { field: (*field).to_owned() }))
}

/// The rejection of a key that was used with a call of another kind.
pub(crate) fn other_request() -> Rejection {
    Rejection::IdempotencyMismatch { field: "request".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Transact};
    use fairhold_types::time::WallMillis;

    #[test]
    fn a_write_is_known_by_its_key_and_its_fingerprint() {
        let mut state = State::new();
        let key = |id, fingerprint| WriteKey { key: GrantId::from_ulid(id), fingerprint: [fingerprint; 16] };
        let write =
            Transact { key: Some(key(1, 1)), conditions: Vec::new(), then: Vec::new(), otherwise: None, at: WallMillis(1) };
        state.apply(&Command::Transact(write)).answer.result.unwrap();
        assert_eq!((state.was_written(key(1, 1)), state.was_written(key(2, 1))), (Ok(true), Ok(false)));
        assert!(state.was_written(key(1, 2)).is_err());
    }
}

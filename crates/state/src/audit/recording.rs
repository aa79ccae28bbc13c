//! How an act is applied: the command itself, and then the entry about it.
//!
//! An act that changes something is recorded, and so is a refused one. A repeated act, which changes nothing, is not. An
//! entry is a change of the state, so a refused act takes a revision too.

use super::{
    act::ActWords,
    attributed::{ActOrigin, Attributed},
    note::{NoteAct, NotedAct, NotedEnd},
    record::{ActRecord, GENESIS},
    ring::AuditRing,
    text::fitting,
};
use crate::{
    State,
    apply::refused,
    change::{Change, Effect},
    command::{Applied, Command, Outcome, WriteKey},
};
use fairhold_access::PrincipalKey;
use fairhold_types::{cluster_version::AUDIT_SINCE, limits::AUDIT_BYTES_MAX};
use std::sync::Arc;

/// Of the budget, the ring takes this fraction at most.
const BUDGET_DIVISOR: u64 = 16;
/// The steps of an entry: its line, its hash, and the entries that it displaces.
const ENTRY_STEPS: u64 = 16;

impl State {
    /// The audit of administrative acts.
    #[must_use]
    pub fn audit(&self) -> &AuditRing {
        &self.audit
    }

    /// The audit, to keep.
    #[must_use]
    pub fn shared_audit(&self) -> Arc<AuditRing> {
        Arc::clone(&self.audit)
    }

    /// Whether the act with this key has its note. A handover records its key before its note. If the key is newer than
    /// the note, it was forgotten and recorded again: this is another handover.
    #[must_use]
    pub fn is_noted(&self, key: WriteKey, act: &NotedAct) -> bool {
        let Some(noted_at) = self.written_at(NoteAct::key_of(key)) else { return false };
        let is_handover = matches!(act, NotedAct::HandOver { .. });
        !is_handover || self.written_at(key).is_some_and(|handed_over_at| handed_over_at < noted_at)
    }

    /// Applies a command with its origin. Before the version that has the audit, nobody proposes such a command.
    pub(crate) fn apply_attributed(&mut self, attributed: &Attributed<Command>, principal: Option<PrincipalKey>) -> Applied {
        if let Err(rejection) = self.require_version(AUDIT_SINCE) {
            return refused(self, rejection);
        }
        let command = attributed.command();
        let Some((verb, key)) = command.act() else { return self.apply_bare(command, principal, None) };
        let is_repeated = key.is_some_and(|key| self.was_written(key) == Ok(true));
        let before = self.revision;
        let mut applied = self.apply_bare(command, principal, None);
        let result = match &applied.answer.result {
            Ok(_) if self.revision == before || (is_about_lock(command) && applied.events.is_empty()) => return applied,
            Ok(_) => result_of(command),
            Err(_) if is_repeated => return applied,
            Err(rejection) => {
                self.revision = before.next();
                rejection.code().as_str()
            }
        };
        let ActWords { on, detail, reason } = command.act_words(applied.answer.result.as_ref().ok());
        let origin = attributed.origin();
        let record = ActRecord {
            revision: self.revision,
            at: command.at(),
            origin: ActOrigin { request: fitting(origin.request.clone()), ..origin.clone() },
            verb: verb.to_owned(),
            on: fitting(on),
            detail: fitting(detail),
            reason: fitting(reason),
            result: result.to_owned(),
            hash: GENESIS,
        };
        let bytes_max = self.bytes_max().map_or(AUDIT_BYTES_MAX, |max| AUDIT_BYTES_MAX.min(max / BUDGET_DIVISOR));
        Arc::make_mut(&mut self.audit).append(record, bytes_max);
        applied.answer.revision = self.revision;
        applied.steps += ENTRY_STEPS;
        applied
    }
}

/// Whether an act is about one lock. With a key it always changes the state, which remembers the key: only its events tell
/// whether it had an effect.
fn is_about_lock(command: &Command) -> bool {
    matches!(command, Command::Break(_) | Command::Revoke(_) | Command::SetLock(_))
}

/// The result of an act that changed something.
fn result_of(command: &Command) -> &'static str {
    if let Command::NoteAct(NoteAct { end: NotedEnd::Unknown, .. }) = command { "unknown" } else { "ok" }
}

impl Change<'_> {
    /// Notes an act outside the state, once for each key and each time that it is done. The entry is made of the command, so
    /// without an origin this only remembers the note. It is never refused, because the act is done.
    pub(crate) fn note_act(&mut self, note: &NoteAct) -> Effect {
        let Some(key) = note.key else { return Effect::Changed(Outcome::Done) };
        if note.end != NotedEnd::DoneNow && self.state.is_noted(key, &note.act) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        let noted = NoteAct::key_of(key);
        // A caller may have sent a request with the key of the note. That request suppresses no entry, and stays known.
        if self.state.was_written(noted).is_ok() && self.require_tombstone_room().is_ok() {
            self.remember_write(noted);
        }
        Effect::Changed(Outcome::Done)
    }
}

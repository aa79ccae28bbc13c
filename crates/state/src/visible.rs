//! What remains of an ended session until later pieces remove it: dead grants and invisible nodes.
//!
//! A session ends with the first piece. From then on its grants have no token and no id, its waiters are not granted,
//! and its ephemeral nodes are invisible and do not conflict with new nodes. The holders of a lock that is being broken
//! are dead in the same way.

use crate::{
    State,
    pending::{Pending, SessionEnd},
    record::{Contender, NodeRole, Znode},
};
use fairhold_types::{EndReason, FencingToken, LockName, Path, SessionNumber};

impl State {
    /// The node at a path, unless its session has ended.
    #[inline]
    #[must_use]
    pub fn node(&self, path: &Path) -> Option<&Znode> {
        self.tree.get(path).filter(|node| !self.is_orphan(node))
    }

    /// Whether the session of a node has ended, so that one of the next pieces removes it.
    pub(crate) fn is_orphan(&self, node: &Znode) -> bool {
        !self.index.ending.is_empty() && node.role == NodeRole::Data && self.is_ending(node.ephemeral_owner)
    }

    /// Whether a session has ended and still has grants or nodes.
    #[must_use]
    pub fn is_ending(&self, session: SessionNumber) -> bool {
        self.index.ending.contains_key(&session)
    }

    /// Whether a grant has ended, and one of the next pieces removes it.
    #[must_use]
    pub fn is_dead(&self, contender: &Contender) -> bool {
        if contender.cooling {
            return false;
        }
        let index = &self.index;
        let broken = || {
            let held = !index.breaking.is_empty() && contender.granted_at.is_some();
            held && self
                .contender(contender.number)
                .is_some_and(|first| first.locks().any(|lock| index.breaking.contains_key(lock)))
        };
        (!index.ending.is_empty() && self.is_ending(contender.session)) || broken()
    }

    /// The token of a grant while it holds: not before, not while it cools, and not when it is dead.
    #[must_use]
    pub fn token_of(&self, contender: &Contender) -> Option<FencingToken> {
        contender.token().filter(|_| !self.is_dead(contender))
    }

    /// How a dead grant ended.
    pub(crate) fn end_of_dead(&self, contender: &Contender) -> EndReason {
        match self.session_end(contender) {
            Some(SessionEnd::Expired) => EndReason::Expired,
            Some(SessionEnd::Closed) if contender.granted_at.is_some() => EndReason::Released,
            Some(SessionEnd::Closed) => EndReason::Withdrawn,
            Some(SessionEnd::Ended { .. }) | None => EndReason::Broken,
        }
    }

    /// The reason that an administrator gave for ending a dead grant.
    pub(crate) fn break_note_of_dead(&self, contender: &Contender) -> Option<String> {
        if !self.is_dead(contender) {
            return None;
        }
        let broken = |lock: &LockName| {
            let pending = self.pending.work.get(self.index.breaking.get(lock)?)?;
            if let Pending::Break { reason, .. } = pending { Some(reason.clone()) } else { None }
        };
        let note = match self.session_end(contender) {
            Some(SessionEnd::Ended { reason, .. }) => Some(reason.clone()),
            Some(SessionEnd::Closed | SessionEnd::Expired) => None,
            None => self.locks_of(contender.number).iter().find_map(broken),
        };
        note.filter(|note| !note.is_empty())
    }

    /// How the session of a grant ended, while the pending work for it lasts.
    pub(crate) fn session_end(&self, contender: &Contender) -> Option<&SessionEnd> {
        let pending = self.pending.work.get(self.index.ending.get(&contender.session)?)?;
        if let Pending::EndSession { how, .. } = pending { Some(how) } else { None }
    }

    /// Whether work is pending for a lock: it is being broken or revoked, or its waiters are checked against new
    /// settings.
    #[must_use]
    pub fn is_settling(&self, lock: &LockName) -> bool {
        self.pending.work.values().any(|pending| pending.concerns(lock))
    }
}

//! What a session that has ended still has, until the pieces of its end have come to it: dead grants, and nodes that are gone
//! for everybody.
//!
//! A session ends with the first piece. From then on its grants have no token and no id, nothing is granted to its waiters, and
//! its ephemeral nodes are neither read nor in anybody's way. The same holds for those who hold a lock that is being broken.

use crate::{
    State,
    pending::{Pending, SessionEnd},
    record::{Contender, NodeRole, Znode},
};
use fairhold_types::{EndReason, FencingToken, LockName, Path, SessionNumber};

impl State {
    /// A node that is there for others.
    #[inline]
    pub(crate) fn visible(&self, path: &Path) -> Option<&Znode> {
        self.tree.get(path).filter(|node| !self.is_orphan(node))
    }

    /// Whether a node's session has ended, so that it goes with one of the next pieces.
    pub(crate) fn is_orphan(&self, node: &Znode) -> bool {
        !self.index.ending.is_empty() && node.role == NodeRole::Data && self.is_ending(node.ephemeral_owner)
    }

    /// Whether a session has ended, and not all that it had is gone yet.
    #[must_use]
    pub fn is_ending(&self, session: SessionNumber) -> bool {
        self.index.ending.contains_key(&session)
    }

    /// Whether a grant has ended, and goes with one of the next pieces.
    #[must_use]
    pub fn is_dead(&self, contender: &Contender) -> bool {
        if contender.cooling {
            return false;
        }
        let index = &self.index;
        let broken = || {
            let held = !index.breaking.is_empty() && contender.granted_at.is_some();
            held && self.locks_of(contender.number).iter().any(|lock| index.breaking.contains_key(lock))
        };
        (!index.ending.is_empty() && self.is_ending(contender.session)) || broken()
    }

    /// The token of a grant, while it holds: neither before, nor while it cools, nor once it is dead.
    #[must_use]
    pub fn token_of(&self, contender: &Contender) -> Option<FencingToken> {
        contender.token().filter(|_| !self.is_dead(contender))
    }

    /// How a dead grant will have ended.
    pub(crate) fn end_of_dead(&self, contender: &Contender) -> EndReason {
        match self.session_end(contender) {
            Some(SessionEnd::Expired) => EndReason::Expired,
            Some(SessionEnd::Closed) if contender.granted_at.is_some() => EndReason::Released,
            Some(SessionEnd::Closed) => EndReason::Withdrawn,
            Some(SessionEnd::Ended { .. }) | None => EndReason::Broken,
        }
    }

    /// What an administrator said who ended a dead grant.
    pub(crate) fn note_of_dead(&self, contender: &Contender) -> Option<String> {
        if !self.is_dead(contender) {
            return None;
        }
        let broken = |lock: &LockName| match self.pending.get(*self.index.breaking.get(lock)?)? {
            Pending::Break { reason, .. } => Some(reason.clone()),
            Pending::EndSession { .. } | Pending::Revoke { .. } | Pending::ApplyLimit { .. } | Pending::Grant { .. } => None,
        };
        let note = match self.session_end(contender) {
            Some(SessionEnd::Ended { reason, .. }) => Some(reason.clone()),
            Some(SessionEnd::Closed | SessionEnd::Expired) => None,
            None => self.locks_of(contender.number).iter().find_map(broken),
        };
        note.filter(|note| !note.is_empty())
    }

    fn session_end(&self, contender: &Contender) -> Option<&SessionEnd> {
        match self.pending.get(*self.index.ending.get(&contender.session)?)? {
            Pending::EndSession { how, .. } => Some(how),
            Pending::Break { .. } | Pending::Revoke { .. } | Pending::ApplyLimit { .. } | Pending::Grant { .. } => None,
        }
    }

    /// Whether more is to be done for a lock than its own commands did: it is being broken, or not all who wait for it were
    /// looked at since its settings changed.
    #[must_use]
    pub fn is_settling(&self, lock: &LockName) -> bool {
        self.pending.iter().any(|pending| pending.concerns(lock))
    }
}

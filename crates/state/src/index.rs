//! Caches of the tree and the sessions, over all locks. `State::check` compares them with their sources.

use crate::{
    actor::{Actor, ActorWaits},
    ids::{IdUse, Ids},
    pending::Pending,
    record::{Contender, NodeKind, NodeRole, SessionRecord, Znode},
    small_set::SmallSet,
};
use fairhold_access::PrincipalKey;
use fairhold_types::{GrantNumber, LockName, Path, SessionId, SessionNumber};
use imbl::{OrdMap, OrdSet};

/// Everything that is derived from the tree and the sessions, for fast lookup. A snapshot does not contain it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Index {
    /// Locks that have a holder or a waiter.
    pub(crate) busy: OrdSet<LockName>,
    /// Used locks that still have a node, including locks without contenders.
    pub(crate) locks: OrdSet<LockName>,
    /// Those of them that are elections.
    pub(crate) elections: OrdSet<LockName>,
    /// The paths of the other contenders of multi-lock grants.
    pub(crate) secondaries: OrdMap<(GrantNumber, LockName), Path>,
    /// The use of each id. The table of tombstones has the others.
    pub(crate) ids: Ids,
    /// How many grants wait.
    pub(crate) waiting: usize,
    /// Cooling grants.
    pub(crate) cooling: OrdSet<GrantNumber>,
    /// Held grants with a maximum hold time.
    pub(crate) bounded: OrdSet<GrantNumber>,
    /// The live grants of each session that has any.
    pub(crate) of_session: OrdMap<SessionNumber, SmallSet<GrantNumber, 2>>,
    /// The grants and waits of each named actor.
    pub(crate) actors: OrdMap<(SessionNumber, String), ActorWaits>,
    /// Ended sessions with grants or nodes left, and the number of their pending work.
    pub(crate) ending: OrdMap<SessionNumber, u64>,
    /// The principals whose sessions end, with the last of these sessions, and the number of their pending work.
    pub(crate) ending_openers: OrdMap<(PrincipalKey, SessionNumber), u64>,
    /// Locks that are being broken, and the number of their pending work.
    pub(crate) breaking: OrdMap<LockName, u64>,
    /// Locks with granting left to do.
    pub(crate) granting: OrdSet<LockName>,
    /// Named sessions by their secret id.
    pub(crate) session_ids: OrdMap<SessionId, SessionNumber>,
    /// The ephemeral nodes of each session that has any, except contenders.
    pub(crate) ephemerals: OrdMap<SessionNumber, OrdSet<Path>>,
    /// Containers and TTL nodes that may be removed once they have stayed unchanged for long enough.
    pub(crate) sweepable: OrdSet<Path>,
}

impl Index {
    /// Adds a contender, in any phase. The record of its lock has the queue.
    pub(crate) fn add_contender(&mut self, contender: &Contender, path: &Path) {
        let number = contender.number;
        if contender.secondary {
            self.secondaries.insert((number, contender.lock.clone()), path.clone());
            return;
        }
        self.waiting += usize::from(contender.granted_at.is_none());
        if contender.cooling {
            self.cooling.insert(number);
        } else {
            contender.ids().for_each(|id| self.ids.insert(id, IdUse::Grant(number)));
            contender.keys.iter().for_each(|key| self.ids.insert(key.key, IdUse::Change(number)));
            if contender.hold_ms.is_some() {
                self.bounded.insert(number);
            }
            self.of_session.entry(contender.session).or_default().insert(number);
            let waits = contender.granted_at.is_none() || contender.upgrading;
            self.update_actor(contender, |actor| {
                actor.grants += 1;
                waits.then(|| actor.waiting.insert(number));
            });
        }
    }

    /// Updates the entry of a grant's actor, if the actor is named.
    fn update_actor(&mut self, contender: &Contender, change: impl FnOnce(&mut ActorWaits)) {
        let Some(actor) = Actor::of(contender).key() else { return };
        if let Some(waits) = self.actors.get_mut(&actor) {
            change(waits);
            if waits.grants == 0 {
                self.actors.remove(&actor);
            }
            return;
        }
        let mut waits = ActorWaits::default();
        change(&mut waits);
        if waits.grants > 0 {
            self.actors.insert(actor, waits);
        }
    }

    /// Counts a waiter that has become a holder.
    pub(crate) fn end_wait(&mut self, contender: &Contender) {
        if !contender.secondary {
            self.waiting -= 1;
            self.update_actor_waits(contender, false);
        }
    }

    /// Updates the actor of a grant that waits from now on, or no longer waits.
    pub(crate) fn update_actor_waits(&mut self, contender: &Contender, waits: bool) {
        self.update_actor(contender, |actor| {
            if waits {
                actor.waiting.insert(contender.number);
            } else {
                actor.waiting.remove(&contender.number);
            }
        });
    }

    /// Removes a contender's grant from its ended session. The contender itself stays and blocks the lock. Its ids stay
    /// until they are remembered as ended.
    pub(crate) fn cool(&mut self, contender: &Contender) {
        self.remove_ownership(contender);
        self.cooling.insert(contender.number);
    }

    /// Removes a contender that is no longer in the tree. Its ids stay until they are remembered as ended.
    pub(crate) fn remove_contender(&mut self, contender: &Contender) {
        if contender.secondary {
            self.secondaries.remove(&(contender.number, contender.lock.clone()));
            return;
        }
        self.waiting -= usize::from(contender.granted_at.is_none());
        if contender.cooling {
            self.cooling.remove(&contender.number);
        } else {
            self.remove_ownership(contender);
        }
    }

    pub(crate) fn add_session(&mut self, session: &SessionRecord) {
        if let Some(id) = session.id {
            self.session_ids.insert(id, session.number);
        }
        if let Some(key) = session.key {
            self.ids.insert(key, IdUse::Session(session.number));
        }
        session.ended.ids().for_each(|id| self.ids.insert(*id, IdUse::Ended(session.number)));
    }

    pub(crate) fn remove_session(&mut self, session: &SessionRecord) {
        if let Some(id) = session.id {
            self.session_ids.remove(&id);
        }
        session.key.iter().chain(session.ended.ids()).for_each(|id| self.ids.remove(id));
    }

    /// Adds pending work.
    pub(crate) fn add_pending(&mut self, number: u64, pending: &Pending) {
        match pending {
            Pending::EndSession { session, .. } => drop(self.ending.insert(*session, number)),
            Pending::Break { lock, .. } => drop(self.breaking.insert(lock.clone(), number)),
            Pending::Grant { lock } => drop(self.granting.insert(lock.clone())),
            Pending::EndSessionsOf(of) => drop(self.ending_openers.insert((of.principal, of.through), number)),
            Pending::Revoke { .. } | Pending::ApplyLimit { .. } | Pending::CountTenant { .. } => {}
        }
    }

    /// Removes finished work.
    pub(crate) fn remove_pending(&mut self, pending: &Pending) {
        match pending {
            Pending::EndSession { session, .. } => drop(self.ending.remove(session)),
            Pending::Break { lock, .. } => drop(self.breaking.remove(lock)),
            Pending::Grant { lock } => drop(self.granting.remove(lock)),
            Pending::EndSessionsOf(of) => drop(self.ending_openers.remove(&(of.principal, of.through))),
            Pending::Revoke { .. } | Pending::ApplyLimit { .. } | Pending::CountTenant { .. } => {}
        }
    }

    /// Updates the entries of a node of the tree. Contenders go through `add_contender`.
    pub(crate) fn update_node(&mut self, path: &Path, node: &Znode) {
        if node.ephemeral_owner != SessionNumber(0) && node.role == NodeRole::Data {
            self.ephemerals.entry(node.ephemeral_owner).or_default().insert(path.clone());
        }
        match node.kind.get() {
            NodeKind::Container | NodeKind::Ttl { .. } if node.is_sweepable() => drop(self.sweepable.insert(path.clone())),
            NodeKind::Container | NodeKind::Ttl { .. } => drop(self.sweepable.remove(path)),
            NodeKind::Persistent | NodeKind::Ephemeral => {}
        }
    }

    /// Removes a node that is no longer in the tree.
    pub(crate) fn remove_node(&mut self, path: &Path, node: &Znode) {
        self.sweepable.remove(path);
        if let Some(owned) = self.ephemerals.get_mut(&node.ephemeral_owner) {
            owned.remove(path);
            if owned.is_empty() {
                self.ephemerals.remove(&node.ephemeral_owner);
            }
        }
    }

    fn remove_ownership(&mut self, contender: &Contender) {
        self.update_actor(contender, |actor| {
            actor.grants -= 1;
            actor.waiting.remove(&contender.number);
        });
        if contender.hold_ms.is_some() {
            self.bounded.remove(&contender.number);
        }
        if let Some(grants) = self.of_session.get_mut(&contender.session) {
            grants.remove(&contender.number);
            if grants.is_empty() {
                self.of_session.remove(&contender.session);
            }
        }
    }
}

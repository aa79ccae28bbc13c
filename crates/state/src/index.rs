//! Caches of the tree and the sessions: the queue of each lock, and what each id refers to. `State::check` compares
//! them with their sources.

use crate::{
    actor::{Actor, ActorWaits},
    holder_index::HolderIndex,
    pending::Pending,
    record::{Contender, NodeKind, NodeRole, SessionRecord, Znode},
    service_rank::ServiceRank,
    small_set::SmallSet,
};
use fairhold_types::{GrantId, GrantNumber, LockName, Mode, Path, SessionId, SessionNumber};
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

/// The contenders of one lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Queue {
    /// The holders and the cooling grants.
    pub(crate) holders: SmallSet<GrantNumber, 2>,
    /// The permits of all holders together.
    pub(crate) permits: u64,
    /// How many holders are exclusive.
    pub(crate) exclusive: usize,
    /// The holders by token and by owner, if there are many.
    pub(crate) by_holder: Option<Arc<HolderIndex>>,
    /// The waiters, in service order.
    pub(crate) waiting: SmallSet<ServiceRank, 2>,
    /// The waiters, the longest first.
    pub(crate) by_age: SmallSet<GrantNumber, 2>,
    /// The waiters that cannot be overtaken, in service order.
    pub(crate) barriers: SmallSet<ServiceRank, 1>,
    /// The shared holder that waits to be upgraded. There is never a second: the two would wait for each other.
    pub(crate) upgrading: Option<GrantNumber>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }

    /// How many waiters are before a rank. Counts from the nearer end of the queue.
    pub(crate) fn waiting_before(&self, rank: ServiceRank) -> usize {
        let mut before = self.waiting.range(..rank);
        let mut behind = self.waiting.range(rank..);
        let mut counted = 0;
        loop {
            if before.next().is_none() {
                return counted;
            }
            if behind.next().is_none() {
                return self.waiting.len() - counted;
            }
            counted += 1;
        }
    }

    fn add_holder(&mut self, contender: &Contender) {
        self.holders.insert(contender.number);
        self.permits += u64::from(contender.permits);
        self.exclusive += usize::from(contender.mode == Mode::Exclusive);
    }

    fn remove_holder(&mut self, contender: &Contender) {
        if self.holders.remove(&contender.number) {
            self.permits -= u64::from(contender.permits);
            self.exclusive -= usize::from(contender.mode == Mode::Exclusive);
        }
    }

    fn add_waiting(&mut self, contender: &Contender) {
        let rank = ServiceRank::of(contender);
        self.waiting.insert(rank);
        self.by_age.insert(contender.number);
        if contender.cannot_be_overtaken() {
            self.barriers.insert(rank);
        }
    }

    /// Returns whether it waited.
    fn remove_waiting(&mut self, rank: ServiceRank) -> bool {
        self.by_age.remove(&rank.number());
        self.barriers.remove(&rank);
        self.waiting.remove(&rank)
    }
}

/// Everything that is derived from the tree and the sessions, for fast lookup. A snapshot does not contain it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Index {
    /// Locks that have a holder or a waiter.
    pub(crate) queues: OrdMap<LockName, Arc<Queue>>,
    /// Used locks that still have a node, including locks without contenders.
    pub(crate) locks: OrdSet<LockName>,
    /// The paths of the other contenders of multi-lock grants.
    pub(crate) secondaries: OrdMap<(GrantNumber, LockName), Path>,
    /// Live grants by the ids of their holds: held or queued, but not cooling.
    pub(crate) grants: OrdMap<GrantId, GrantNumber>,
    /// How many grants wait.
    pub(crate) waiting: usize,
    /// Cooling grants.
    pub(crate) cooling: OrdSet<GrantNumber>,
    /// Held grants with a maximum hold time.
    pub(crate) bounded: OrdSet<GrantNumber>,
    /// The live grants of each session that has any.
    pub(crate) of_session: OrdMap<SessionNumber, SmallSet<GrantNumber, 2>>,
    /// The grants and waits of each named actor.
    pub(crate) actors: OrdMap<Actor, ActorWaits>,
    /// Live grants by the keys of the requests that changed them.
    pub(crate) change_keys: OrdMap<GrantId, GrantNumber>,
    /// Ended sessions with grants or nodes left, and the number of their pending work.
    pub(crate) ending: OrdMap<SessionNumber, u64>,
    /// Locks that are being broken, and the number of their pending work.
    pub(crate) breaking: OrdMap<LockName, u64>,
    /// Locks with granting left to do.
    pub(crate) granting: OrdSet<LockName>,
    /// Named sessions by their secret id.
    pub(crate) session_ids: OrdMap<SessionId, SessionNumber>,
    /// Sessions by the key that opened them.
    pub(crate) session_keys: OrdMap<GrantId, SessionNumber>,
    /// The ephemeral nodes of each session that has any, except contenders.
    pub(crate) ephemerals: OrdMap<SessionNumber, OrdSet<Path>>,
    /// Containers and TTL nodes that may be removed once they have stayed unchanged for long enough.
    pub(crate) sweepable: OrdSet<Path>,
}

impl Index {
    /// Adds a contender, in any phase.
    pub(crate) fn add_contender(&mut self, contender: &Contender, path: &Path) {
        let number = contender.number;
        let queue = Arc::make_mut(self.queues.entry(contender.lock.clone()).or_default());
        if contender.granted_at.is_some() {
            queue.add_holder(contender);
        } else {
            queue.add_waiting(contender);
        }
        if contender.upgrading {
            queue.upgrading = Some(number);
        }
        if contender.secondary {
            self.secondaries.insert((number, contender.lock.clone()), path.clone());
            return;
        }
        self.waiting += usize::from(contender.granted_at.is_none());
        if contender.cooling {
            self.cooling.insert(number);
        } else {
            for id in contender.ids() {
                self.grants.insert(id, number);
            }
            for key in contender.keys.iter() {
                self.change_keys.insert(key.key, number);
            }
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

    pub(crate) fn queue_mut(&mut self, lock: &LockName) -> Option<&mut Queue> {
        self.queues.get_mut(lock).map(Arc::make_mut)
    }

    /// Updates the entry of a grant's actor, if the actor is named.
    fn update_actor(&mut self, contender: &Contender, change: impl FnOnce(&mut ActorWaits)) {
        let Some(actor) = Actor::named(contender) else { return };
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

    /// Turns a waiter into a holder. Returns how many holders there are now.
    pub(crate) fn grant(&mut self, contender: &Contender) -> usize {
        let Some(queue) = self.queue_mut(&contender.lock) else { return 0 };
        let waited = queue.remove_waiting(ServiceRank::of(contender));
        queue.add_holder(contender);
        let holders = queue.holders.len();
        if waited && !contender.secondary {
            self.waiting -= 1;
            self.update_actor(contender, |actor| {
                actor.waiting.remove(&contender.number);
            });
        }
        holders
    }

    /// Counts a holder that has changed to `mode`.
    pub(crate) fn count_mode_change(&mut self, lock: &LockName, mode: Mode) {
        if let Some(queue) = self.queue_mut(lock) {
            match mode {
                Mode::Exclusive => queue.exclusive += 1,
                Mode::Shared => queue.exclusive -= 1,
            }
        }
    }

    /// Marks a waiter that can no longer be overtaken.
    pub(crate) fn add_barrier(&mut self, lock: &LockName, rank: ServiceRank) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.barriers.insert(rank);
        }
    }

    /// Updates the entries of a holder whose `upgrading` flag has changed.
    pub(crate) fn update_upgrading(&mut self, contender: &Contender) {
        let number = contender.number;
        if let Some(queue) = self.queue_mut(&contender.lock) {
            queue.upgrading = contender.upgrading.then_some(number);
        }
        self.update_actor(contender, |actor| {
            if contender.upgrading {
                actor.waiting.insert(number);
            } else {
                actor.waiting.remove(&number);
            }
        });
    }

    /// Removes a contender's grant from its ended session. The contender itself stays and blocks the lock.
    pub(crate) fn cool(&mut self, contender: &Contender) {
        self.remove_ownership(contender);
        self.cooling.insert(contender.number);
    }

    /// Removes a contender that is no longer in the tree.
    pub(crate) fn remove_contender(&mut self, contender: &Contender) {
        let waited = contender.granted_at.is_none();
        if let Some(queue) = self.queue_mut(&contender.lock) {
            if waited {
                queue.remove_waiting(ServiceRank::of(contender));
            } else {
                queue.remove_holder(contender);
            }
            queue.upgrading = queue.upgrading.filter(|upgrading| *upgrading != contender.number);
            if queue.is_empty() {
                self.queues.remove(&contender.lock);
            }
        }
        self.waiting -= usize::from(waited && !contender.secondary);
        if contender.secondary {
            self.secondaries.remove(&(contender.number, contender.lock.clone()));
            return;
        }
        if self.cooling.remove(&contender.number).is_none() {
            self.remove_ownership(contender);
        }
    }

    pub(crate) fn add_session(&mut self, session: &SessionRecord) {
        if let Some(id) = session.id {
            self.session_ids.insert(id, session.number);
        }
        if let Some(key) = session.key {
            self.session_keys.insert(key, session.number);
        }
    }

    pub(crate) fn remove_session(&mut self, session: &SessionRecord) {
        if let Some(id) = session.id {
            self.session_ids.remove(&id);
        }
        if let Some(key) = session.key {
            self.session_keys.remove(&key);
        }
    }

    /// Adds pending work.
    pub(crate) fn add_pending(&mut self, number: u64, pending: &Pending) {
        match pending {
            Pending::EndSession { session, .. } => drop(self.ending.insert(*session, number)),
            Pending::Break { lock, .. } => drop(self.breaking.insert(lock.clone(), number)),
            Pending::Grant { lock } => drop(self.granting.insert(lock.clone())),
            Pending::Revoke { .. } | Pending::ApplyLimit { .. } => {}
        }
    }

    /// Removes finished work.
    pub(crate) fn remove_pending(&mut self, pending: &Pending) {
        match pending {
            Pending::EndSession { session, .. } => drop(self.ending.remove(session)),
            Pending::Break { lock, .. } => drop(self.breaking.remove(lock)),
            Pending::Grant { lock } => drop(self.granting.remove(lock)),
            Pending::Revoke { .. } | Pending::ApplyLimit { .. } => {}
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
        for id in contender.ids() {
            self.grants.remove(&id);
        }
        for key in contender.keys.iter() {
            self.change_keys.remove(&key.key);
        }
        self.bounded.remove(&contender.number);
        if let Some(grants) = self.of_session.get_mut(&contender.session) {
            grants.remove(&contender.number);
            if grants.is_empty() {
                self.of_session.remove(&contender.session);
            }
        }
    }
}

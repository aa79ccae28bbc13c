//! Caches of the tree and the sessions: who stands in which lock, and where an id leads. `State::check` compares them with
//! the truth.

use crate::record::{Contender, Kind, Role, Session, Znode};
use fairhold_types::{GrantId, GrantNumber, LockName, Path, SessionId, SessionNumber};
use imbl::{OrdMap, OrdSet};
use std::cmp::Reverse;

/// Where a contender stands among those who wait: higher priority first, then first come, first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Reverse<i32>, GrantNumber);

impl Place {
    pub(crate) fn of(contender: &Contender) -> Place {
        Place(Reverse(contender.priority), contender.number)
    }

    pub(crate) fn new(priority: i32, number: GrantNumber) -> Place {
        Place(Reverse(priority), number)
    }

    pub(crate) fn number(self) -> GrantNumber {
        self.1
    }
}

/// Those who stand in one lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Queue {
    /// Those who hold it, and those who cool.
    pub(crate) holders: OrdSet<GrantNumber>,
    /// Those who wait, in order.
    pub(crate) waiting: OrdSet<Place>,
    /// The shared holder that waits to be the only one: there is never a second, for the two would wait for one another.
    pub(crate) upgrading: Option<GrantNumber>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Index {
    /// Locks in which somebody stands.
    pub(crate) queues: OrdMap<LockName, Queue>,
    /// Locks that were ever granted, as long as they have a node; those in which nobody stands are not forgotten yet.
    pub(crate) locks: OrdSet<LockName>,
    /// Where each contender is in the tree.
    pub(crate) contenders: OrdMap<GrantNumber, Path>,
    /// Live grants: held or queued, not cooling.
    pub(crate) grants: OrdMap<GrantId, GrantNumber>,
    /// How many contenders wait, in all locks together.
    pub(crate) waiting: usize,
    /// Contenders that cool.
    pub(crate) cooling: OrdSet<GrantNumber>,
    /// Live grants of each session that has any.
    pub(crate) of_session: OrdMap<SessionNumber, OrdSet<GrantNumber>>,
    /// Named sessions by their secret id.
    pub(crate) session_ids: OrdMap<SessionId, SessionNumber>,
    /// Sessions by the key with which they were opened.
    pub(crate) session_keys: OrdMap<GrantId, SessionNumber>,
    /// The ephemeral nodes of each session that has any; contenders are not among them.
    pub(crate) ephemerals: OrdMap<SessionNumber, OrdSet<Path>>,
    /// Containers and TTL nodes that may be removed once they have stayed as they are for long enough.
    pub(crate) sweepable: OrdSet<Path>,
}

impl Index {
    /// Notes a contender, in whatever phase it is.
    pub(crate) fn add_contender(&mut self, contender: &Contender, path: Path) {
        let number = contender.number;
        let queue = self.queues.entry(contender.lock.clone()).or_default();
        if contender.granted_at.is_some() {
            queue.holders.insert(number);
        } else {
            queue.waiting.insert(Place::of(contender));
            self.waiting += 1;
        }
        if contender.upgrading {
            queue.upgrading = Some(number);
        }
        self.contenders.insert(number, path);
        if contender.cooling {
            self.cooling.insert(number);
        } else {
            self.grants.insert(contender.grant, number);
            self.of_session.entry(contender.session).or_default().insert(number);
        }
    }

    /// Moves a contender from those who wait to those who hold.
    pub(crate) fn grant(&mut self, lock: &LockName, place: Place) {
        let queue = self.queues.entry(lock.clone()).or_default();
        self.waiting -= usize::from(queue.waiting.remove(&place).is_some());
        queue.holders.insert(place.number());
    }

    /// Notes who waits to be the only holder of a lock, or that nobody does any more.
    pub(crate) fn set_upgrading(&mut self, lock: &LockName, upgrading: Option<GrantNumber>) {
        if let Some(queue) = self.queues.get_mut(lock) {
            queue.upgrading = upgrading;
        }
    }

    /// Takes a contender's grant from its owner, who has gone; the contender goes on blocking.
    pub(crate) fn cool(&mut self, contender: &Contender) {
        self.disown(contender);
        self.cooling.insert(contender.number);
    }

    /// Drops a contender that was removed from the tree.
    pub(crate) fn remove_contender(&mut self, contender: &Contender) {
        if let Some(queue) = self.queues.get_mut(&contender.lock) {
            queue.holders.remove(&contender.number);
            queue.upgrading = queue.upgrading.filter(|upgrading| *upgrading != contender.number);
            self.waiting -= usize::from(queue.waiting.remove(&Place::of(contender)).is_some());
            if queue.is_empty() {
                self.queues.remove(&contender.lock);
            }
        }
        self.contenders.remove(&contender.number);
        if self.cooling.remove(&contender.number).is_none() {
            self.disown(contender);
        }
    }

    pub(crate) fn add_session(&mut self, session: &Session) {
        if let Some(id) = session.id {
            self.session_ids.insert(id, session.number);
        }
        if let Some(key) = session.key {
            self.session_keys.insert(key, session.number);
        }
    }

    pub(crate) fn remove_session(&mut self, session: &Session) {
        if let Some(id) = session.id {
            self.session_ids.remove(&id);
        }
        if let Some(key) = session.key {
            self.session_keys.remove(&key);
        }
    }

    /// Notes a node of the tree as it is now. A contender is noted by `add_contender`.
    pub(crate) fn note_node(&mut self, path: &Path, node: &Znode) {
        if node.ephemeral_owner != SessionNumber(0) && node.role == Role::Data {
            self.ephemerals.entry(node.ephemeral_owner).or_default().insert(path.clone());
        }
        match node.kind {
            Kind::Container | Kind::Ttl { .. } if node.is_sweepable() => drop(self.sweepable.insert(path.clone())),
            Kind::Container | Kind::Ttl { .. } => drop(self.sweepable.remove(path)),
            Kind::Persistent | Kind::Ephemeral => {}
        }
    }

    /// Drops a node that was removed from the tree.
    pub(crate) fn remove_node(&mut self, path: &Path, node: &Znode) {
        self.sweepable.remove(path);
        if let Some(owned) = self.ephemerals.get_mut(&node.ephemeral_owner) {
            owned.remove(path);
            if owned.is_empty() {
                self.ephemerals.remove(&node.ephemeral_owner);
            }
        }
    }

    fn disown(&mut self, contender: &Contender) {
        self.grants.remove(&contender.grant);
        if let Some(grants) = self.of_session.get_mut(&contender.session) {
            grants.remove(&contender.number);
            if grants.is_empty() {
                self.of_session.remove(&contender.session);
            }
        }
    }
}

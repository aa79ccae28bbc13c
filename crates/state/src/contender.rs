//! The contenders of a grant: one in each of its locks. How they are made, found, changed and removed.

use crate::{
    State,
    change::Change,
    command::{Acquire, Want},
    keys::ChangeKeys,
    record::{Contender, NodeRole, Znode},
    service_rank::ServiceRank,
};
use fairhold_types::{GrantNumber, LockName, Path, SessionNumber};
use std::{
    iter::{Chain, Once},
    sync::Arc,
    vec,
};

/// The contender of a new grant in one of its locks, by index in the request.
pub(crate) fn new_contender(
    acquire: &Acquire,
    index: usize,
    session: SessionNumber,
    anonymous: bool,
    rank: ServiceRank,
) -> Box<Contender> {
    let want = &acquire.wants[index];
    Box::new(Contender {
        number: rank.number(),
        grant: acquire.grant,
        lock: want.lock.clone(),
        others: if index == 0 { acquire.wants[1..].to_vec() } else { Vec::new() },
        secondary: index > 0,
        session,
        anonymous,
        mode: want.mode,
        requested_mode: want.mode,
        upgrading: false,
        limit: acquire.limit,
        permits: acquire.permits,
        priority: acquire.priority,
        effective_priority: rank.effective_priority(),
        overtaken: 0,
        owner: acquire.owner.clone(),
        meta: acquire.meta.clone(),
        attempt: 1,
        further_holds: Vec::new(),
        first_released: false,
        upgrade_attempt: 0,
        upgrade_key: None,
        keys: ChangeKeys::default(),
        deadlock_checked: true,
        max_hold_ms: acquire.max_hold_ms,
        hold_ms: None,
        revoked: None,
        granted_at: None,
        lock_delay_ms: acquire.lock_delay_ms,
        cooling: false,
        queued_at: acquire.at,
        held_since: None,
        mode_since: None,
    })
}

/// The locks of a grant, in the order of its request. A grant of one lock needs no list.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    pub(crate) first: LockName,
    others: Vec<LockName>,
}

impl Locks {
    pub(crate) fn of(first: &Contender) -> Locks {
        Locks { first: first.lock.clone(), others: first.others.iter().map(|other| other.lock.clone()).collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LockName> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl IntoIterator for Locks {
    type Item = LockName;
    type IntoIter = Chain<Once<LockName>, vec::IntoIter<LockName>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.others)
    }
}

impl State {
    /// The contender of a grant in one of its locks.
    #[must_use]
    pub fn contender_in(&self, lock: &LockName, number: GrantNumber) -> Option<&Contender> {
        self.contender_node(lock, number)?.contender()
    }

    /// The node of that contender, to keep while other parts of the state change.
    pub(crate) fn contender_node(&self, lock: &LockName, number: GrantNumber) -> Option<&Arc<Znode>> {
        let first = self.tree.contender(number)?;
        if first.contender()?.lock == *lock {
            return Some(first);
        }
        self.tree.secondary(self.index.secondaries.get(&(number, lock.clone()))?)
    }

    /// The locks of a grant, in the order of its request.
    #[must_use]
    pub fn locks_of(&self, number: GrantNumber) -> Vec<LockName> {
        self.contender(number).map_or_else(Vec::new, |first| first.locks().cloned().collect())
    }
}

impl Contender {
    /// The locks of its grant, if it is the first contender.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &LockName> + Clone {
        std::iter::once(&self.lock).chain(self.others.iter().map(|other| &other.lock))
    }
}

impl Change<'_> {
    /// The first contender of a live grant.
    pub(crate) fn contender(&self, number: GrantNumber) -> &Contender {
        self.state.contender(number).unwrap_or_else(|| no_contender(number))
    }

    /// The locks of a live grant, to keep while the state changes.
    pub(crate) fn locks_of(&self, number: GrantNumber) -> Locks {
        Locks::of(self.contender(number))
    }

    /// The contender of a grant with one lock, to change fields that do not count in its weight. `update_contenders`
    /// can change all fields.
    pub(crate) fn contender_mut(&mut self, number: GrantNumber) -> &mut Contender {
        self.state.tree.contender_mut(number).and_then(Znode::contender_mut).unwrap_or_else(|| no_contender(number))
    }

    /// The paths of a grant's contenders in its further locks.
    pub(crate) fn secondary_paths(&self, first: &Contender) -> Vec<Path> {
        let secondaries = &self.state.index.secondaries;
        let path = |other: &Want| secondaries.get(&(first.number, other.lock.clone())).cloned();
        first.others.iter().filter_map(path).collect()
    }

    /// Applies a change to all contenders of a grant.
    pub(crate) fn update_contenders(&mut self, number: GrantNumber, change: impl Fn(&mut Contender)) {
        let changed = self.state.tree.change_contender(number, |first| {
            change(first);
            first.others.is_empty()
        });
        if changed == Some(false) {
            for path in self.secondary_paths(self.contender(number)) {
                if self.state.tree.change_secondary(&path, &change).is_none() {
                    unreachable!("the index has {path}, which is not a contender");
                }
            }
        }
    }

    pub(crate) fn contender_in(&self, lock: &LockName, number: GrantNumber) -> &Contender {
        self.state.contender_in(lock, number).unwrap_or_else(|| unreachable!("grant #{number} has no contender in {lock}"))
    }

    /// Removes all contenders of a grant from the tree. Returns the first and the others.
    pub(crate) fn remove_contenders(&mut self, number: GrantNumber) -> (Box<Contender>, Vec<Contender>) {
        let first = self.state.tree.remove_contender(number).unwrap_or_else(|| no_contender(number));
        self.leave_lock(&first);
        let paths = self.secondary_paths(&first);
        let others = paths.iter().map(|path| match self.state.tree.remove(path, self.revision).map(|node| node.role) {
            Some(NodeRole::Contender(contender)) => {
                self.leave_lock(&contender);
                *contender
            }
            Some(NodeRole::Data | NodeRole::Lock(_)) | None => unreachable!("the index has {path}, which is not a contender"),
        });
        let others = others.collect();
        (first, others)
    }

    /// Removes a contender from the record of its lock and from the indexes. For a contender in a further lock, the tree
    /// has already updated the lock's node.
    fn leave_lock(&mut self, contender: &Contender) {
        let revision = self.revision;
        let State { tree, index, .. } = &mut *self.state;
        let empty = tree.locks.update(&contender.lock, |record| {
            record.node.iter_mut().filter(|_| !contender.secondary).for_each(|node| node.remove_child(revision));
            record.remove(contender)
        });
        if empty == Some(true) {
            index.busy.remove(&contender.lock);
        }
        index.remove_contender(contender);
    }
}

fn no_contender(number: GrantNumber) -> ! {
    unreachable!("an index has grant #{number}, but the tree has no contender of it")
}

//! The contenders of a grant: one in each of its locks. How they are made, found, changed and removed.

use crate::{
    State,
    change::Change,
    command::Acquire,
    keys::ChangeKeys,
    record::{Contender, NodeRole, Znode},
    service_rank::ServiceRank,
};
use fairhold_types::{GrantNumber, LockName, Path, SessionNumber};
use std::{ops::Deref, sync::Arc};

/// The contender of a new grant in one of its locks, by index in the request.
pub(crate) fn new_contender(
    acquire: &Acquire,
    index: usize,
    session: SessionNumber,
    anonymous: bool,
    rank: ServiceRank,
) -> Contender {
    let want = &acquire.wants[index];
    Contender {
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
    }
}

/// A contender that is kept while other parts of the state change.
pub(crate) struct SharedContender(Arc<Znode>);

impl Deref for SharedContender {
    type Target = Contender;

    fn deref(&self) -> &Contender {
        match contender_of(&self.0) {
            Some(contender) => contender,
            None => unreachable!("the index has the path of a node that is not a contender"),
        }
    }
}

fn contender_of(node: &Znode) -> Option<&Contender> {
    match &node.role {
        NodeRole::Contender(contender) => Some(contender),
        NodeRole::Data | NodeRole::Lock(_) => None,
    }
}

impl State {
    /// The contender of a grant in one of its locks.
    #[must_use]
    pub fn contender_in(&self, lock: &LockName, number: GrantNumber) -> Option<&Contender> {
        contender_of(self.contender_node(lock, number)?)
    }

    /// The node of that contender.
    fn contender_node(&self, lock: &LockName, number: GrantNumber) -> Option<&Arc<Znode>> {
        let first = self.tree.get_shared(self.index.contenders.get(&number)?)?;
        if contender_of(first)?.lock == *lock {
            return Some(first);
        }
        self.tree.get_shared(self.index.secondaries.get(&(number, lock.clone()))?)
    }

    /// The locks of a grant, in the order of its request.
    #[must_use]
    pub fn locks_of(&self, number: GrantNumber) -> Vec<LockName> {
        let Some(first) = self.contender(number) else { return Vec::new() };
        std::iter::once(&first.lock).chain(first.others.iter().map(|other| &other.lock)).cloned().collect()
    }
}

impl Change<'_> {
    /// The first contender of a live grant.
    pub(crate) fn contender(&self, number: GrantNumber) -> &Contender {
        match self.state.contender(number) {
            Some(contender) => contender,
            None => unreachable!("the index has grant #{number}, but the tree has no contender of it"),
        }
    }

    /// The contender of a grant with one lock, to change fields that do not count in its weight. `update_contenders`
    /// can change all fields.
    pub(crate) fn contender_mut(&mut self, number: GrantNumber) -> &mut Contender {
        let path = self.state.index.contenders.get(&number);
        match path.and_then(|path| self.state.tree.get_mut(path.as_str())).map(|node| &mut node.role) {
            Some(NodeRole::Contender(contender)) => contender,
            Some(NodeRole::Data | NodeRole::Lock(_)) | None => {
                unreachable!("the index has grant #{number}, but the tree has no contender of it")
            }
        }
    }

    /// The paths of a grant's contenders, the first contender's first.
    pub(crate) fn paths_of(&self, number: GrantNumber) -> Vec<Path> {
        let index = &self.state.index;
        let others = self.contender(number).others.iter();
        let others = others.filter_map(|other| index.secondaries.get(&(number, other.lock.clone())));
        index.contenders.get(&number).into_iter().chain(others).cloned().collect()
    }

    /// Applies a change to all contenders of a grant.
    pub(crate) fn update_contenders(&mut self, number: GrantNumber, change: impl Fn(&mut Contender)) {
        for path in self.paths_of(number) {
            if self.state.tree.change_contender(&path, &change).is_none() {
                unreachable!("the index has {path}, which is not a contender");
            }
        }
    }

    pub(crate) fn contender_in(&self, lock: &LockName, number: GrantNumber) -> &Contender {
        match self.state.contender_in(lock, number) {
            Some(contender) => contender,
            None => unreachable!("grant #{number} has no contender in {lock}"),
        }
    }

    /// The same, to keep while indexes and other nodes change.
    pub(crate) fn shared_contender(&self, lock: &LockName, number: GrantNumber) -> SharedContender {
        match self.state.contender_node(lock, number) {
            Some(node) => SharedContender(Arc::clone(node)),
            None => unreachable!("grant #{number} has no contender in {lock}"),
        }
    }

    /// Removes all contenders of a grant from the tree. The first contender comes first.
    pub(crate) fn remove_contenders(&mut self, number: GrantNumber) -> Vec<Contender> {
        let paths = self.paths_of(number);
        let taken = paths.iter().map(|path| {
            let node = self.state.tree.remove(path, self.revision);
            match node.map(|node| node.role) {
                Some(NodeRole::Contender(contender)) => {
                    self.state.index.remove_contender(&contender);
                    self.state.unindex_holder(&contender);
                    *contender
                }
                Some(NodeRole::Data | NodeRole::Lock(_)) | None => unreachable!("the index has {path}, which is not a contender"),
            }
        });
        taken.collect()
    }
}

//! Compares the caches with their sources and checks the invariants. For tests and simulators: it walks the whole
//! state.

use crate::{
    State,
    ids::IdUse,
    record::{Contender, NodeKind, NodeRole},
    small_set::SmallSet,
    tombstones::Tombstone,
};
use fairhold_types::{GrantId, Mode, SessionNumber, limits};
use std::collections::BTreeMap;

impl State {
    /// Checks that every cache equals its source and that every invariant of a single state holds. The error says what
    /// is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.check_tree()?;
        self.check_caches()?;
        self.check_bytes()?;
        self.check_sessions()?;
        self.tree.locks.check_history(self.revision)?;
        self.check_statistics()?;
        self.index.busy.iter().try_for_each(|lock| self.check_lock(lock))
    }

    fn check_tree(&self) -> Result<(), String> {
        let mut children: BTreeMap<_, u32> = BTreeMap::new();
        for (path, node) in self.tree.iter() {
            if node.mzxid.max(node.pzxid).max(node.czxid) > self.revision {
                return Err(format!("{path} has a later revision than the state"));
            }
            let Some(parent) = path.parent() else { continue };
            *children.entry(parent.clone()).or_default() += 1;
            match self.tree.get(&parent) {
                None => return Err(format!("{path} has no parent")),
                Some(parent_node) if parent_node.kind == NodeKind::Ephemeral => {
                    return Err(format!("{path} is below an ephemeral node"));
                }
                Some(_) => {}
            }
            if node.role == NodeRole::Data && (node.kind == NodeKind::Ephemeral) != (node.ephemeral_owner != SessionNumber(0)) {
                return Err(format!("{path} is {:?} and its owner is {}", node.kind, node.ephemeral_owner));
            }
            let owned = node.ephemeral_owner != SessionNumber(0);
            if owned && !self.sessions.contains_key(&node.ephemeral_owner) && !self.is_ending(node.ephemeral_owner) {
                return Err(format!("{path} outlives its session {}", node.ephemeral_owner));
            }
        }
        let value_bytes: u64 = self.tree.iter().map(|(_, node)| node.value.len() as u64).sum();
        if value_bytes != self.tree.value_bytes() {
            return Err(format!("the tree counts {} bytes of values, but has {value_bytes}", self.tree.value_bytes()));
        }
        for (path, node) in self.tree.iter() {
            let found = children.get(path).copied().unwrap_or(0);
            if node.num_children != found {
                return Err(format!("{path} counts {} children, but has {found}", node.num_children));
            }
        }
        Ok(())
    }

    fn check_caches(&self) -> Result<(), String> {
        let mut rebuilt = self.clone();
        rebuilt.rebuild_caches();
        if rebuilt.index != self.index || rebuilt.tree != self.tree {
            return Err("an index, a queue or a count differs from the tree".to_owned());
        }
        let contenders = || self.tree.iter().filter_map(|(_, node)| node.contender());
        contenders().try_for_each(|contender| self.check_secondaries(contender))?;
        if !self.tree.is_consistent() {
            return Err("the tree shows other locks or contenders than their tables have".to_owned());
        }
        for path in self.index.secondaries.values() {
            if !matches!(self.tree.get(path).map(|node| &node.role), Some(NodeRole::Contender(_))) {
                return Err(format!("{path} is not a contender"));
            }
        }
        let held = contenders().filter(|contender| !contender.secondary).filter(|contender| contender.token().is_some()).count();
        if self.census().held != held {
            return Err(format!("the census counts {} held grants, the tree {held}", self.census().held));
        }
        if !self.tombstones.is_consistent() {
            return Err("the cache of the tombstones by age differs from their table".to_owned());
        }
        Ok(())
    }

    /// Checks that a grant has all its contenders, and that they differ only in lock and mode.
    fn check_secondaries(&self, contender: &Contender) -> Result<(), String> {
        let number = contender.number;
        let first = self.contender(number).ok_or_else(|| format!("#{number} has no first contender"))?;
        let is_listed = first.others.iter().any(|other| other.lock == contender.lock);
        if contender.secondary != is_listed || contender.secondary == (first.lock == contender.lock) {
            return Err(format!("#{number} has a contender in {} that does not belong to it", contender.lock));
        }
        let shared_fields =
            |contender: &Contender| (contender.granted_at, contender.cooling, contender.attempt, contender.session);
        if shared_fields(first) != shared_fields(contender) {
            return Err(format!("the contenders of #{number} in {} and {} differ", contender.lock, first.lock));
        }
        match self.locks_of(number).iter().find(|lock| self.contender_in(lock, number).is_none()) {
            Some(lock) => Err(format!("#{number} has no contender in {lock}")),
            None => Ok(()),
        }
    }

    fn check_sessions(&self) -> Result<(), String> {
        for session in self.sessions.values() {
            let number = session.number;
            let grants = self.index.of_session.get(&number).map_or(0, SmallSet::len);
            if session.id.is_none() && grants != 1 {
                return Err(format!("session {number} was made for one grant but has {grants}"));
            }
            if session.ended.len() > limits::SESSION_TOMBSTONES_MAX {
                return Err(format!("session {number} remembers {} grants", session.ended.len()));
            }
            if session.ended.ids().any(|id| self.index.ids.get(id) != Some(IdUse::Ended(number))) {
                return Err(format!("session {number} remembers an id that has another use"));
            }
            let floor = session.ended.floor();
            if floor.is_some() && session.ended.ids().next().is_some_and(|oldest| Some(*oldest) <= floor) {
                return Err(format!("session {number} remembers a grant below its floor"));
            }
        }
        if let Some(session) = self.index.ending.keys().find(|session| self.sessions.contains_key(*session)) {
            return Err(format!("session {session} is both open and ending"));
        }
        let ended = |id: &GrantId| matches!(self.tombstones.get(id), Some(Tombstone::Grant(_) | Tombstone::Broken { .. }));
        if self.index.ids.grants().any(ended) {
            return Err("a live grant is remembered as ended".to_owned());
        }
        Ok(())
    }

    fn check_lock(&self, lock: &fairhold_types::LockName) -> Result<(), String> {
        let view = self.lock(lock);
        let limit = view.limit.unwrap_or(1);
        let (shared, exclusive): (Vec<&Contender>, Vec<&Contender>) =
            view.holders.iter().partition(|holder| holder.mode == Mode::Shared);
        let permits: u64 = exclusive.iter().map(|holder| u64::from(holder.permits)).sum();
        if !shared.is_empty() && !exclusive.is_empty() {
            return Err(format!("{lock} has shared and exclusive holders"));
        }
        let settings = self.settings(lock);
        let limited_at = settings.and_then(|settings| settings.limited_at);
        let older_than_limit = view.holders.iter().all(|holder| holder.granted_at <= limited_at);
        // A downgrade and a later upgrade can leave a single holder with more permits than the limit now allows.
        if permits > u64::from(limit) && view.holders.len() > 1 && !older_than_limit {
            return Err(format!("{lock} has {permits} permits in use and a limit of {limit}"));
        }
        if view.holders.iter().filter_map(|holder| holder.token()).any(|token| Some(token) > view.last_token) {
            return Err(format!("a token of {lock} is newer than its last token"));
        }
        let first = self.queue_of(lock).and_then(|queue| queue.waiting.get_min());
        let first = first.and_then(|rank| self.contender_in(lock, rank.number()));
        let pending = self.index.granting.contains(lock) || self.index.breaking.contains_key(lock);
        let work_continues = pending || first.is_some_and(|first| self.is_dead(first) || first.is_multi_lock());
        if view.holders.is_empty() && first.is_some() && !work_continues {
            return Err(format!("{lock} is free, but {} grants wait for it", view.waiting));
        }
        self.check_election(lock)
    }
}

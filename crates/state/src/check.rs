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
        self.membership.check(self.revision)?;
        self.check_access()?;
        self.check_audit()?;
        self.index.busy.iter().try_for_each(|lock| self.check_lock(lock))
    }

    fn check_tree(&self) -> Result<(), String> {
        let mut children: BTreeMap<&str, u32> = BTreeMap::new();
        let mut value_bytes = 0;
        // Most siblings follow each other, so one look at their parent serves all of them.
        let mut siblings = ("", 0_u32);
        for (path, node) in self.tree.iter() {
            value_bytes += node.value.len() as u64;
            let newest = node.mzxid.max(node.pzxid).max(node.czxid);
            ensure(newest <= self.revision, || format!("{path} has a later revision than the state"))?;
            let Some(parent) = path.parent_str() else { continue };
            if parent != siblings.0 {
                let parent_node = path.parent().and_then(|parent| self.tree.get(&parent));
                let parent_node = parent_node.ok_or_else(|| format!("{path} has no parent"))?;
                ensure(parent_node.kind != NodeKind::Ephemeral, || format!("{path} is below an ephemeral node"))?;
                *children.entry(siblings.0).or_default() += siblings.1;
                siblings = (parent, 0);
            }
            siblings.1 += 1;
            let owner = node.ephemeral_owner;
            let owned = owner != SessionNumber(0);
            let fits_kind = node.role != NodeRole::Data || (node.kind == NodeKind::Ephemeral) == owned;
            ensure(fits_kind, || format!("{path} is {:?} and its owner is {owner}", node.kind))?;
            let lives = !owned || self.sessions.contains_key(&owner) || self.is_ending(owner);
            ensure(lives, || format!("{path} outlives its session {owner}"))?;
        }
        *children.entry(siblings.0).or_default() += siblings.1;
        let counted = self.tree.value_bytes();
        ensure(counted == value_bytes, || format!("the tree counts {counted} bytes of values, but has {value_bytes}"))?;
        // Both are in the order of paths. The empty text, with which the walk began, is no path.
        let mut children = children.into_iter().filter(|(parent, _)| !parent.is_empty()).peekable();
        for (path, node) in self.tree.iter() {
            let found = children.next_if(|(parent, _)| *parent == path.as_str()).map_or(0, |(_, found)| found);
            let counted = node.num_children;
            ensure(counted == found, || format!("{path} counts {counted} children, but has {found}"))?;
        }
        Ok(())
    }

    fn check_caches(&self) -> Result<(), String> {
        let mut rebuilt = self.clone();
        rebuilt.rebuild_caches();
        let same = rebuilt.index == self.index && rebuilt.tree == self.tree;
        ensure(same, || "an index, a queue or a count differs from the tree".to_owned())?;
        let mut held = 0;
        for contender in self.tree.iter().filter_map(|(_, node)| node.contender()) {
            self.check_secondaries(contender)?;
            held += usize::from(!contender.secondary && contender.token().is_some());
        }
        ensure(self.tree.is_consistent(), || "the tree shows other locks or contenders than their tables have".to_owned())?;
        for path in self.index.secondaries.values() {
            let is_contender = self.tree.get(path).is_some_and(|node| node.contender().is_some());
            ensure(is_contender, || format!("{path} is not a contender"))?;
        }
        let counted = self.census().held;
        ensure(counted == held, || format!("the census counts {counted} held grants, the tree {held}"))?;
        ensure(self.tombstones.is_consistent(), || "the cache of the tombstones by age differs from their table".to_owned())
    }

    /// Checks that a grant has all its contenders, and that they differ only in lock and mode.
    fn check_secondaries(&self, contender: &Contender) -> Result<(), String> {
        let number = contender.number;
        let lock = &contender.lock;
        let first = self.contender(number).ok_or_else(|| format!("#{number} has no first contender"))?;
        let is_listed = first.others.iter().any(|other| other.lock == *lock);
        let belongs = contender.secondary == is_listed && contender.secondary != (first.lock == *lock);
        ensure(belongs, || format!("#{number} has a contender in {lock} that does not belong to it"))?;
        let shared_fields =
            |contender: &Contender| (contender.granted_at, contender.cooling, contender.attempt, contender.session);
        let same = shared_fields(first) == shared_fields(contender);
        ensure(same, || format!("the contenders of #{number} in {lock} and {} differ", first.lock))?;
        let missing = self.locks_of(number).into_iter().find(|lock| self.contender_in(lock, number).is_none());
        missing.map_or(Ok(()), |lock| Err(format!("#{number} has no contender in {lock}")))
    }

    fn check_sessions(&self) -> Result<(), String> {
        for session in self.sessions.values() {
            let number = session.number;
            let grants = self.index.of_session.get(&number).map_or(0, SmallSet::len);
            ensure(session.id.is_some() || grants == 1, || format!("session {number} was made for one grant but has {grants}"))?;
            let ended = session.ended.len();
            ensure(ended <= limits::SESSION_TOMBSTONES_MAX, || format!("session {number} remembers {ended} grants"))?;
            let has_one_use = session.ended.ids().all(|id| self.index.ids.get(id) == Some(IdUse::Ended(number)));
            ensure(has_one_use, || format!("session {number} remembers an id that has another use"))?;
            let above_floor = session.ended.ids().next().is_none_or(|oldest| Some(*oldest) > session.ended.floor());
            ensure(above_floor, || format!("session {number} remembers a grant below its floor"))?;
        }
        let reopened = self.index.ending.keys().find(|session| self.sessions.contains_key(*session));
        reopened.map_or(Ok(()), |session| Err(format!("session {session} is both open and ending")))?;
        let ended = |id: &GrantId| matches!(self.tombstones.get(id), Some(Tombstone::Grant(_) | Tombstone::Broken { .. }));
        ensure(!self.index.ids.grants().any(ended), || "a live grant is remembered as ended".to_owned())
    }

    fn check_lock(&self, lock: &fairhold_types::LockName) -> Result<(), String> {
        let view = self.lock(lock);
        let limit = view.limit.unwrap_or(1);
        let (shared, exclusive): (Vec<&Contender>, Vec<&Contender>) =
            view.holders.iter().partition(|holder| holder.mode == Mode::Shared);
        let permits: u64 = exclusive.iter().map(|holder| u64::from(holder.permits)).sum();
        ensure(shared.is_empty() || exclusive.is_empty(), || format!("{lock} has shared and exclusive holders"))?;
        let settings = self.settings(lock);
        let limited_at = settings.and_then(|settings| settings.limited_at);
        let older_than_limit = view.holders.iter().all(|holder| holder.granted_at <= limited_at);
        // A downgrade and a later upgrade can leave a single holder with more permits than the limit now allows.
        let fits = permits <= u64::from(limit) || view.holders.len() <= 1 || older_than_limit;
        ensure(fits, || format!("{lock} has {permits} permits in use and a limit of {limit}"))?;
        let no_later = view.holders.iter().filter_map(|holder| holder.token()).all(|token| Some(token) <= view.last_token);
        ensure(no_later, || format!("a token of {lock} is newer than its last token"))?;
        let first = self.queue_of(lock).and_then(|queue| queue.waiting.get_min());
        let first = first.and_then(|rank| self.contender_in(lock, rank.number()));
        let pending = self.index.granting.contains(lock) || self.index.breaking.contains_key(lock);
        let work_continues = pending || first.is_some_and(|first| self.is_dead(first) || first.is_multi_lock());
        let served = !view.holders.is_empty() || first.is_none() || work_continues;
        ensure(served, || format!("{lock} is free, but {} grants wait for it", view.waiting))?;
        self.check_election(lock)
    }
}

/// Returns the message as an error unless `holds`.
pub(crate) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Lifetime, Operation, Transact};
    use fairhold_types::{Path, time::WallMillis};

    #[test]
    fn a_wrong_count_of_children_is_found_also_if_other_nodes_are_between_them() {
        let mut state = State::new();
        let create = |path| Operation::Create {
            path: Path::parse(path).unwrap(),
            value: vec![7; 3].into(),
            parents: false,
            lifetime: Lifetime::Persistent,
        };
        // In the order of paths, /a-b and its child come between /a and its children.
        let then = ["/a", "/a-b", "/a-b/c", "/a/c", "/a/d", "/a/d/e"].map(create).into();
        let command = Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) });
        state.apply(&command).answer.result.unwrap();
        state.check().unwrap();
        for path in ["/", "/a", "/a-b", "/a-b/c", "/a/d"] {
            let mut wrong = state.clone();
            wrong.tree.get_mut(path).unwrap().num_children += 1;
            let error = wrong.check().unwrap_err();
            assert!(error.starts_with(&format!("{path} counts ")), "{error}");
        }
    }
}

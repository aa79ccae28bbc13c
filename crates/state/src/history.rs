//! The history of each lock: who held it, from when to when, and how that ended. It is for people, and bounded for each
//! lock and over all.
//!
//! A grant that changes its mode leaves one entry for each mode, so that a query for an earlier time returns the mode
//! and the token of that time. Only grants that held are recorded: withdrawn waiters would displace the entries that
//! readers need. Entries expire only by the leader's verdict (`Command::ForgetHistory`). Wall times are for people; no
//! rule reads them. A lock's history outlives its node.

use crate::{
    record::Moment,
    weight::{HISTORY_BYTES, len},
};
use fairhold_types::{
    FencingToken, GrantNumber, HoldingEnd, LockName, Mode, Revision, SessionNumber,
    limits::{HISTORY_MAX, HISTORY_PER_LOCK_MAX, HISTORY_REMOVED_MAX},
    time::WallMillis,
};
use imbl::{OrdMap, OrdSet, Vector};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many old entries each new entry may displace while the history exceeds its bytes.
const TRIMMED_MAX: usize = 4;

/// One holding period in one mode, without its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// The mode in this period.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// Its fencing token.
    pub token: FencingToken,
    /// When it queued.
    pub queued_at: WallMillis,
    /// When it was granted, or changed to this mode.
    pub from: Moment,
}

/// The end of a holding period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When it ended. A lock delay comes after it.
    pub to: Moment,
    /// How it ended.
    pub how: HoldingEnd,
    /// The administrator's client that ended it; empty if none did.
    pub by: String,
    /// The administrator's reason; may be empty.
    pub reason: String,
}

/// A finished holding period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastHolding {
    pub(crate) holding: Holding,
    pub(crate) ending: Ending,
}

/// The position of an entry in a lock's history, which lists current holders first and then the newest end first. It
/// stays valid when the entry is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryKey {
    /// When it ended; the greatest revision for a current holder.
    pub ended: Revision,
    /// The grant.
    pub number: GrantNumber,
}

impl HistoryKey {
    /// After every entry.
    pub(crate) const END: HistoryKey = HistoryKey { ended: Revision(u64::MAX), number: GrantNumber(u64::MAX) };
}

/// The finished holding periods of all locks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    /// The entries of each lock that has any, the oldest end first.
    locks: OrdMap<LockName, Vector<Arc<PastHolding>>>,
    /// These locks by their oldest entry: a cache. Entries of one lock are dropped in order, so this gives the oldest of
    /// all.
    oldest: OrdSet<(HistoryKey, LockName)>,
    /// The number of entries: a cache.
    len: usize,
    /// The bytes that all entries count: a cache.
    bytes: u64,
}

impl PastHolding {
    fn key(&self) -> HistoryKey {
        HistoryKey { ended: self.ending.to.revision, number: self.holding.number }
    }

    /// The bytes that the entry counts.
    fn weight(&self) -> u64 {
        HISTORY_BYTES + len(self.holding.lock.as_str()) + len(&self.holding.owner) + who_ended_weight(self)
    }
}

impl History {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<PastHolding>> {
        self.locks.values().flatten()
    }

    pub(crate) fn count(&self, lock: &LockName) -> usize {
        self.locks.get(lock).map_or(0, Vector::len)
    }

    /// Adds an entry, and drops the oldest one of a lock that has too many. `trim` enforces the bounds over all locks.
    pub(crate) fn insert(&mut self, past: Arc<PastHolding>) {
        let key = past.key();
        let weight = past.weight();
        let lock = past.holding.lock.clone();
        let entries = self.locks.entry(lock.clone()).or_default();
        if entries.back().is_none_or(|newest| newest.key() < key) {
            if entries.is_empty() {
                self.oldest.insert((key, lock.clone()));
            }
            entries.push_back(past);
        } else {
            // Grants of the same command end in any order.
            match entries.binary_search_by_key(&key, |past| past.key()) {
                // Only a damaged snapshot has an entry twice. It is refused, because its counts do not agree.
                Ok(at) => {
                    self.bytes -= entries.set(at, past).weight();
                    self.len -= 1;
                }
                Err(at) => {
                    if at == 0
                        && let Some(first) = entries.front()
                    {
                        self.oldest.remove(&(first.key(), lock.clone()));
                        self.oldest.insert((key, lock.clone()));
                    }
                    entries.insert(at, past);
                }
            }
        }
        self.len += 1;
        self.bytes += weight;
        if entries.len() > HISTORY_PER_LOCK_MAX
            && let Some(dropped) = entries.pop_front()
            && let Some(next) = entries.front()
        {
            self.oldest.remove(&(dropped.key(), lock.clone()));
            self.oldest.insert((next.key(), lock));
            self.len -= 1;
            self.bytes -= dropped.weight();
        }
    }

    /// Adds to an entry who ended the holding period, and why.
    pub(crate) fn record_who_ended(&mut self, lock: &LockName, key: HistoryKey, by: &str, reason: &str) {
        let Some(entries) = self.locks.get_mut(lock) else { return };
        let Ok(at) = entries.binary_search_by_key(&key, |past| past.key()) else { return };
        if let Some(past) = entries.get_mut(at) {
            let past = Arc::make_mut(past);
            self.bytes -= who_ended_weight(past);
            past.ending.by = by.to_owned();
            past.ending.reason = reason.to_owned();
            self.bytes += who_ended_weight(past);
        }
    }

    /// The bytes that all entries count.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same, recounted by a walk over all entries.
    pub(crate) fn recounted(&self) -> u64 {
        self.iter().map(|past| past.weight()).sum()
    }

    /// Drops the oldest entries beyond the bounds, and returns their locks. Beyond `bytes_max` it drops up to
    /// `TRIMMED_MAX` entries for each new one, so that the history shrinks step by step.
    pub(crate) fn trim(&mut self, bytes_max: u64) -> Vec<LockName> {
        let mut dropped = Vec::new();
        while (self.len > HISTORY_MAX || (self.bytes > bytes_max && dropped.len() < TRIMMED_MAX))
            && let Some((_, lock)) = self.oldest.get_min().cloned()
        {
            self.drop_oldest_of(&lock);
            dropped.push(lock);
        }
        dropped
    }

    /// Drops entries that ended up to this revision, `HISTORY_REMOVED_MAX` at most, and returns their locks.
    pub(crate) fn forget(&mut self, through: Revision) -> Vec<LockName> {
        let mut dropped = Vec::new();
        while dropped.len() < HISTORY_REMOVED_MAX
            && let Some((key, lock)) = self.oldest.get_min()
            && key.ended <= through
        {
            let lock = lock.clone();
            self.drop_oldest_of(&lock);
            dropped.push(lock);
        }
        dropped
    }

    /// When the oldest entry of all ended.
    pub(crate) fn oldest_end(&self) -> Option<Revision> {
        self.oldest.get_min().map(|(key, _)| key.ended)
    }

    fn drop_oldest_of(&mut self, lock: &LockName) {
        let Some(entries) = self.locks.get_mut(lock) else { return };
        let Some(dropped) = entries.pop_front() else { return };
        let next = entries.front().map(|past| past.key());
        self.oldest.remove(&(dropped.key(), lock.clone()));
        match next {
            Some(key) => drop(self.oldest.insert((key, lock.clone()))),
            None => drop(self.locks.remove(lock)),
        }
        self.len -= 1;
        self.bytes -= dropped.weight();
    }

    /// The entries of a lock, the oldest end first.
    pub(crate) fn of_lock<'a>(
        &'a self,
        lock: &LockName,
    ) -> impl DoubleEndedIterator<Item = (HistoryKey, &'a Arc<PastHolding>)> + Send + use<'a> {
        self.of_lock_before(lock, HistoryKey::END)
    }

    /// The entries of a lock before a key, the oldest end first.
    pub(crate) fn of_lock_before<'a>(
        &'a self,
        lock: &LockName,
        end: HistoryKey,
    ) -> impl DoubleEndedIterator<Item = (HistoryKey, &'a Arc<PastHolding>)> + Send + use<'a> {
        self.locks.get(lock).into_iter().flat_map(move |entries| {
            let before = entries.binary_search_by_key(&end, |past| past.key()).unwrap_or_else(|before| before);
            (0..before).filter_map(|at| entries.get(at)).map(|past| (past.key(), past))
        })
    }

    /// Checks that the caches equal the entries and that the bounds hold.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), String> {
        let mut oldest = OrdSet::new();
        for (lock, entries) in &self.locks {
            oldest.extend(entries.front().map(|past| (past.key(), lock.clone())));
            let sorted = entries.iter().zip(entries.iter().skip(1)).all(|(one, next)| one.key() < next.key());
            if !sorted || entries.is_empty() || entries.len() > HISTORY_PER_LOCK_MAX {
                return Err(format!("the history of {lock} is not in order, or has {} entries", entries.len()));
            }
            for past in entries {
                let from = past.holding.from.revision;
                let to = past.ending.to.revision;
                if past.holding.lock != *lock || from >= to || to > revision || from.0 < past.holding.number.0 {
                    return Err(format!("the history says that #{} held {lock} from @{from} to @{to}", past.holding.number));
                }
            }
        }
        if oldest != self.oldest || self.iter().count() != self.len {
            return Err("the history's caches differ from its entries".to_owned());
        }
        if self.len > HISTORY_MAX {
            return Err(format!("the history has {} entries", self.len));
        }
        Ok(())
    }
}

/// The weight of the fields that are set after the entry was added: who ended it, and why.
pub(crate) fn who_ended_weight(past: &PastHolding) -> u64 {
    len(&past.ending.by) + len(&past.ending.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(lock: &str, ended: u64) -> Arc<PastHolding> {
        let moment = |revision: u64| Moment { revision: Revision(revision), at: WallMillis(revision) };
        let holding = Holding {
            lock: LockName::parse(lock).unwrap(),
            number: GrantNumber(ended - 1),
            session: SessionNumber(1),
            owner: String::new(),
            mode: Mode::Exclusive,
            permits: 1,
            token: FencingToken(ended - 1),
            queued_at: WallMillis(0),
            from: moment(ended - 1),
        };
        let ending = Ending { to: moment(ended), how: HoldingEnd::Released, by: String::new(), reason: String::new() };
        Arc::new(PastHolding { holding, ending })
    }

    #[test]
    fn beyond_the_bound_over_all_locks_the_oldest_entry_is_dropped() {
        let mut history = History::default();
        let locks = HISTORY_MAX / HISTORY_PER_LOCK_MAX + 1;
        let mut ended = 1;
        for index in 0..=HISTORY_MAX {
            ended += 1;
            let name = format!("lock-{}", index % locks);
            history.insert(past(&name, ended));
            let dropped = history.trim(u64::MAX);
            let expected: &[LockName] = if index < HISTORY_MAX { &[] } else { &[LockName::parse("lock-0").unwrap()] };
            assert_eq!(dropped, expected, "at {index}");
        }
        history.check(Revision(ended)).unwrap();
        assert_eq!((history.len(), history.oldest_end()), (HISTORY_MAX, Some(Revision(3))));
    }

    #[test]
    fn beyond_the_bound_in_bytes_a_few_entries_are_dropped_at_a_time() {
        let mut history = History::default();
        (2..12).for_each(|ended| history.insert(past("a", ended)));
        assert_eq!((history.trim(0).len(), history.len()), (TRIMMED_MAX, 10 - TRIMMED_MAX));
        assert_eq!((history.trim(history.bytes()).len(), history.len()), (0, 10 - TRIMMED_MAX));
    }

    #[test]
    fn entries_of_one_revision_are_kept_in_order_however_they_end() {
        let mut history = History::default();
        let with_number = |number: u64| {
            let mut entry = Arc::unwrap_or_clone(past("a", 9));
            entry.holding.number = GrantNumber(number);
            Arc::new(entry)
        };
        for number in [5, 3, 8, 4] {
            history.insert(with_number(number));
            history.check(Revision(9)).unwrap();
        }
        let a = LockName::parse("a").unwrap();
        let numbers = |end| history.of_lock_before(&a, end).map(|(key, _)| key.number.0).collect::<Vec<_>>();
        assert_eq!(numbers(HistoryKey::END), [3, 4, 5, 8]);
        assert_eq!(numbers(HistoryKey { ended: Revision(9), number: GrantNumber(5) }), [3, 4]);
        let before = (history.len(), history.bytes());
        history.insert(with_number(4));
        assert_eq!((history.len(), history.bytes()), before, "an entry that is there twice counts once");
        assert_eq!(history.bytes(), history.recounted());
    }

    /// Compares with a plain sorted list, over more entries than a lock may have, and with a clone that must not change.
    #[test]
    fn any_order_of_ends_gives_the_history_of_a_sorted_list() {
        let mut random = 7_u64;
        let mut below = |max: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % max
        };
        let locks = ["a", "b", "c"].map(|name| LockName::parse(name).unwrap());
        let mut history = History::default();
        let mut sorted: Vec<(HistoryKey, LockName)> = Vec::new();
        let mut before = (history.clone(), sorted.clone());
        let keys = |history: &History, lock: &LockName| history.of_lock(lock).map(|(key, _)| key).collect::<Vec<_>>();
        let expected = |sorted: &[(HistoryKey, LockName)], lock: &LockName| {
            sorted.iter().filter(|(_, name)| name == lock).map(|(key, _)| *key).collect::<Vec<_>>()
        };
        for revision in 10_000..11_200 {
            // Up to 40 grants end in one command, in any order.
            for _ in 0..below(40) {
                let lock = &locks[usize::try_from(below(3)).unwrap()];
                let mut entry = Arc::unwrap_or_clone(past(lock.as_str(), revision));
                entry.holding.number = GrantNumber(below(9_000));
                let key = entry.key();
                if sorted.contains(&(key, lock.clone())) {
                    continue;
                }
                history.insert(Arc::new(entry));
                sorted.push((key, lock.clone()));
                sorted.sort_unstable();
                if sorted.iter().filter(|(_, name)| name == lock).count() > HISTORY_PER_LOCK_MAX {
                    let oldest = sorted.iter().position(|(_, name)| name == lock).unwrap();
                    sorted.remove(oldest);
                }
                assert!(history.trim(u64::MAX).is_empty(), "the bound over all locks is far away");
            }
            if revision % 100 == 0 {
                history.check(Revision(revision)).unwrap();
                assert_eq!(history.bytes(), history.recounted());
                for lock in &locks {
                    assert_eq!(keys(&history, lock), expected(&sorted, lock), "{lock} at revision {revision}");
                    assert_eq!(keys(&before.0, lock), expected(&before.1, lock), "a clone changed at revision {revision}");
                }
                let through = Revision(revision - 90);
                let forgotten = history.forget(through).len();
                assert!(sorted.drain(..forgotten).all(|(key, _)| key.ended <= through), "the oldest go first");
                before = (history.clone(), sorted.clone());
            }
        }
        assert!(locks.iter().any(|lock| history.count(lock) > 100), "the lists are long enough to be trees");
    }

    #[test]
    fn one_verdict_forgets_a_bounded_number_of_entries() {
        let mut history = History::default();
        for ended in 2..=HISTORY_REMOVED_MAX as u64 + 3 {
            history.insert(past(if ended % 2 == 0 { "a" } else { "b" }, ended));
        }
        assert_eq!(history.forget(Revision(u64::MAX)).len(), HISTORY_REMOVED_MAX);
        assert_eq!((history.len(), history.forget(Revision(u64::MAX)).len(), history.len()), (2, 2, 0));
        assert_eq!(history, History::default());
    }
}

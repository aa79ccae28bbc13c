//! The history of each lock: who held it, from when to when, and how that ended. It is for people, and bounded for each
//! lock and over all.
//!
//! A grant that changes its mode leaves one entry for each mode, so that a query for an earlier time returns the mode
//! and the token of that time. Only grants that held are recorded: withdrawn waiters would displace the entries that
//! readers need. Entries expire only by the leader's verdict (`Command::ForgetHistory`). Wall times are for people; no
//! rule reads them. A lock's history outlives its node.

use crate::{
    record::Moment,
    weighed::{Weigh, Weighed},
    weight::{HISTORY_BYTES, len},
};
use fairhold_types::{
    FencingToken, GrantNumber, HoldingEnd, LockName, Mode, Revision, SessionNumber,
    limits::{HISTORY_FORGOTTEN_MAX, HISTORY_MAX, HISTORY_PER_LOCK_MAX},
    time::WallMillis,
};
use imbl::{OrdMap, OrdSet};
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
    pub(crate) table: Weighed<(LockName, HistoryKey), Arc<PastHolding>>,
    /// The entries by age: a cache.
    pub(crate) by_age: OrdSet<(HistoryKey, LockName)>,
    /// The number of entries of each lock: a cache.
    counts: OrdMap<LockName, usize>,
}

impl History {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<PastHolding>> {
        self.table.values()
    }

    pub(crate) fn count(&self, lock: &LockName) -> usize {
        self.counts.get(lock).copied().unwrap_or(0)
    }

    /// Adds an entry. `trim` enforces the bounds.
    pub(crate) fn insert(&mut self, past: Arc<PastHolding>) {
        let lock = past.holding.lock.clone();
        let key = HistoryKey { ended: past.ending.to.revision, number: past.holding.number };
        if self.table.insert((lock.clone(), key), past).is_none() {
            *self.counts.entry(lock.clone()).or_default() += 1;
            self.by_age.insert((key, lock));
        }
    }

    /// The total weight in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.table.bytes()
    }

    /// The same weight, recomputed by a walk over all entries.
    pub(crate) fn recounted(&self) -> u64 {
        self.table.recounted()
    }

    /// Drops the oldest entries beyond the bounds, and returns their locks. Beyond `bytes_max` it drops up to
    /// `TRIMMED_MAX` entries for each new one, so that the history shrinks step by step.
    pub(crate) fn trim(&mut self, lock: &LockName, bytes_max: u64) -> Vec<LockName> {
        let mut dropped = Vec::new();
        while self.count(lock) > HISTORY_PER_LOCK_MAX
            && let Some(key) = self.oldest_of(lock)
        {
            self.remove(lock, key);
            dropped.push(lock.clone());
        }
        let dropped_max = dropped.len() + TRIMMED_MAX;
        while (self.len() > HISTORY_MAX || (self.bytes() > bytes_max && dropped.len() < dropped_max))
            && let Some((key, lock)) = self.by_age.get_min().cloned()
        {
            self.remove(&lock, key);
            dropped.push(lock);
        }
        dropped
    }

    /// Drops entries that ended up to this revision, `HISTORY_FORGOTTEN_MAX` at most, and returns their locks.
    pub(crate) fn forget(&mut self, through: Revision) -> Vec<LockName> {
        let old = self.by_age.iter().take_while(|(key, _)| key.ended <= through).take(HISTORY_FORGOTTEN_MAX);
        let old: Vec<_> = old.cloned().collect();
        old.iter().for_each(|(key, lock)| self.remove(lock, *key));
        old.into_iter().map(|(_, lock)| lock).collect()
    }

    fn remove(&mut self, lock: &LockName, key: HistoryKey) {
        let entry = (lock.clone(), key);
        if self.table.remove(&entry).is_none() {
            return;
        }
        self.by_age.remove(&(key, entry.0));
        match self.count(lock) {
            0 | 1 => drop(self.counts.remove(lock)),
            more => drop(self.counts.insert(lock.clone(), more - 1)),
        }
    }

    /// The entries of a lock, the oldest end first.
    pub(crate) fn of_lock<'a>(
        &'a self,
        lock: &LockName,
    ) -> impl DoubleEndedIterator<Item = (HistoryKey, &'a Arc<PastHolding>)> + use<'a> {
        self.of_lock_before(lock, HistoryKey::END)
    }

    /// The entries of a lock before a key, the oldest end first.
    pub(crate) fn of_lock_before<'a>(
        &'a self,
        lock: &LockName,
        end: HistoryKey,
    ) -> impl DoubleEndedIterator<Item = (HistoryKey, &'a Arc<PastHolding>)> + use<'a> {
        let first = HistoryKey { ended: Revision(0), number: GrantNumber(0) };
        self.table.range((lock.clone(), first)..(lock.clone(), end)).map(|((_, key), past)| (*key, past))
    }

    fn oldest_of(&self, lock: &LockName) -> Option<HistoryKey> {
        let oldest = self.of_lock(lock).next();
        oldest.map(|(key, _)| key)
    }

    /// Checks that the caches equal the table and that the bounds hold.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), String> {
        let mut counts: OrdMap<LockName, usize> = OrdMap::new();
        for ((lock, key), past) in self.table.iter() {
            *counts.entry(lock.clone()).or_default() += 1;
            let from = past.holding.from.revision;
            let to = past.ending.to.revision;
            let key_matches = past.holding.lock == *lock && to == key.ended && past.holding.number == key.number;
            if !key_matches || !self.by_age.contains(&(*key, lock.clone())) {
                return Err(format!("the history has #{} of {lock} under the wrong key", key.number));
            }
            if from >= to || to > revision || from.0 < past.holding.number.0 {
                return Err(format!("the history says that #{} held {lock} from @{from} to @{to}", key.number));
            }
        }
        if counts != self.counts || self.by_age.len() != self.table.len() {
            return Err("the history's caches differ from its table".to_owned());
        }
        if self.len() > HISTORY_MAX || self.counts.values().any(|count| *count > HISTORY_PER_LOCK_MAX) {
            return Err(format!("the history has {} entries, or too many of one lock", self.len()));
        }
        Ok(())
    }
}

impl Weigh<(LockName, HistoryKey)> for Arc<PastHolding> {
    fn key_weight((lock, _): &(LockName, HistoryKey)) -> u64 {
        len(lock.as_str())
    }

    fn weight(&self) -> u64 {
        HISTORY_BYTES + len(&self.holding.owner) + who_ended_weight(self)
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
            let dropped = history.trim(&LockName::parse(&name).unwrap(), u64::MAX);
            let expected: &[LockName] = if index < HISTORY_MAX { &[] } else { &[LockName::parse("lock-0").unwrap()] };
            assert_eq!(dropped, expected, "at {index}");
        }
        history.check(Revision(ended)).unwrap();
        assert_eq!((history.len(), history.by_age.get_min().unwrap().0.ended), (HISTORY_MAX, Revision(3)));
    }

    #[test]
    fn beyond_the_bound_in_bytes_a_few_entries_are_dropped_at_a_time() {
        let mut history = History::default();
        (2..12).for_each(|ended| history.insert(past("a", ended)));
        let a = LockName::parse("a").unwrap();
        assert_eq!((history.trim(&a, 0).len(), history.len()), (TRIMMED_MAX, 10 - TRIMMED_MAX));
        assert_eq!((history.trim(&a, history.bytes()).len(), history.len()), (0, 10 - TRIMMED_MAX));
    }

    #[test]
    fn one_verdict_forgets_a_bounded_number_of_entries() {
        let mut history = History::default();
        for ended in 2..=HISTORY_FORGOTTEN_MAX as u64 + 3 {
            history.insert(past(if ended % 2 == 0 { "a" } else { "b" }, ended));
        }
        assert_eq!(history.forget(Revision(u64::MAX)).len(), HISTORY_FORGOTTEN_MAX);
        assert_eq!((history.len(), history.forget(Revision(u64::MAX)).len(), history.len()), (2, 2, 0));
        assert_eq!(history, History::default());
    }
}

//! The histories of the locks: how entries are added, found and dropped, within the bounds for each lock and over all.

use crate::{
    check::ensure,
    history::{HistoryKey, PastHolding, who_ended_weight},
    lock_table::{LockRecord, LockTable},
};
use fairhold_types::{
    LockName, Revision,
    limits::{HISTORY_MAX, HISTORY_PER_LOCK_MAX, HISTORY_REMOVED_MAX},
};
use imbl::OrdSet;
use std::sync::Arc;

/// How many old entries each new entry may displace while the history exceeds its bytes.
const TRIMMED_MAX: usize = 4;

impl LockTable {
    /// All entries, lock by lock.
    pub(crate) fn history_entries(&self) -> impl Iterator<Item = &Arc<PastHolding>> {
        self.records.values().flat_map(|record| &record.history)
    }

    /// The bytes charged for all entries, by a walk over them.
    pub(crate) fn recounted_history(&self) -> u64 {
        self.history_entries().map(|past| past.weight()).sum()
    }

    /// Adds an entry from a snapshot.
    pub(crate) fn restore_entry(&mut self, past: PastHolding) {
        self.record_mut(past.holding.lock.clone());
        self.insert_entry(past, |_| ());
    }

    /// Adds an entry to the history of a lock, drops the oldest one beyond its bound, and makes another change of the
    /// record. `trim` enforces the bounds over all locks.
    pub(crate) fn insert_entry<T>(&mut self, past: PastHolding, also: impl FnOnce(&mut LockRecord) -> T) -> Option<T> {
        let key = past.key();
        let weight = past.weight();
        let lock = past.holding.lock.clone();
        let (before, after, dropped, result) = self.update(&lock, |record| {
            let entries = &mut record.history;
            let before = entries.front().map(|past| past.key());
            let mut dropped = None;
            if entries.back().is_none_or(|newest| newest.key() < key) {
                entries.push_back(Arc::new(past));
            } else {
                // Grants of the same command end in any order.
                match entries.binary_search_by_key(&key, |past| past.key()) {
                    // Only a damaged snapshot has an entry twice. It is refused, because its counts do not agree.
                    Ok(at) => dropped = Some(entries.set(at, Arc::new(past))),
                    Err(at) => entries.insert(at, Arc::new(past)),
                }
            }
            if entries.len() > HISTORY_PER_LOCK_MAX {
                dropped = entries.pop_front();
            }
            (before, entries.front().map(|past| past.key()), dropped, also(record))
        })?;
        self.history_len += 1;
        self.history_bytes += weight;
        self.count_dropped(dropped.as_deref());
        self.replace_oldest(&lock, before, after);
        Some(result)
    }

    fn count_dropped(&mut self, dropped: Option<&PastHolding>) {
        if let Some(dropped) = dropped {
            self.history_len -= 1;
            self.history_bytes -= dropped.weight();
        }
    }

    fn replace_oldest(&mut self, lock: &LockName, before: Option<HistoryKey>, after: Option<HistoryKey>) {
        if before != after {
            before.map(|key| self.oldest.remove(&(key, lock.clone())));
            after.map(|key| self.oldest.insert((key, lock.clone())));
        }
    }

    /// Adds the administrator that ended the holding period, and the reason, to an entry.
    pub(crate) fn record_who_ended(&mut self, lock: &LockName, key: HistoryKey, by: &str, reason: &str) {
        let weights = self.update(lock, |record| {
            let at = record.history.binary_search_by_key(&key, |past| past.key()).ok()?;
            let past = Arc::make_mut(record.history.get_mut(at)?);
            let before = who_ended_weight(past);
            past.ending.by = by.to_owned();
            past.ending.reason = reason.to_owned();
            Some((before, who_ended_weight(past)))
        });
        if let Some((before, after)) = weights.flatten() {
            self.history_bytes = self.history_bytes - before + after;
        }
    }

    /// Drops the oldest entries beyond the bounds, and returns how many. Beyond `bytes_max` it drops up to
    /// `TRIMMED_MAX` entries for each new one, so that the history shrinks step by step.
    pub(crate) fn trim(&mut self, bytes_max: u64) -> usize {
        let mut dropped = 0;
        while (self.history_len > HISTORY_MAX || (self.history_bytes > bytes_max && dropped < TRIMMED_MAX))
            && let Some((_, lock)) = self.oldest.get_min().cloned()
        {
            self.drop_oldest_of(&lock);
            dropped += 1;
        }
        dropped
    }

    /// Drops entries that ended up to this revision, `HISTORY_REMOVED_MAX` at most, and returns how many.
    pub(crate) fn forget(&mut self, through: Revision) -> usize {
        let mut dropped = 0;
        while dropped < HISTORY_REMOVED_MAX
            && let Some((_, lock)) = self.oldest.get_min().filter(|(key, _)| key.ended <= through).cloned()
        {
            self.drop_oldest_of(&lock);
            dropped += 1;
        }
        dropped
    }

    /// When the oldest entry of all ended.
    pub(crate) fn oldest_end(&self) -> Option<Revision> {
        self.oldest.get_min().map(|(key, _)| key.ended)
    }

    fn drop_oldest_of(&mut self, lock: &LockName) {
        let pop = |record: &mut LockRecord| (record.history.pop_front(), record.history.front().map(|past| past.key()));
        let Some((Some(dropped), next)) = self.update(lock, pop) else { return };
        self.count_dropped(Some(&dropped));
        self.replace_oldest(lock, Some(dropped.key()), next);
        if next.is_none() {
            self.drop_if_unused(lock);
        }
    }

    /// The entries of a lock before a key, the oldest end first.
    pub(crate) fn entries_before<'a>(
        &'a self,
        lock: &LockName,
        end: HistoryKey,
    ) -> impl DoubleEndedIterator<Item = (HistoryKey, &'a Arc<PastHolding>)> + Send + use<'a> {
        self.get(lock.as_str()).into_iter().flat_map(move |record| {
            let entries = &record.history;
            let before = entries.binary_search_by_key(&end, |past| past.key()).unwrap_or_else(|before| before);
            (0..before).filter_map(|at| entries.get(at)).map(|past| (past.key(), past))
        })
    }

    /// Checks that the caches equal the entries and that the bounds hold.
    pub(crate) fn check_history(&self, revision: Revision) -> Result<(), String> {
        let mut oldest = OrdSet::new();
        for (lock, record) in &self.records {
            let entries = &record.history;
            oldest.extend(entries.front().map(|past| (past.key(), lock.clone())));
            let sorted = entries.iter().zip(entries.iter().skip(1)).all(|(one, next)| one.key() < next.key());
            let unused = record.node.is_none() && entries.is_empty();
            let len = entries.len();
            let message = || format!("the history of {lock} is not in order, too long ({len}), or empty without a node");
            ensure(sorted && !unused && len <= HISTORY_PER_LOCK_MAX, message)?;
            for past in entries {
                let number = past.holding.number;
                let (from, to) = (past.holding.from.revision, past.ending.to.revision);
                let possible = past.holding.lock == *lock && from < to && to <= revision && from.0 >= number.0;
                ensure(possible, || format!("the history says that #{number} held {lock} from @{from} to @{to}"))?;
            }
        }
        let same = oldest == self.oldest && self.history_entries().count() == self.history_len;
        ensure(same, || "the history's caches differ from its entries".to_owned())?;
        ensure(self.history_len <= HISTORY_MAX, || format!("the history has {} entries", self.history_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::{Ending, Holding},
        record::Moment,
    };
    use fairhold_types::{FencingToken, GrantNumber, HoldingEnd, Mode, SessionNumber, time::WallMillis};

    fn past(lock: &str, ended: u64) -> PastHolding {
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
        PastHolding { holding, ending }
    }

    #[test]
    fn beyond_the_bound_over_all_locks_the_oldest_entry_is_dropped() {
        let mut history = LockTable::default();
        let locks = HISTORY_MAX / HISTORY_PER_LOCK_MAX + 1;
        let mut ended = 1;
        for index in 0..=HISTORY_MAX {
            ended += 1;
            let name = format!("lock-{}", index % locks);
            history.restore_entry(past(&name, ended));
            let oldest = history.oldest.get_min().map(|(_, lock)| lock.as_str().to_owned());
            assert_eq!(history.trim(u64::MAX), usize::from(index == HISTORY_MAX), "at {index}");
            assert_eq!(oldest.as_deref(), Some("lock-0"), "at {index}");
        }
        history.check_history(Revision(ended)).unwrap();
        assert_eq!((history.history_len, history.oldest_end()), (HISTORY_MAX, Some(Revision(3))));
    }

    #[test]
    fn beyond_the_bound_in_bytes_a_few_entries_are_dropped_at_a_time() {
        let mut history = LockTable::default();
        (2..12).for_each(|ended| history.restore_entry(past("a", ended)));
        assert_eq!((history.trim(0), history.history_len), (TRIMMED_MAX, 10 - TRIMMED_MAX));
        assert_eq!((history.trim(history.history_bytes), history.history_len), (0, 10 - TRIMMED_MAX));
    }

    #[test]
    fn entries_of_one_revision_are_kept_in_order_however_they_end() {
        let mut history = LockTable::default();
        let with_number = |number: u64| {
            let mut entry = past("a", 9);
            entry.holding.number = GrantNumber(number);
            entry
        };
        for number in [5, 3, 8, 4] {
            history.restore_entry(with_number(number));
            history.check_history(Revision(9)).unwrap();
        }
        let a = LockName::parse("a").unwrap();
        let numbers = |end| history.entries_before(&a, end).map(|(key, _)| key.number.0).collect::<Vec<_>>();
        assert_eq!(numbers(HistoryKey::END), [3, 4, 5, 8]);
        assert_eq!(numbers(HistoryKey { ended: Revision(9), number: GrantNumber(5) }), [3, 4]);
        let before = (history.history_len, history.history_bytes);
        history.restore_entry(with_number(4));
        assert_eq!((history.history_len, history.history_bytes), before, "an entry that is there twice counts once");
        assert_eq!(history.history_bytes, history.recounted_history());
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
        let mut history = LockTable::default();
        let mut sorted: Vec<(HistoryKey, LockName)> = Vec::new();
        let mut before = (history.clone(), sorted.clone());
        let keys = |history: &LockTable, lock: &LockName| {
            history.entries_before(lock, HistoryKey::END).map(|(key, _)| key).collect::<Vec<_>>()
        };
        let expected = |sorted: &[(HistoryKey, LockName)], lock: &LockName| {
            sorted.iter().filter(|(_, name)| name == lock).map(|(key, _)| *key).collect::<Vec<_>>()
        };
        for revision in 10_000..11_200 {
            // Up to 40 grants end in one command, in any order.
            for _ in 0..below(40) {
                let lock = &locks[usize::try_from(below(3)).unwrap()];
                let mut entry = past(lock.as_str(), revision);
                entry.holding.number = GrantNumber(below(9_000));
                let key = entry.key();
                if sorted.contains(&(key, lock.clone())) {
                    continue;
                }
                history.restore_entry(entry);
                sorted.push((key, lock.clone()));
                sorted.sort_unstable();
                if sorted.iter().filter(|(_, name)| name == lock).count() > HISTORY_PER_LOCK_MAX {
                    let oldest = sorted.iter().position(|(_, name)| name == lock).unwrap();
                    sorted.remove(oldest);
                }
                assert_eq!(history.trim(u64::MAX), 0, "the bound over all locks is far away");
            }
            if revision % 100 == 0 {
                history.check_history(Revision(revision)).unwrap();
                assert_eq!(history.history_bytes, history.recounted_history());
                for lock in &locks {
                    assert_eq!(keys(&history, lock), expected(&sorted, lock), "{lock} at revision {revision}");
                    assert_eq!(keys(&before.0, lock), expected(&before.1, lock), "a clone changed at revision {revision}");
                }
                let through = Revision(revision - 90);
                let forgotten = history.forget(through);
                assert!(sorted.drain(..forgotten).all(|(key, _)| key.ended <= through), "the oldest go first");
                before = (history.clone(), sorted.clone());
            }
        }
        assert!(locks.iter().any(|lock| keys(&history, lock).len() > 100), "the lists are long enough to be trees");
    }

    #[test]
    fn one_verdict_forgets_a_bounded_number_of_entries() {
        let mut history = LockTable::default();
        for ended in 2..=HISTORY_REMOVED_MAX as u64 + 3 {
            history.restore_entry(past(if ended % 2 == 0 { "a" } else { "b" }, ended));
        }
        assert_eq!(history.forget(Revision(u64::MAX)), HISTORY_REMOVED_MAX);
        assert_eq!((history.history_len, history.forget(Revision(u64::MAX)), history.history_len), (2, 2, 0));
        assert_eq!(history, LockTable::default());
    }
}

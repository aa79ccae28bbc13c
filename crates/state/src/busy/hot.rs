//! Locks that are granted often: their holds of the last minute, by the histories. Times are those of the commands.

use crate::{State, history::PastHolding, lock_table::LockRecord};
use fairhold_types::{
    GrantNumber, HoldingEnd, LockName,
    limits::{HISTORY_MAX, HISTORY_PER_LOCK_MAX},
    time::WallMillis,
};
use std::{cmp::Ordering, collections::BTreeSet};

const MINUTE_MS: u64 = 60_000;
/// The shortest time over which a rate is taken: the clocks of two nodes may differ.
const RATED_MS_MIN: u64 = 1_000;

/// A lock that is granted often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotLock {
    /// The lock.
    pub lock: LockName,
    /// How many grants that held it ended, per minute.
    pub grants_per_minute: u64,
    /// How many of them had to wait.
    pub hand_overs_per_minute: u64,
    /// The median of their waits, in milliseconds; 0 if none had to wait.
    pub wait_p50_ms: u64,
    /// How many wait for the lock.
    pub waiting: usize,
}

/// The last minute, as far as the histories cover it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastMinute {
    now: u64,
    from: u64,
}

impl LastMinute {
    pub(super) fn of(state: &State, now: WallMillis) -> LastMinute {
        let locks = &state.tree.locks;
        // Full histories drop the hold that ended first, of all locks.
        let oldest = locks.oldest.get_min().filter(|_| locks.history_len >= HISTORY_MAX);
        let kept_since = oldest.and_then(|(_, lock)| locks.get(lock.as_str())?.history.front()).map_or(0, |past| ended_at(past));
        LastMinute { now: now.0, from: now.0.saturating_sub(MINUTE_MS).max(kept_since) }
    }

    /// About how many grants a minute a lock has, to rank it: its ended holds, of which a grant that changes its mode has
    /// several. The cost does not depend on the length of the history.
    pub(super) fn estimate(self, record: &LockRecord) -> Option<u64> {
        let (from, first) = self.part(record)?;
        Some(self.per_minute(record.history.len() - first, from))
    }

    /// The figures of a lock; `None` if no grant of this time held it.
    pub(super) fn hot_lock(self, state: &State, lock: &LockName) -> Option<HotLock> {
        let record = state.lock_record(lock)?;
        let (from, first) = self.part(record)?;
        let (grants, mut waits) = grants_and_waits(record, first);
        if grants == 0 {
            return None;
        }
        waits.sort_unstable();
        Some(HotLock {
            lock: lock.clone(),
            grants_per_minute: self.per_minute(grants, from),
            hand_overs_per_minute: self.per_minute(waits.len(), from),
            wait_p50_ms: waits.get(waits.len() / 2).copied().unwrap_or(0),
            waiting: record.queue().map_or(0, |queue| queue.waiting.len()),
        })
    }

    /// The time since which the history of a lock is known, and the index of the first hold that ended later, if there is one.
    fn part(self, record: &LockRecord) -> Option<(u64, usize)> {
        let history = &record.history;
        let oldest = history.front().filter(|_| history.len() >= HISTORY_PER_LOCK_MAX);
        let from = self.from.max(oldest.map_or(0, |past| ended_at(past)));
        if ended_at(history.back()?) <= from {
            return None;
        }
        // Never `Equal`, so the search ends between the two parts.
        let order = |ended_at: u64| if ended_at > from { Ordering::Greater } else { Ordering::Less };
        let first = history.binary_search_by(|past| order(ended_at(past))).unwrap_or_else(|between| between);
        Some((from, first))
    }

    fn per_minute(self, count: usize, from: u64) -> u64 {
        count as u64 * MINUTE_MS / self.now.saturating_sub(from).max(RATED_MS_MIN)
    }
}

fn ended_at(past: &PastHolding) -> u64 {
    past.ending.to.at.0
}

/// How many grants have holds from this index on, and how long those that had to wait did. A grant that changes its mode
/// has several holds. It counts with the first, before which it waited.
fn grants_and_waits(record: &LockRecord, first: usize) -> (usize, Vec<u64>) {
    let mut changed = BTreeSet::new();
    let (mut grants, mut waits) = (0, Vec::new());
    for (index, past) in record.history.iter().enumerate() {
        let holding = &past.holding;
        let is_first_hold = !changed.contains(&holding.number);
        if matches!(past.ending.how, HoldingEnd::Upgraded | HoldingEnd::Downgraded) {
            changed.insert(holding.number);
        }
        if index < first || !is_first_hold {
            continue;
        }
        grants += 1;
        // The number of a grant is the revision at which it queued.
        if GrantNumber(holding.from.revision.0) > holding.number {
            waits.push(holding.from.at.0.saturating_sub(holding.queued_at.0));
        }
    }
    (grants, waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{Acquire, Command},
        request_for_tests::{acquire_in, open_session},
    };
    use fairhold_types::{GrantId, Mode, SessionId};

    const SESSION: SessionId = SessionId(7);

    struct Used {
        state: State,
        ids: u128,
    }

    impl Used {
        fn new() -> Used {
            let mut state = State::new();
            assert!(state.apply(&open_session(SESSION)).answer.result.is_ok());
            Used { state, ids: 0 }
        }

        fn acquire(&mut self, lock: &str, at: u64) -> GrantId {
            self.ids += 1;
            let grant = GrantId::from_ulid(self.ids << 64);
            let acquire = Acquire { at: WallMillis(at), ..acquire_in(SESSION, grant, &[lock], Mode::Exclusive) };
            assert!(self.state.apply(&Command::Acquire(acquire)).answer.result.is_ok());
            grant
        }

        fn release(&mut self, grant: GrantId, at: u64) {
            let release = Command::Release { grant, session: None, at: WallMillis(at) };
            assert!(self.state.apply(&release).answer.result.is_ok());
        }

        /// Hands the lock over `times` times, every `every` milliseconds. Each next holder waits that long.
        fn hand_over(&mut self, lock: &str, from: u64, every: u64, times: u64) -> GrantId {
            let mut holder = self.acquire(lock, from);
            for time in 1..=times {
                let next = self.acquire(lock, from + (time - 1) * every);
                self.release(holder, from + time * every);
                holder = next;
            }
            holder
        }

        /// Grants and hand-overs a minute, the median of the waits, and how many wait.
        fn figures(&self, lock: &str, now: u64) -> Option<(u64, u64, u64, usize)> {
            let lock = LockName::parse(lock).unwrap();
            let hot = LastMinute::of(&self.state, WallMillis(now)).hot_lock(&self.state, &lock)?;
            Some((hot.grants_per_minute, hot.hand_overs_per_minute, hot.wait_p50_ms, hot.waiting))
        }
    }

    #[test]
    fn the_grants_and_hand_overs_of_the_last_minute_count() {
        let mut used = Used::new();
        used.hand_over("a", 1_000, 500, 10);
        used.acquire("a", 9_000);
        // The first of the ten holds that ended was granted at once.
        assert_eq!(used.figures("a", 60_000), Some((10, 9, 500, 1)));
        // Holds end at 1.5 s, 2 s and so on up to 6 s.
        assert_eq!(used.figures("a", 65_000), Some((2, 2, 500, 1)), "only what ended after 5 s");
        assert_eq!(used.figures("a", 66_000), None);
    }

    #[test]
    fn a_lock_that_one_owner_takes_again_and_again_is_hot() {
        let mut used = Used::new();
        for at in 1..=20 {
            let grant = used.acquire("b", at * 10);
            used.release(grant, at * 10 + 5);
        }
        assert_eq!(used.figures("b", 1_000), Some((1_200, 0, 0, 0)), "twenty in a second, and none had to wait");
        assert_eq!(used.figures("never-used", 1_000), None);
    }

    #[test]
    fn a_full_history_gives_the_rate_of_the_time_that_it_covers() {
        let mut used = Used::new();
        let times = HISTORY_PER_LOCK_MAX as u64 + 200;
        used.hand_over("c", 0, 10, times);
        // A hundred a second; the oldest kept hold ended when its time begins.
        let now = times * 10;
        let (grants, hand_overs, wait, _) = used.figures("c", now).unwrap();
        assert_eq!((grants, hand_overs, wait), (6_000, 6_000, 10));
        let record = used.state.lock_record(&LockName::parse("c").unwrap()).unwrap();
        let estimate = LastMinute::of(&used.state, WallMillis(now)).estimate(record).unwrap();
        assert!((5_900..=6_000).contains(&estimate), "{estimate} is far from {grants}");
    }
}

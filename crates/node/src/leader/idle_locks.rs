//! Unused locks, and when the cluster forgets them, as a pure structure.
//!
//! The cluster forgets a lock that was unused for `LOCK_IDLE_MAX`. Unused locks take at most a part of the state's
//! budget: beyond that, the locks that were unused for longest go first, but not before `LOCK_IDLE_MIN`. Otherwise
//! clients that keep taking and releasing new names would fill the state.

use crate::leader::deadlines::Deadlines;
use fairhold_state::weight::unused_lock_bytes;
use fairhold_types::{
    LockName, Revision,
    limits::{LOCK_IDLE_MAX, LOCK_IDLE_MIN, VERDICT_OBJECTS_MAX},
};
use openraft_rt::Instant;
use std::collections::BTreeMap;

/// Unused locks take at most the budget divided by this.
const IDLE_SHARE: u64 = 8;

/// The unused locks, each with the revision since which it is unused.
#[derive(Debug)]
pub(crate) struct IdleLocks<I> {
    deadlines: Deadlines<LockName, I>,
    since: BTreeMap<LockName, Revision>,
    /// Their share of the state's budget.
    bytes: u64,
}

impl<I: Instant> IdleLocks<I> {
    pub(crate) fn new() -> Self {
        IdleLocks { deadlines: Deadlines::new(), since: BTreeMap::new(), bytes: 0 }
    }

    /// The lock is unused since this revision, which was reached just now.
    pub(crate) fn insert(&mut self, lock: LockName, since: Revision, now: I) {
        self.deadlines.insert(lock.clone(), LOCK_IDLE_MAX, now);
        let bytes = unused_lock_bytes(&lock);
        if self.since.insert(lock, since).is_none() {
            self.bytes += bytes;
        }
    }

    /// The lock is used again, or forgotten.
    pub(crate) fn remove(&mut self, lock: &LockName) {
        if self.since.remove(lock).is_some() {
            self.bytes -= unused_lock_bytes(lock);
            self.deadlines.remove(lock.clone());
        }
    }

    /// Whether the lock is unused since exactly this revision.
    pub(crate) fn is_since(&self, lock: &LockName, since: Revision) -> bool {
        self.since.get(lock) == Some(&since)
    }

    /// The locks to forget, as many as one command may cover. `budget` is the state's.
    pub(crate) fn due(&mut self, budget: Option<u64>, now: I) -> Vec<(LockName, Revision)> {
        let due = self.deadlines.due_up_to(now, VERDICT_OBJECTS_MAX);
        let with_since = |lock: LockName| self.since.get(&lock).map(|since| (lock, *since));
        if !due.is_empty() {
            return due.into_iter().filter_map(with_since).collect();
        }
        let mut excess = budget.map_or(0, |budget| self.bytes.saturating_sub(budget / IDLE_SHARE));
        if excess == 0 {
            return Vec::new();
        }
        let early = self.deadlines.due_up_to(now + (LOCK_IDLE_MAX - LOCK_IDLE_MIN), VERDICT_OBJECTS_MAX);
        let is_needed = |lock: &LockName| {
            let is_needed = excess > 0;
            excess = excess.saturating_sub(unused_lock_bytes(lock));
            is_needed
        };
        early.into_iter().take_while(is_needed).filter_map(with_since).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt::AsyncRuntime;
    use openraft_rt_tokio::TokioRuntime;
    use std::time::Duration;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    fn name(number: u64) -> LockName {
        LockName::parse(&format!("lock-{number:04}")).unwrap()
    }

    /// Ten locks, last used one second apart.
    fn ten() -> (IdleLocks<Moment>, Moment) {
        let mut idle = IdleLocks::new();
        let start = Moment::now();
        for number in 0..10 {
            idle.insert(name(number), Revision(number), start + Duration::from_secs(number));
        }
        (idle, start)
    }

    fn numbers(due: Vec<(LockName, Revision)>) -> Vec<u64> {
        let number = |(lock, since): (LockName, Revision)| {
            assert_eq!(lock, name(since.0));
            since.0
        };
        due.into_iter().map(number).collect()
    }

    #[test]
    fn unused_locks_within_their_share_of_the_budget_stay_for_their_full_time() {
        let (mut idle, start) = ten();
        let room = 8 * 10 * unused_lock_bytes(&name(0));
        let mut after = |span| numbers(idle.due(Some(room), start + span));
        assert_eq!(after(LOCK_IDLE_MAX - Duration::from_millis(1)), [0; 0]);
        assert_eq!(after(LOCK_IDLE_MAX + Duration::from_secs(2)), [0, 1, 2]);
        assert_eq!(numbers(idle.due(None, start + Duration::from_secs(500))), [0; 0], "without a budget there is no excess");
    }

    #[test]
    fn beyond_their_share_only_as_many_locks_as_needed_go_early_the_longest_unused_first() {
        let (mut idle, start) = ten();
        // Room for seven of them.
        let room = 8 * 7 * unused_lock_bytes(&name(0));
        let after = |idle: &mut IdleLocks<Moment>, span| numbers(idle.due(Some(room), start + span));
        assert_eq!(after(&mut idle, LOCK_IDLE_MIN - Duration::from_millis(1)), [0; 0], "the last user may come back");
        assert_eq!(after(&mut idle, LOCK_IDLE_MIN + Duration::from_secs(1)), [0, 1]);
        assert_eq!(after(&mut idle, LOCK_IDLE_MIN + Duration::from_secs(60)), [0, 1, 2]);
        for number in 0..3 {
            idle.remove(&name(number));
        }
        assert_eq!(after(&mut idle, LOCK_IDLE_MIN + Duration::from_secs(60)), [0; 0]);
        assert!(idle.is_since(&name(3), Revision(3)) && !idle.is_since(&name(2), Revision(2)));
    }

    #[test]
    fn repeated_inserts_and_removals_count_the_bytes_once() {
        let (mut idle, start) = ten();
        for number in 0..10 {
            idle.insert(name(number), Revision(20 + number), start);
        }
        for number in (0..10).chain(0..10) {
            idle.remove(&name(number));
        }
        assert_eq!(idle.bytes, 0);
        assert_eq!(numbers(idle.due(Some(0), start + LOCK_IDLE_MAX)), [0; 0]);
    }
}

//! What stands out among the locks: the longest waits, the longest holds, the locks that are granted most often, and
//! locks that deserve a look.

mod hot;

use crate::{State, lock_walk::LockWalk, queue::Queue};
use fairhold_types::{GrantNumber, LockName, SessionNumber, time::WallMillis};
pub use hot::HotLock;
use hot::LastMinute;
use std::{cmp::Reverse, collections::BTreeSet, fmt};

/// How many entries each list has.
pub const BUSY_LISTED_MAX: usize = 10;

/// How many locks without a holder or a waiter a walk visits at most. Together, they cost about ten milliseconds, in short
/// turns. If there are more, it visits none of them: the first ones by name would hide hotter ones.
const IDLE_VISITED_MAX: usize = 20_000;

/// A contender that has held or waited for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyEntry {
    /// The lock.
    pub lock: LockName,
    /// The grant.
    pub number: GrantNumber,
    /// Its session, unless it was made for this grant alone.
    pub session: Option<SessionNumber>,
    /// Its owner.
    pub owner: String,
    /// Since when it has held, or waited.
    pub since: WallMillis,
    /// How many wait for the lock.
    pub waiting: usize,
    /// How many may wait, if an administrator set a limit.
    pub max_waiters: Option<u64>,
    /// How long recent holders have usually held the lock.
    pub usual_hold_ms: Option<u64>,
    /// The first holder of the lock, for a waiter.
    pub holder: Option<(GrantNumber, String)>,
}

/// The entries that stand out, the longest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusyLocks {
    /// The longest waiter of each lock.
    pub waiting: Vec<BusyEntry>,
    /// The longest holder of each lock.
    pub holding: Vec<BusyEntry>,
    /// The longest holder of each lock that others wait for.
    pub blocking: Vec<BusyEntry>,
    /// The longest waiter of each lock, the fullest queue first, of the queues with a limit.
    pub full: Vec<BusyEntry>,
    /// The locks that were granted most often in the last minute, the most frequent first.
    pub hot: Vec<HotLock>,
}

/// Looks at all locks in use, and at those that were in use lately. It visits a given number of locks at a time, so that
/// the caller can let other tasks run in between.
pub struct BusyWalk<'a> {
    state: &'a State,
    /// Which names it may show; `None`: all.
    visible: Option<&'a (dyn Fn(&LockName) -> bool + Sync)>,
    names: Box<dyn Iterator<Item = &'a LockName> + Send + 'a>,
    records: LockWalk<'a>,
    waiting: Longest<'a>,
    holding: Longest<'a>,
    blocking: Longest<'a>,
    full: Longest<'a>,
    last_minute: LastMinute,
    hot: Longest<'a>,
}

impl fmt::Debug for BusyWalk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BusyWalk")
    }
}

/// The first few of everything that was added, by rank. A lock has one entry.
#[derive(Default)]
struct Longest<'a>(BTreeSet<(u64, &'a LockName, GrantNumber)>);

impl<'a> Longest<'a> {
    fn add(&mut self, rank: u64, lock: &'a LockName, number: GrantNumber) {
        self.0.insert((rank, lock, number));
        if self.0.len() > BUSY_LISTED_MAX {
            self.0.pop_last();
        }
    }

    fn entries(&self, state: &State) -> Vec<BusyEntry> {
        self.0.iter().filter_map(|(_, lock, number)| state.busy_entry(lock, *number)).collect()
    }
}

impl<'a> BusyWalk<'a> {
    /// The same of only these locks.
    #[must_use]
    pub fn only(self, visible: &'a (dyn Fn(&LockName) -> bool + Sync)) -> BusyWalk<'a> {
        BusyWalk { visible: Some(visible), ..self }
    }

    /// Visits `count` more locks. Returns whether all were visited.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some(lock) = self.names.next() else { return true };
            if self.visible.is_none_or(|is_visible| is_visible(lock)) {
                self.consider(lock);
            }
        }
        false
    }

    /// What stands out.
    #[must_use]
    pub fn finish(&self) -> BusyLocks {
        BusyLocks {
            waiting: self.waiting.entries(self.state),
            holding: self.holding.entries(self.state),
            blocking: self.blocking.entries(self.state),
            full: self.full.entries(self.state),
            hot: self.hot_locks(),
        }
    }

    fn hot_locks(&self) -> Vec<HotLock> {
        let found = self.hot.0.iter().filter_map(|(_, lock, _)| self.last_minute.hot_lock(self.state, lock));
        let mut hot: Vec<HotLock> = found.collect();
        // They were chosen by an estimate.
        hot.sort_by_key(|hot| Reverse((hot.grants_per_minute, hot.hand_overs_per_minute)));
        hot
    }

    fn consider(&mut self, lock: &'a LockName) {
        let Some(record) = self.records.get(lock) else { return };
        if let Some(rate) = self.last_minute.estimate(record) {
            // No grant: the entry is about the lock.
            self.hot.add(u64::MAX - rate, lock, GrantNumber(0));
        }
        let Some(queue) = record.queue() else { return };
        let oldest = queue.by_age.get_min().copied();
        if let Some(oldest) = oldest {
            // Numbers grow with the time of queueing.
            self.waiting.add(oldest.0, lock, oldest);
            if let Some(fullness) = self.fullness(lock, queue) {
                self.full.add(u64::MAX - fullness, lock, oldest);
            }
        }
        if let Some((number, since)) = self.longest_holder(lock, queue) {
            self.holding.add(since.0, lock, number);
            if oldest.is_some() {
                self.blocking.add(since.0, lock, number);
            }
        }
    }

    /// The share of the places in a queue that are taken, in thousandths, if the places are limited.
    fn fullness(&self, lock: &LockName, queue: &Queue) -> Option<u64> {
        let max_waiters = self.state.settings(lock)?.max_waiters.filter(|max| *max > 0)?;
        (queue.waiting.len() as u64).saturating_mul(1_000).checked_div(max_waiters)
    }

    /// The holder that queued first and neither cools nor has ended.
    fn longest_holder(&self, lock: &LockName, queue: &Queue) -> Option<(GrantNumber, WallMillis)> {
        let holders = queue.holders.iter().take(BUSY_LISTED_MAX);
        let mut contenders = holders.filter_map(|number| self.state.contender_in(lock, *number));
        let holder = contenders.find(|holder| !holder.cooling && !self.state.is_dead(holder))?;
        Some((holder.number, holder.held_since?))
    }
}

impl State {
    /// A walk over all locks with holders or waiters. Unless there are too many, it visits the others too: a lock that is
    /// granted often may be idle for a moment. `now` ends the minute of the locks that are granted most often.
    #[must_use]
    pub fn busy_walk(&self, now: WallMillis) -> BusyWalk<'_> {
        let (used, busy) = (&self.index.locks, &self.index.busy);
        let names = if used.len().saturating_sub(busy.len()) > IDLE_VISITED_MAX { busy } else { used };
        BusyWalk {
            state: self,
            visible: None,
            names: Box::new(names.iter()),
            records: LockWalk::new(&self.tree.locks),
            waiting: Longest::default(),
            holding: Longest::default(),
            blocking: Longest::default(),
            full: Longest::default(),
            last_minute: LastMinute::of(self, now),
            hot: Longest::default(),
        }
    }

    fn busy_entry(&self, lock: &LockName, number: GrantNumber) -> Option<BusyEntry> {
        let contender = self.contender_in(lock, number)?;
        let summary = self.lock_summary(lock);
        let is_waiter = contender.granted_at.is_none();
        let holder = self.first_holder(lock).filter(|_| is_waiter);
        Some(BusyEntry {
            lock: lock.clone(),
            number,
            session: (!contender.anonymous).then_some(contender.session),
            owner: contender.owner.text.clone(),
            since: contender.held_since.unwrap_or(contender.queued_at),
            waiting: summary.waiting,
            max_waiters: summary.max_waiters,
            usual_hold_ms: self.usual_hold_ms(lock),
            holder: holder.map(|holder| (holder.number, holder.owner.text.clone())),
        })
    }
}

#[cfg(test)]
mod tests;

//! How long locks are waited for and held, and how that ends, counted for each lock and over all.
//!
//! In the replicated state, because then every node says the same, and a restart or a change of leader loses nothing. A
//! lock's numbers live as long as its node or its history. Spans come from the wall times that rode in the commands: they are
//! for people, and no rule reads one. A grant of several locks is counted in each of them, and once in the totals.

use crate::{State, apply::Change, history::Holding, record::Contender};
use fairhold_types::{EndReason, GrantNumber, LockName};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Buckets of a histogram: up to 1 ms, and each next one up to four times that; the last has no bound.
pub const BUCKETS: usize = 13;

/// Spans of time in fixed buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many fell into each bucket.
    pub counts: [u64; BUCKETS],
    /// All spans together, in milliseconds.
    pub sum_ms: u64,
}

impl Histogram {
    /// The longest span of a bucket, in milliseconds; none for the last.
    #[must_use]
    pub fn bound_ms(bucket: usize) -> Option<u64> {
        (bucket + 1 < BUCKETS).then(|| 1_u64 << (2 * bucket))
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, span_ms: u64) {
        let bucket = (0..BUCKETS).find(|bucket| Histogram::bound_ms(*bucket).is_none_or(|bound| span_ms <= bound));
        if let Some(count) = bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            *count += 1;
        }
        self.sum_ms = self.sum_ms.saturating_add(span_ms);
    }
}

/// What is counted of one lock, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// How long those waited who were granted; those who were granted at once are in the first bucket.
    pub waited: Histogram,
    /// How long those held who have ended, or hold in another mode since.
    pub held: Histogram,
    /// Grants that had to wait.
    pub hand_overs: u64,
    /// Grants that were held and given back.
    pub released: u64,
    /// Grants that were lost because their session expired.
    pub expired: u64,
    /// Grants that were lost because an administrator took them.
    pub broken: u64,
    /// Grants that were held when their caller was found to have gone.
    pub abandoned: u64,
    /// Grants that ended without being held.
    pub gave_up: u64,
    /// How often one who held went on holding in another mode: each is one more time of holding.
    pub changed_mode: u64,
}

impl Statistics {
    fn granted(&mut self, waited_ms: u64, at_once: bool) {
        self.waited.add(waited_ms);
        self.hand_overs += u64::from(!at_once);
    }

    fn ended(&mut self, held_ms: Option<u64>, how: EndReason) {
        let Some(held_ms) = held_ms else {
            self.gave_up += 1;
            return;
        };
        self.held.add(held_ms);
        *match how {
            EndReason::Released => &mut self.released,
            EndReason::Expired => &mut self.expired,
            EndReason::Broken => &mut self.broken,
            EndReason::Withdrawn => &mut self.abandoned,
        } += 1;
    }

    /// How many hold, if all is counted well.
    fn holding(&self) -> Option<u64> {
        (self.waited.total() + self.changed_mode).checked_sub(self.held.total())
    }
}

impl Change<'_> {
    /// Counts one that was granted now.
    pub(crate) fn count_granted(&mut self, contender: &Contender) {
        let waited = self.at.0.saturating_sub(contender.queued_at.0);
        let at_once = contender.number.0 == self.revision.0;
        self.count(contender, |statistics| statistics.granted(waited, at_once));
    }

    /// Counts one that ends now, whether it held or not.
    pub(crate) fn count_ended(&mut self, contender: &Contender, holding: Option<&Holding>, how: EndReason) {
        let held = holding.map(|holding| self.at.0.saturating_sub(holding.from.at.0));
        self.count(contender, |statistics| statistics.ended(held, how));
    }

    /// Counts one that holds in another mode from now on; it has one lock.
    pub(crate) fn count_changed_mode(&mut self, holding: &Holding) {
        let held = self.at.0.saturating_sub(holding.from.at.0);
        let contender = self.contender(holding.number).clone();
        self.count(&contender, |statistics| {
            statistics.held.add(held);
            statistics.changed_mode += 1;
        });
    }

    fn count(&mut self, contender: &Contender, mut what: impl FnMut(&mut Statistics)) {
        if !contender.companion {
            what(Arc::make_mut(&mut self.state.totals));
        }
        match self.state.statistics.get_mut(&contender.lock) {
            Some(statistics) => what(Arc::make_mut(statistics)),
            None => {
                let mut statistics = Statistics::default();
                what(&mut statistics);
                self.state.statistics.insert(contender.lock.clone(), Arc::new(statistics));
            }
        }
    }
}

impl State {
    /// What is counted of a lock, as long as its node or its history is there.
    #[must_use]
    pub fn statistics(&self, lock: &LockName) -> Option<&Statistics> {
        self.statistics.get(lock).map(|statistics| &**statistics)
    }

    /// What is counted of all locks since the cluster began; those that are gone are in it.
    #[must_use]
    pub fn totals(&self) -> &Statistics {
        &self.totals
    }

    /// Drops the numbers of locks that have neither a node nor a history.
    pub(crate) fn drop_statistics(&mut self, locks: impl IntoIterator<Item = LockName>) {
        for lock in locks {
            if self.history.count(&lock) == 0 && self.settings(&lock).is_none() {
                self.statistics.remove(&lock);
            }
        }
    }

    pub(crate) fn check_statistics(&self) -> Result<(), String> {
        let (mut holding, mut all): (BTreeMap<&LockName, u64>, u64) = (BTreeMap::new(), 0);
        for (lock, queue) in &self.index.queues {
            let held: Vec<_> = queue.holders.iter().filter(|number| !self.index.cooling.contains(*number)).collect();
            holding.insert(lock, held.len() as u64);
            let first = |number: &&&GrantNumber| self.contender(***number).is_some_and(|contender| contender.lock == *lock);
            all += held.iter().filter(first).count() as u64;
        }
        for (lock, statistics) in self.statistics.iter() {
            if self.settings(lock).is_none() && self.history.count(lock) == 0 {
                return Err(format!("numbers are kept of {lock}, which is gone"));
            }
            let held = holding.remove(lock).unwrap_or(0);
            if statistics.holding() != Some(held) {
                return Err(format!("the numbers of {lock} have {:?} holders, there are {held}", statistics.holding()));
            }
            if statistics.held.total() < self.history.count(lock) as u64 {
                return Err(format!("the history of {lock} has more than were counted"));
            }
        }
        if let Some((lock, _)) = holding.into_iter().find(|(_, held)| *held > 0) {
            return Err(format!("{lock} is held and was never counted"));
        }
        if self.totals.holding() != Some(all) {
            return Err(format!("the totals have {:?} grants held, there are {all}", self.totals.holding()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_falls_into_the_first_bucket_that_is_long_enough() {
        let mut histogram = Histogram::default();
        for (span, bucket) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (4_194_304, 11), (4_194_305, 12), (u64::MAX, 12)] {
            let before = histogram.counts[bucket];
            histogram.add(span);
            assert_eq!(histogram.counts[bucket], before + 1, "{span}");
        }
        assert_eq!((histogram.total(), histogram.sum_ms), (8, u64::MAX));
    }
}

//! How long locks are waited for and held, and how that ends, counted for each lock and over all.
//!
//! In the replicated state, because then every node says the same, and a restart or a change of leader loses nothing. A
//! lock's numbers live as long as its node or its history. Spans come from the wall times that rode in the commands: they are
//! for people, and no rule reads one. A grant of several locks is counted in each of them, and once in the totals.

use crate::{
    weighed::Weigh,
    weight::{STATISTICS_BYTES, len},
};
use fairhold_types::{EndReason, LockName};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Buckets of a histogram: up to 1 ms, and each next one up to four times that; the last has no bound.
pub const BUCKETS: usize = 13;

/// Spans of time in fixed buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldHistogram {
    /// How many fell into each bucket.
    pub counts: [u64; BUCKETS],
    /// All spans together, in milliseconds.
    pub sum_ms: u64,
}

impl HoldHistogram {
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

    pub(crate) fn add(&mut self, span_ms: u64) {
        let bucket = (0..BUCKETS).find(|bucket| HoldHistogram::bound_ms(*bucket).is_none_or(|bound| span_ms <= bound));
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
    pub waited: HoldHistogram,
    /// How long those held who have ended, or hold in another mode since.
    pub held: HoldHistogram,
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
    pub(crate) fn granted(&mut self, waited_ms: u64, at_once: bool) {
        self.waited.add(waited_ms);
        self.hand_overs += u64::from(!at_once);
    }

    pub(crate) fn ended(&mut self, held_ms: Option<u64>, how: EndReason) {
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
    pub(crate) fn holding(&self) -> Option<u64> {
        (self.waited.total() + self.changed_mode).checked_sub(self.held.total())
    }
}

impl Weigh<LockName> for Arc<Statistics> {
    fn key_weight(lock: &LockName) -> u64 {
        len(lock.as_str())
    }

    fn weight(&self) -> u64 {
        STATISTICS_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_falls_into_the_first_bucket_that_is_long_enough() {
        let mut histogram = HoldHistogram::default();
        for (span, bucket) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (4_194_304, 11), (4_194_305, 12), (u64::MAX, 12)] {
            let before = histogram.counts[bucket];
            histogram.add(span);
            assert_eq!(histogram.counts[bucket], before + 1, "{span}");
        }
        assert_eq!((histogram.total(), histogram.sum_ms), (8, u64::MAX));
    }
}

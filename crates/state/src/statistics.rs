//! How long contenders wait for locks and hold them, and how that ends: counted for each lock and over all.
//!
//! Statistics are part of the replicated state, so that every node reports the same, and a restart or a change of
//! leader loses nothing. A lock's statistics exist as long as its node or its history. Durations are differences of
//! the wall times in the commands: they are for people, and no rule reads them. A multi-lock grant counts in each of
//! its locks, and once in the totals.

use fairhold_types::EndReason;
use serde::{Deserialize, Serialize};

/// The number of buckets of a histogram. The first ends at 1 ms, each further one at four times the bound before it,
/// and the last has no bound.
pub const BUCKETS: usize = 13;

/// A histogram of durations with fixed buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldHistogram {
    /// The count of each bucket.
    pub counts: [u64; BUCKETS],
    /// The sum of all durations in milliseconds.
    pub sum_ms: u64,
}

impl HoldHistogram {
    /// The upper bound of a bucket in milliseconds; `None` for the last.
    #[must_use]
    pub fn bound_ms(bucket: usize) -> Option<u64> {
        (bucket + 1 < BUCKETS).then(|| 1_u64 << (2 * bucket))
    }

    /// The count over all buckets.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn add(&mut self, duration_ms: u64) {
        let bucket = (0..BUCKETS).find(|bucket| HoldHistogram::bound_ms(*bucket).is_none_or(|bound| duration_ms <= bound));
        if let Some(count) = bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            *count += 1;
        }
        self.sum_ms = self.sum_ms.saturating_add(duration_ms);
    }
}

/// The statistics of one lock, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// How long granted contenders waited. Those granted at once are in the first bucket.
    pub waited: HoldHistogram,
    /// How long finished holding periods took.
    pub held: HoldHistogram,
    /// Grants that had to wait.
    pub hand_overs: u64,
    /// Held grants that were released.
    pub released: u64,
    /// Held grants that expired.
    pub expired: u64,
    /// Held grants that an administrator broke.
    pub broken: u64,
    /// Held grants whose caller disconnected.
    pub abandoned: u64,
    /// Grants that ended without being held.
    pub gave_up: u64,
    /// How often a holder changed its mode: each change starts another holding period.
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

    pub(crate) fn changed_mode(&mut self, held_ms: u64) {
        self.held.add(held_ms);
        self.changed_mode += 1;
    }

    /// The number of current holders; `None` if the counts are inconsistent.
    pub(crate) fn holding(&self) -> Option<u64> {
        (self.waited.total() + self.changed_mode).checked_sub(self.held.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_is_wide_enough() {
        let mut histogram = HoldHistogram::default();
        for (duration, bucket) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (4_194_304, 11), (4_194_305, 12), (u64::MAX, 12)] {
            let before = histogram.counts[bucket];
            histogram.add(duration);
            assert_eq!(histogram.counts[bucket], before + 1, "{duration}");
        }
        assert_eq!((histogram.total(), histogram.sum_ms), (8, u64::MAX));
    }
}

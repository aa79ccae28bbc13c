//! A histogram without a lock: an observation is two relaxed additions.

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Counts observations by size. Clones are handles of one histogram.
///
/// A concurrent scrape may see an observation in a bucket but not yet in the sum. The count is the sum of the buckets,
/// so the output is always a valid histogram.
#[derive(Clone)]
pub struct Histogram(Arc<HistogramInner>);

struct HistogramInner {
    bounds: &'static [f64],
    /// One more than `bounds`: the last bucket counts observations above all bounds.
    counts: Box<[AtomicU64]>,
    /// In nanoseconds for durations, otherwise in units.
    sum: AtomicU64,
    /// How many units of the sum make one unit of the bounds.
    scale: f64,
}

const NANOS: f64 = 1e9;

/// How many observations of a histogram were large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeObservations {
    /// All observations.
    pub all: u64,
    /// Those that were larger than the bound.
    pub larger: u64,
    /// The bound.
    pub bound: Duration,
}

/// The observations of a histogram of durations up to one time, by bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketCounts {
    bounds: &'static [f64],
    counts: Box<[u64]>,
}

impl BucketCounts {
    /// The 99th percentile of the observations since `before`, rounded up to the bound of its bucket; `None` if there were
    /// none. It is at most the largest bound. `before` must come from the same histogram.
    #[must_use]
    pub fn p99_since(&self, before: &BucketCounts) -> Option<Duration> {
        let counts = self.counts.iter().zip(&before.counts);
        let new: Vec<u64> = counts.map(|(now, before)| now.saturating_sub(*before)).collect();
        let all: u64 = new.iter().sum();
        if all == 0 {
            return None;
        }
        let rank = (all * 99).div_ceil(100);
        let sums = new.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let bucket = sums.take_while(|sum| *sum < rank).count();
        self.bounds.get(bucket).or(self.bounds.last()).copied().map(Duration::from_secs_f64)
    }
}

impl Histogram {
    /// A histogram of durations. The upper bounds are in seconds, in ascending order.
    #[must_use]
    pub fn of_seconds(bounds: &'static [f64]) -> Histogram {
        Histogram::new(bounds, NANOS)
    }

    /// A histogram of sizes. The upper bounds are in ascending order.
    #[must_use]
    pub fn of_sizes(bounds: &'static [f64]) -> Histogram {
        Histogram::new(bounds, 1.0)
    }

    fn new(bounds: &'static [f64], scale: f64) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(HistogramInner { bounds, counts, sum: AtomicU64::new(0), scale }))
    }

    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        self.note(duration.as_secs_f64(), u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a size.
    pub fn observe_size(&self, size: usize) {
        self.note(size as f64, size as u64);
    }

    /// How many observations there were, and how many of them were larger than the smallest bound that is not below
    /// `limit`. If no bound is that large, nothing counts as larger.
    #[must_use]
    pub fn larger_than(&self, limit: Duration) -> LargeObservations {
        let inner = &self.0;
        let first = inner.bounds.partition_point(|bound| *bound < limit.as_secs_f64());
        let counts: Vec<u64> = inner.counts.iter().map(|count| count.load(Relaxed)).collect();
        let bound = inner.bounds.get(first).copied().map_or(Duration::MAX, Duration::from_secs_f64);
        LargeObservations { all: counts.iter().sum(), larger: counts.iter().skip(first + 1).sum(), bound }
    }

    /// The observations until now. It reads one number for each bucket.
    #[must_use]
    pub fn counts(&self) -> BucketCounts {
        let counts = self.0.counts.iter().map(|count| count.load(Relaxed)).collect();
        BucketCounts { bounds: self.0.bounds, counts }
    }

    fn note(&self, value: f64, addend: u64) {
        let bucket = self.0.bounds.partition_point(|bound| *bound < value);
        self.0.counts[bucket].fetch_add(1, Relaxed);
        self.0.sum.fetch_add(addend, Relaxed);
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram").field("bounds", &self.0.bounds).finish_non_exhaustive()
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let inner = &self.0;
        let bounds = inner.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(&inner.counts).map(|(bound, count)| (bound, count.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = inner.sum.load(Relaxed) as f64 / inner.scale;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, registry, text};

    #[test]
    fn large_observations_are_counted_from_a_bound_on() {
        let histogram = Histogram::of_seconds(&[0.05, 0.1, 0.25]);
        for millis in [10, 50, 51, 100, 101, 300] {
            histogram.observe(Duration::from_millis(millis));
        }
        let larger = |limit| {
            let found = histogram.larger_than(Duration::from_millis(limit));
            assert_eq!(found.all, 6);
            (found.larger, found.bound)
        };
        assert_eq!(larger(50), (4, Duration::from_millis(50)));
        assert_eq!(larger(51), (2, Duration::from_millis(100)), "the next bound");
        assert_eq!(larger(250), (1, Duration::from_millis(250)));
        assert_eq!(larger(251), (0, Duration::MAX), "there is no such bound");
    }

    #[test]
    fn a_percentile_is_that_of_the_observations_since_the_count_before() {
        let histogram = Histogram::of_seconds(&[0.05, 0.1, 0.25]);
        let observe = |count: u64, millis| (0..count).for_each(|_| histogram.observe(Duration::from_millis(millis)));
        observe(500, 300);
        let start = histogram.counts();
        assert_eq!(histogram.counts().p99_since(&start), None, "there is nothing new");
        observe(99, 10);
        observe(1, 200);
        let first = histogram.counts();
        assert_eq!(first.p99_since(&start), Some(Duration::from_millis(50)), "1 of 100 may be larger");
        observe(1, 200);
        assert_eq!(histogram.counts().p99_since(&start), Some(Duration::from_millis(250)), "2 of 101 are too many");
        assert_eq!(histogram.counts().p99_since(&first), Some(Duration::from_millis(250)), "of one, it is this one");
        let second = histogram.counts();
        observe(1, 9_000);
        assert_eq!(histogram.counts().p99_since(&second), Some(Duration::from_millis(250)), "the largest bound");
    }

    #[test]
    fn an_observation_counts_in_the_first_bucket_that_fits() {
        let histogram = Histogram::of_seconds(&[0.5, 1.0]);
        let mut registry = registry();
        registry.register("wait_seconds", "Waiting", histogram.clone());
        for millis in [100, 500, 501, 1_000, 7_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let served = text(&registry, Format::Plain).unwrap();
        for line in [
            "fairhold_wait_seconds_bucket{le=\"0.5\"} 2",
            "fairhold_wait_seconds_bucket{le=\"1.0\"} 4",
            "fairhold_wait_seconds_bucket{le=\"+Inf\"} 5",
            "fairhold_wait_seconds_count 5",
            "fairhold_wait_seconds_sum 9.101",
        ] {
            assert!(served.lines().any(|served| served == line), "{line} is not in\n{served}");
        }
    }

    #[test]
    fn the_sum_of_sizes_has_no_scale() {
        let histogram = Histogram::of_sizes(&[1.0, 8.0]);
        let mut registry = registry();
        registry.register("batch", "Batches", histogram.clone());
        [1, 8, 9].into_iter().for_each(|size| histogram.observe_size(size));
        let served = text(&registry, Format::Plain).unwrap();
        assert!(
            served.contains("fairhold_batch_sum 18.0\n") && served.contains("fairhold_batch_bucket{le=\"8.0\"} 2\n"),
            "{served}"
        );
    }
}

//! Ids of traces and spans, without a lock: a mixed counter, which never repeats within a process.

use fairhold_types::trace_context::{SpanId, TraceId};
use std::sync::atomic::{AtomicU64, Ordering};

/// Separates the ids of spans from the first half of the ids of traces.
const OF_SPANS: u64 = 0x5bd1_e995_9d1b_54a5;

/// Makes ids. Two random seeds keep the ids of two processes apart.
#[derive(Debug, Default)]
pub(crate) struct IdSource {
    seeds: [u64; 2],
    made: AtomicU64,
}

impl IdSource {
    pub(crate) fn new(seeds: [u64; 2]) -> IdSource {
        IdSource { seeds, made: AtomicU64::new(0) }
    }

    pub(crate) fn trace_id(&self) -> TraceId {
        let [first, second] = self.seeds;
        let number = self.next();
        let id = (u128::from(mix(first, number)) << 64) | u128::from(mix(second, number));
        // Zero is not a valid id.
        TraceId(id.max(1).to_be_bytes())
    }

    pub(crate) fn span_id(&self) -> SpanId {
        let [first, _] = self.seeds;
        SpanId(mix(first ^ OF_SPANS, self.next()).max(1).to_be_bytes())
    }

    /// A number from all of `u64`, for the decision whether to sample.
    pub(crate) fn random(&self) -> u64 {
        let [_, second] = self.seeds;
        mix(second ^ OF_SPANS, self.next())
    }

    fn next(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }
}

/// SplitMix64: different numbers give different results, which look random.
fn mix(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_id_comes_twice_and_another_process_has_others() {
        let (one, other) = (IdSource::new([1, 2]), IdSource::new([3, 4]));
        let spans: BTreeSet<SpanId> = (0..1_000).flat_map(|_| [one.span_id(), other.span_id()]).collect();
        let traces: BTreeSet<TraceId> = (0..1_000).flat_map(|_| [one.trace_id(), other.trace_id()]).collect();
        assert_eq!((spans.len(), traces.len()), (2_000, 2_000));
    }
}

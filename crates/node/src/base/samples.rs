//! The totals of the last ten minutes, one sample a second.

use crate::api::TotalsSample;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// How many samples are kept: ten minutes.
const SAMPLES_MAX: usize = 600;

/// The newest samples, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<VecDeque<TotalsSample>>);

impl Samples {
    pub(crate) fn add(&self, sample: TotalsSample) {
        let mut samples = self.0.lock();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    pub(crate) fn all(&self) -> Vec<TotalsSample> {
        self.0.lock().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::time::WallMillis;

    #[test]
    fn only_the_newest_samples_are_kept() {
        let samples = Samples::default();
        for at in 0..SAMPLES_MAX as u64 + 7 {
            let sample = TotalsSample { at: WallMillis(at), granted: at, handed_over: 0, lost: 0, held: 0, queued: 0, term: 1 };
            samples.add(sample);
        }
        let all = samples.all();
        assert_eq!((all.len(), all[0].at, all[SAMPLES_MAX - 1].at), (SAMPLES_MAX, WallMillis(7), WallMillis(606)));
    }
}

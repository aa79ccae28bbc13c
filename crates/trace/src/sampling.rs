//! Which part of the requests is traced.

use std::fmt;

const MILLION: u32 = 1_000_000;

/// The part of the requests that are traced, in steps of a millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRate(u32);

impl SampleRate {
    /// Every hundredth request.
    pub const DEFAULT: SampleRate = SampleRate(MILLION / 100);

    /// A part of all requests, from 0 to 1. Anything else is `None`.
    #[must_use]
    pub fn new(part: f64) -> Option<SampleRate> {
        if !(0.0..=1.0).contains(&part) {
            return None;
        }
        let millionths = (part * f64::from(MILLION)).round();
        #[expect(clippy::cast_possible_truncation, reason = "it is from 0 to a million")]
        let millionths = millionths as u32;
        Some(SampleRate(millionths))
    }

    /// The same in millionths, for an atomic.
    pub(crate) fn millionths(self) -> u32 {
        self.0
    }

    pub(crate) fn of_millionths(millionths: u32) -> SampleRate {
        SampleRate(millionths.min(MILLION))
    }

    /// Whether a request with this random number is one of them.
    pub(crate) fn includes(self, random: u64) -> bool {
        (u128::from(random) * u128::from(MILLION)) >> 64 < u128::from(self.0)
    }
}

/// As in a configuration: `0.01`.
impl fmt::Display for SampleRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = f64::from(self.0) / f64::from(MILLION);
        write!(f, "{part:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_part_of_all_requests() {
        for (part, shown) in [(0.0, "0.0"), (0.01, "0.01"), (0.000_001, "1e-6"), (1.0, "1.0"), (0.123_456_7, "0.123457")] {
            let rate = SampleRate::new(part).unwrap();
            assert_eq!(rate.to_string(), shown);
            assert_eq!(SampleRate::new(shown.parse().unwrap()), Some(rate), "it can be read again");
        }
        assert_eq!(SampleRate::new(0.01), Some(SampleRate::DEFAULT));
        for wrong in [-0.01, 1.01, f64::NAN, f64::INFINITY] {
            assert_eq!(SampleRate::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn none_all_and_a_hundredth_of_the_requests() {
        let includes = |part, random| SampleRate::new(part).unwrap().includes(random);
        assert!(!includes(0.0, 0) && includes(1.0, u64::MAX));
        assert!(includes(0.01, u64::MAX / 101) && !includes(0.01, u64::MAX / 99));
    }
}

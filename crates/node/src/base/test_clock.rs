//! A clock for tests of code that only compares instants and adds to them.

use std::{ops::Add, time::Duration};

/// Seconds on an imaginary clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AtOffset(pub(crate) u64);

impl Add<Duration> for AtOffset {
    type Output = AtOffset;

    fn add(self, by: Duration) -> AtOffset {
        AtOffset(self.0 + by.as_secs())
    }
}

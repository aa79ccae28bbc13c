//! A clock for tests of what only compares and adds.

use std::{ops::Add, time::Duration};

/// Seconds on an imagined clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At(pub(crate) u64);

impl Add<Duration> for At {
    type Output = At;

    fn add(self, by: Duration) -> At {
        At(self.0 + by.as_secs())
    }
}

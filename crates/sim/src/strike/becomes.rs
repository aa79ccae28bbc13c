//! Waits until a condition holds.

use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How long an election is waited for, and after it the first cut of a log.
pub(super) const ELECTED_WITHIN: Duration = Duration::from_secs(3);
pub(super) const LOOK_OFTEN: Duration = Duration::from_micros(150);

/// Waits until something is so, for a while at most; whether it is.
pub(super) async fn becomes(limit: Duration, so: impl Fn() -> bool) -> bool {
    let mut looked = Duration::ZERO;
    while !so() && looked < limit {
        SimRuntime::sleep(LOOK_OFTEN).await;
        looked += LOOK_OFTEN;
    }
    so()
}

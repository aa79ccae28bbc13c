//! Waits until a condition holds.

use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How long to wait for an election, and then for the first truncation of a log.
pub(super) const ELECTED_WITHIN: Duration = Duration::from_secs(3);
pub(super) const POLL_EVERY: Duration = Duration::from_micros(150);

/// Waits until a condition holds, for at most `limit`. Returns whether it holds.
pub(super) async fn wait_until(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let mut looked = Duration::ZERO;
    while !holds() && looked < limit {
        SimRuntime::sleep(POLL_EVERY).await;
        looked += POLL_EVERY;
    }
    holds()
}

//! Time limits that hold on a busy machine: an exceeded limit is compared with the speed of the machine in the same
//! run.

use crate::{
    client::{Call, Client},
    leaderships::{now, stalls},
};
use std::time::{Duration, Instant};

/// How many simple calls are timed. The calls under test may take longer by this many times the slowest of them.
const CALLS: u32 = 10;

/// Asserts that something has just taken no longer than its limit. If it has, the limit grows by the time for
/// which the machine stalled, and by ten times the slowest of ten simple calls now: on an idle machine that is a few
/// milliseconds.
pub(crate) async fn assert_within(client: &Client, what: &str, took: Duration, limit: Duration) {
    if took <= limit {
        return;
    }
    let begun = now().saturating_sub(u64::try_from(took.as_millis()).expect("a short time"));
    let still: Duration = stalls().iter().filter(|(at, late)| at + late.as_secs() * 1_000 >= begun).map(|(_, late)| *late).sum();
    let mut slowest = Duration::ZERO;
    for _ in 0..CALLS {
        let asked = Instant::now();
        client.once(&Call::get("/v1/cluster")).await.expect_status(200);
        slowest = slowest.max(asked.elapsed());
    }
    assert!(
        took <= bound(limit, still, slowest),
        "{what} took {took:.1?}, but at most {limit:?} are allowed; the machine stalled for {still:.1?}, and the slowest of \
         {CALLS} calls took {slowest:.1?}"
    );
}

fn bound(limit: Duration, still: Duration, slowest: Duration) -> Duration {
    limit + still + slowest * CALLS
}

#[test]
fn a_bound_is_sharp_on_an_idle_machine_and_grows_with_what_was_measured() {
    let [second, step] = [1_000, 3].map(Duration::from_millis);
    assert_eq!(bound(second, Duration::ZERO, step), Duration::from_millis(1_030));
    assert_eq!(bound(second, second, step), Duration::from_millis(2_030));
    assert_eq!(bound(second, Duration::ZERO, second), Duration::from_secs(11));
}

//! Samples the totals of the node once a second, for `GET /v1/overview/series`.

use fairhold_http::HttpMetrics;
use fairhold_metrics::Histogram;
use fairhold_node::Node;
use openraft_rt_tokio::TokioRuntime;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often it samples: once for each row of the series of seconds.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Samples until it is dropped. It waits for nothing else, so it is late only if the process gets no processor time.
pub(super) async fn run(node: Node<TokioRuntime>, syncs: Histogram, http: HttpMetrics) {
    let mut ticks = interval(SAMPLE_EVERY);
    // No row is shorter than a second, and none makes up for a missed one.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        node.take_sample(&syncs, http.server_errors());
    }
}

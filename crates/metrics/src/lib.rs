//! The metrics of a node: counters, histograms, gauges that are read at a scrape, and the text of all of them.
//!
//! There are no globals: each node has one `Registry`, and its parts register their metrics there. Counting is one
//! relaxed atomic addition, without a lock and without a look-up of labels: a part with labels keeps one counter for
//! each value, and names the values when it registers (`ByLabel`).

mod histogram;
mod scrape;
mod text;

pub use histogram::{BucketCounts, Histogram, LargeObservations};
pub use prometheus_client::registry::Registry;
pub use scrape::{ByLabel, Scrape, collect};
pub use text::{Format, text};

/// A number that only grows. Clones are handles of one counter.
pub type Counter = prometheus_client::metrics::counter::Counter;

/// A number that goes up and down. Clones are handles of one gauge.
pub type Gauge = prometheus_client::metrics::gauge::Gauge;

/// The prefix of every series.
const PREFIX: &str = "fairhold";

/// Upper bounds in seconds for latencies: a tenth of a millisecond to ten seconds.
pub const LATENCY_SECONDS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Upper bounds in seconds for waiting and holding times: a millisecond to an hour.
pub const WAIT_SECONDS: &[f64] =
    &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0];

/// Upper bounds for the sizes of batches.
pub const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

/// An empty registry for one node.
#[must_use]
pub fn registry() -> Registry {
    Registry::with_prefix(PREFIX)
}

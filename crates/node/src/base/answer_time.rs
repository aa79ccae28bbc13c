//! How long a member may take to answer another one.

use fairhold_types::Timing;
use std::time::Duration;

/// How long it may take, besides the time on the network.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The round trips of a question without an open connection: the connection, TLS, the introductions, and the question.
const ROUND_TRIPS: u32 = 5;

/// How long a member may take, with the time on the network.
pub(crate) fn answer_timeout(timing: Timing) -> Duration {
    ANSWER_TIMEOUT + timing.round_trip_max() * ROUND_TRIPS
}

//! Warns while heartbeats take too long for the times of this cluster.

use crate::core::{Core, leadership_in, round_trips::RoundTripVerdict};
use openraft::AsyncRuntime;
use std::{sync::Arc, time::Duration};

/// How often the leader looks at it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks at the round trips while this node leads, until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, interval: Duration) {
    let mut verdict = RoundTripVerdict::default();
    while core.until(leadership_in).await.is_some() {
        tokio::select! {
            biased;
            () = core.stopped() => return,
            () = RT::sleep(LOOK_EVERY) => {}
        }
        let took = core.standing(|standing| core.round_trips.of_majority(core.id, standing.membership_config.voter_ids()));
        let Some(took) = took.filter(|took| verdict.judge(*took, interval)) else { continue };
        let (took_ms, interval_ms) = (took.as_millis(), interval.as_millis());
        if verdict.too_long {
            tracing::warn!(
                took_ms,
                "a majority takes {took_ms} ms to answer a heartbeat, and the interval is {interval_ms} ms: near that, no leader \
                 lasts and the cluster serves nothing. Move the nodes closer together, or to faster machines"
            );
        } else {
            tracing::info!(took_ms, "a majority answers heartbeats within {took_ms} ms again");
        }
    }
}

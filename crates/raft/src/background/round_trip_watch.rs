//! Keeps the round trips of the last minute, and warns while heartbeats take too long for the heartbeat interval.

use crate::core::{
    Core, leadership_in,
    round_trips::{RoundTripAlarm, WINDOW},
};
use openraft::AsyncRuntime;
use std::{sync::Arc, time::Duration};

/// Checks the round trips while this node leads, until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, interval: Duration) {
    let mut alarm = RoundTripAlarm::default();
    while core.until(leadership_in).await.is_some() {
        tokio::select! {
            biased;
            () = core.stopped() => return,
            () = RT::sleep(WINDOW) => {}
        }
        if core.leadership().is_none() {
            core.links.round_trips.clear();
            continue;
        }
        core.links.round_trips.next_window();
        core.with_server_metrics(|metrics| {
            core.links.round_trips.retain(|id| metrics.membership_config.get_node(&id).is_some());
            Some(())
        });
        let took = core
            .with_server_metrics(|metrics| core.links.round_trips.of_majority(core.id, metrics.membership_config.voter_ids()));
        let Some(took) = took.filter(|took| alarm.update(*took, interval)) else { continue };
        let took_ms = took.as_millis();
        let interval_ms = interval.as_millis();
        if alarm.too_long {
            tracing::warn!(
                took_ms,
                "a majority takes {took_ms} ms to answer a heartbeat, close to the interval of {interval_ms} ms: above the \
                 interval, no leader lasts and the cluster serves nothing. Move the nodes closer together, or to faster \
                 machines"
            );
        } else {
            tracing::info!(took_ms, "a majority answers heartbeats within {took_ms} ms again");
        }
    }
}

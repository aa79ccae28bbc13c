//! Keeps up which members' addresses the cluster itself has set, the members' newest addresses, and which members are
//! learners.

use crate::core::Core;
use openraft::AsyncRuntime;
use std::{sync::Arc, time::Duration};

/// Interval at which the state is looked at. A change of the members is noticed at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut known = None;
    loop {
        look(&core);
        let changed = core.until(|metrics| {
            let log_id = *metrics.membership_config.log_id();
            (log_id != known).then_some(log_id)
        });
        match RT::timeout(LOOK_EVERY, changed).await {
            Ok(Some(log_id)) => known = log_id,
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

/// Takes the addresses over from the state and the membership.
pub(crate) fn look<RT: AsyncRuntime>(core: &Core<RT>) {
    let set = {
        let state = core.shared.read();
        core.addresses.configured().filter(|id| state.membership().has_set_address(*id)).collect()
    };
    core.addresses.set_by_cluster(set);
    core.with_metrics(|metrics| {
        core.addresses.set_newest(metrics.membership_config.nodes());
        core.links.catch_ups.set_learners(metrics.membership_config.membership().learner_ids());
    });
}

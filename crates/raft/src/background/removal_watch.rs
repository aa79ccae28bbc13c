//! Ends this node once other nodes have told it that it may never take part again, and asks them if it hears nothing.
//!
//! A voter that was removed is told at its next election. But a learner starts no election, and neither does a node
//! that knows of its removal or that was removed before it received the first log entry. Such a node asks, so that its
//! operator learns why it serves nothing.

use crate::{
    base::{peer::Target, wire::PeerRequest},
    core::{Core, status::SILENT_LEASES},
};
use fairhold_types::NodeId;
use futures_util::future::join_all;
use openraft::{AsyncRuntime, Instant};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Interval at which a node that hears nothing asks the others.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Watches until Raft stops. `greeted` are the nodes to ask while this node knows no members; if this node was not part
/// of a cluster before, there are none.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, greeted: Vec<Target>) {
    tokio::select! {
        biased;
        () = core.stopped() => {}
        () = core.notice.noticed() => core.stop().await,
        () = ask(&core, &greeted) => {}
    }
}

/// Asks the others whenever this node hears nothing. What the answers say about this node is recorded with each call.
async fn ask<RT: AsyncRuntime>(core: &Core<RT>, greeted: &[Target]) {
    let started_at = RT::Instant::now();
    let limit = ASK_EVERY.max(core.lease);
    loop {
        RT::sleep(ASK_EVERY).await;
        let targets = nodes_to_ask(core, started_at, greeted);
        // It changes nothing, and every program knows it.
        let request = PeerRequest::ReadIndex;
        let answers = join_all(targets.iter().map(|target| core.call(target, &request)));
        drop(RT::timeout(limit, answers).await);
    }
}

fn nodes_to_ask<RT: AsyncRuntime>(core: &Core<RT>, started_at: RT::Instant, greeted: &[Target]) -> Vec<Target> {
    let members: BTreeMap<NodeId, Target> = core.with_metrics(|metrics| {
        let members = metrics.membership_config.nodes().filter(|(id, _)| **id != core.id);
        members.map(|(id, member)| (*id, core.addresses.target(*id, member))).collect()
    });
    let is_member = core.with_metrics(|metrics| metrics.membership_config.get_node(&core.id).is_some());
    let refusing = core.notice.refused_as_duplicate_by();
    if members.is_empty() && !is_member {
        return greeted.to_vec();
    }
    let leads = core.leadership().is_some();
    let heard_until = core.contact.quiet_since(core.lease).map_or(started_at, |quiet| quiet.max(started_at));
    if !is_member || (!leads && RT::Instant::now() > heard_until + core.lease * SILENT_LEASES) {
        return members.into_values().collect();
    }
    members.into_iter().filter(|(id, _)| refusing.contains(id)).map(|(_, target)| target).collect()
}

//! The metrics of a replica.

use crate::core::{
    Core,
    status::{ReplicaStatus, Role},
};
use fairhold_metrics::{Registry, Scrape, collect};
use openraft::{AsyncRuntime, ServerState};
use std::{fmt, sync::Arc};

/// Counts the elections in which this node is a candidate, as far as they are visible: openraft publishes its newest
/// state, not every state.
pub(crate) async fn count_elections<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut last = None;
    while let Some(now) = core
        .until(|metrics| {
            // The vote is published once it is on disk; until then it is the previous one.
            let is_candidate = metrics.state == ServerState::Candidate && metrics.vote.leader_id.node_id == metrics.id;
            let now = is_candidate.then_some(metrics.vote.leader_id.term);
            (now != last).then_some(now)
        })
        .await
    {
        if now.is_some() {
            core.shared.metrics.elections.inc();
        }
        last = now;
    }
}

/// Registers the replica's counters, and its status at each scrape.
pub(crate) fn register<RT: AsyncRuntime>(core: &Arc<Core<RT>>, registry: &mut Registry) {
    core.shared.metrics.register(registry);
    let help = "Commands that are skipped because the state machine panicked at them: a defect in fairhold";
    registry.register("raft_commands_left_out", help, core.shared.defects.skipped.clone());
    let core = Arc::clone(core);
    collect(registry, move |scrape| {
        let status = core.status();
        let committed = core.with_metrics(|metrics| metrics.local_committed.map(|id| id.index));
        write(scrape, &status, committed)
    });
}

fn write(scrape: &mut Scrape<'_>, status: &ReplicaStatus, committed: Option<u64>) -> fmt::Result {
    let count = |index: Option<u64>| index.map_or(0, |index| index + 1);
    let leads = status.role == Role::Leader;
    scrape.gauge("raft_term", "Raft's term", status.term)?;
    scrape.gauge("raft_is_leader", "1 if this node is the leader, as far as it knows", u64::from(leads))?;
    scrape.gauge("raft_leader_id", "Id of the leader, as far as this node knows; 0 for none", status.leader.unwrap_or(0))?;
    scrape.gauge("raft_last_log_index", "Index of the last log entry", status.last_log_index.unwrap_or(0))?;
    scrape.gauge("raft_committed_index", "Index of the last log entry known to be committed", committed.unwrap_or(0))?;
    scrape.gauge("raft_applied_index", "Index of the last log entry in the state", status.applied.unwrap_or(0))?;
    scrape.gauge("raft_snapshot_index", "Index of the last log entry in the newest snapshot", status.snapshot.unwrap_or(0))?;
    let kept = count(status.last_log_index).saturating_sub(count(status.purged));
    scrape.gauge("raft_log_entries", "Log entries kept", kept)?;
    scrape.gauge("state_revision", "Revision of the state: how many changes it has seen", status.revision.0)?;
    let others = status.members.iter().filter(|member| leads && member.id != status.id);
    let lags = others.clone().filter_map(|member| Some((member.id.to_string(), member.lag?)));
    let help = "Log entries that a peer is behind, on the leader only";
    scrape.gauges("raft_peer_lag_entries", help, "peer", lags)?;
    let round_trips = others.flat_map(|member| {
        // The label `quantile` is for summaries only.
        let percentiles = [("50", member.round_trip_p50), ("99", member.round_trip_p99)];
        percentiles.into_iter().filter_map(|(percentile, took)| {
            let labels = [("peer", member.id.to_string()), ("percentile", percentile.to_owned())];
            Some((labels, took?.as_secs_f64()))
        })
    });
    let help = "Round trips of the heartbeats of the last minute, on the leader only";
    scrape.gauges_of("peer_rtt_seconds", help, round_trips)
}

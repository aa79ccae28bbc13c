//! What a replica measures of its part in Raft.

use crate::{
    core::Core,
    error::{NotProposed, ProposeError, UnknownReason},
    proposals::Outcome,
    status::{ReplicaStatus, Role},
};
use fairhold_metrics::{ByLabel, Counter, Gauge, Histogram, LATENCY_SECONDS, Registry, SIZES, Scrape, WAIT_SECONDS, collect};
use openraft::{AsyncRuntime, ServerState};
use std::{fmt, sync::Arc};

/// What a replica counts. Clones are handles of the same.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaMetrics {
    pub(crate) elections: Counter,
    pub(crate) leader_changes: Counter,
    accepted: Counter,
    no_leader: Counter,
    overloaded: Counter,
    disk_low: Counter,
    shutting_down: Counter,
    deposed: Counter,
    unknown_deadline: Counter,
    unknown_connection: Counter,
    unknown_deposed: Counter,
    /// From the call to the machine's answer, on the node that was asked.
    pub(crate) proposal: Histogram,
    /// From the append to the machine's answer, on the leader.
    pub(crate) commit: Histogram,
    pub(crate) batch: Histogram,
    /// What the commands cost that were applied.
    pub(crate) steps: Counter,
    pub(crate) barriers: Counter,
    pub(crate) barrier_reads: Counter,
    pub(crate) snapshots_built: Counter,
    pub(crate) snapshots_installed: Counter,
    pub(crate) snapshot_build: Histogram,
    pub(crate) snapshot_bytes: Gauge,
}

impl Default for ReplicaMetrics {
    fn default() -> Self {
        ReplicaMetrics {
            elections: Counter::default(),
            leader_changes: Counter::default(),
            accepted: Counter::default(),
            no_leader: Counter::default(),
            overloaded: Counter::default(),
            disk_low: Counter::default(),
            shutting_down: Counter::default(),
            deposed: Counter::default(),
            unknown_deadline: Counter::default(),
            unknown_connection: Counter::default(),
            unknown_deposed: Counter::default(),
            proposal: Histogram::of_seconds(LATENCY_SECONDS),
            commit: Histogram::of_seconds(LATENCY_SECONDS),
            batch: Histogram::of_sizes(SIZES),
            steps: Counter::default(),
            barriers: Counter::default(),
            barrier_reads: Counter::default(),
            snapshots_built: Counter::default(),
            snapshots_installed: Counter::default(),
            snapshot_build: Histogram::of_seconds(WAIT_SECONDS),
            snapshot_bytes: Gauge::default(),
        }
    }
}

impl ReplicaMetrics {
    /// Notes what became of one command.
    pub(crate) fn note(&self, outcome: &Outcome) {
        match outcome {
            Ok(_) => &self.accepted,
            Err(ProposeError::NotProposed(reason)) => self.refused(*reason),
            Err(ProposeError::Unknown(UnknownReason::Deadline)) => &self.unknown_deadline,
            Err(ProposeError::Unknown(UnknownReason::ConnectionLost)) => &self.unknown_connection,
            Err(ProposeError::Unknown(UnknownReason::Deposed)) => &self.unknown_deposed,
        }
        .inc();
    }

    /// The counter of commands that were surely not proposed, for that reason.
    pub(crate) fn refused(&self, reason: NotProposed) -> &Counter {
        match reason {
            NotProposed::NoLeader => &self.no_leader,
            NotProposed::Overloaded => &self.overloaded,
            NotProposed::DiskLow => &self.disk_low,
            NotProposed::ShuttingDown => &self.shutting_down,
            NotProposed::Deposed => &self.deposed,
        }
    }

    /// Notes a snapshot of that many bytes.
    pub(crate) fn note_snapshot(&self, count: &Counter, bytes: u64) {
        count.inc();
        self.snapshot_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("raft_elections", "Elections in which this node was a candidate", self.elections.clone());
        registry.register("raft_leader_changes", "New leaders that this node learned of", self.leader_changes.clone());
        let help = "Commands that the state machine answered, counted at the node that received them and at the leader that they \
                    were forwarded to";
        registry.register("raft_proposals_accepted", help, self.accepted.clone());
        let refused = [
            ("no_leader", self.no_leader.clone()),
            ("overloaded", self.overloaded.clone()),
            ("disk_low", self.disk_low.clone()),
            ("shutting_down", self.shutting_down.clone()),
            ("deposed", self.deposed.clone()),
        ];
        let help = "Proposals that failed without any effect, by reason";
        registry.register("raft_proposals_refused", help, ByLabel::new("reason", refused));
        let unknown = [
            ("deadline", self.unknown_deadline.clone()),
            ("connection_lost", self.unknown_connection.clone()),
            ("deposed", self.unknown_deposed.clone()),
        ];
        let help = "Proposals with an unknown outcome, by reason";
        registry.register("raft_proposals_unknown", help, ByLabel::new("reason", unknown));
        let help = "Time from a command's arrival to the state machine's answer, including the way to the leader";
        registry.register("raft_proposal_seconds", help, self.proposal.clone());
        let help = "Time from appending a log entry to applying it, on the leader";
        registry.register("raft_commit_seconds", help, self.commit.clone());
        let help = "Commands in one batch, in a log entry or on the way to the leader";
        registry.register("raft_batch_commands", help, self.batch.clone());
        let help = "Work of the applied commands, in steps of about a microsecond";
        registry.register("raft_apply_steps", help, self.steps.clone());
        registry.register("raft_read_barriers", "Read barriers asked of the leader", self.barriers.clone());
        registry.register("raft_barrier_reads", "Reads served by these barriers", self.barrier_reads.clone());
        let snapshots = [("built", self.snapshots_built.clone()), ("installed", self.snapshots_installed.clone())];
        let help = "Snapshots built here or installed from the leader";
        registry.register("raft_snapshots", help, ByLabel::new("origin", snapshots));
        registry.register("raft_snapshot_build_seconds", "Time to build and save a snapshot", self.snapshot_build.clone());
        let help = "Size of the last snapshot that was built or installed since the start";
        registry.register("raft_snapshot_bytes", help, self.snapshot_bytes.clone());
    }
}

/// Counts the elections in which this node stands, as far as they are seen: openraft tells its newest state, not each.
pub(crate) async fn count_elections<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut last = None;
    while let Some(now) = core
        .until(|standing| {
            // The vote is told when it is on the disk: until then it is the one before.
            let stands = standing.state == ServerState::Candidate && standing.vote.leader_id.node_id == standing.id;
            let now = stands.then_some(standing.vote.leader_id.term);
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

/// Registers what the replica counts, and what it knows of itself at a scrape.
pub(crate) fn register<RT: AsyncRuntime>(core: &Arc<Core<RT>>, registry: &mut Registry) {
    core.shared.metrics.register(registry);
    let help = "Commands that are skipped because the state machine panicked at them: a defect in fairhold";
    registry.register("raft_commands_left_out", help, core.shared.defects.left_out.clone());
    let core = Arc::clone(core);
    collect(registry, move |scrape| {
        let status = core.status();
        let committed = core.look(|metrics| metrics.local_committed.map(|id| id.index));
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
    let lags = others.filter_map(|member| Some((member.id.to_string(), member.lag?)));
    let help = "Log entries that a peer is behind, on the leader only";
    scrape.gauges("raft_peer_lag_entries", help, "peer", lags)
}

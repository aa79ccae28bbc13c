//! Counters of a replica.

use crate::base::error::{NotProposed, ProposeError, UnknownReason};
use fairhold_metrics::{ByLabel, Counter, Gauge, Histogram, LATENCY_SECONDS, Registry, SIZES, WAIT_SECONDS};
use fairhold_state::command::Answer;

/// Counters of a replica. Clones share them.
#[derive(Debug, Clone, Default)]
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
    /// The cost of the applied commands.
    pub(crate) steps: Counter,
    pub(crate) barriers: Counter,
    pub(crate) barrier_reads: Counter,
    pub(crate) snapshots_built: Counter,
    pub(crate) snapshots_installed: Counter,
    pub(crate) snapshot_bytes: Gauge,
    pub(crate) histograms: ReplicaHistograms,
}

/// Histograms of a replica. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaHistograms {
    /// From the call to the state machine's answer, on the node that received the command.
    pub(crate) proposal: Histogram,
    /// From the append to the state machine's answer, on the leader.
    pub(crate) commit: Histogram,
    pub(crate) batch: Histogram,
    pub(crate) snapshot_build: Histogram,
}

impl Default for ReplicaHistograms {
    fn default() -> Self {
        ReplicaHistograms {
            proposal: Histogram::of_seconds(LATENCY_SECONDS),
            commit: Histogram::of_seconds(LATENCY_SECONDS),
            batch: Histogram::of_sizes(SIZES),
            snapshot_build: Histogram::of_seconds(WAIT_SECONDS),
        }
    }
}

impl ReplicaMetrics {
    /// Counts the outcome of one command.
    pub(crate) fn record(&self, outcome: &Result<Answer, ProposeError>) {
        match outcome {
            Ok(_) => &self.accepted,
            Err(ProposeError::NotProposed(reason)) => self.refused(*reason),
            Err(ProposeError::Unknown(UnknownReason::Deadline)) => &self.unknown_deadline,
            Err(ProposeError::Unknown(UnknownReason::ConnectionLost)) => &self.unknown_connection,
            Err(ProposeError::Unknown(UnknownReason::Deposed)) => &self.unknown_deposed,
        }
        .inc();
    }

    /// The counter of commands that were definitely not proposed, by reason.
    pub(crate) fn refused(&self, reason: NotProposed) -> &Counter {
        match reason {
            NotProposed::NoLeader => &self.no_leader,
            NotProposed::Overloaded => &self.overloaded,
            NotProposed::DiskLow => &self.disk_low,
            NotProposed::ShuttingDown => &self.shutting_down,
            NotProposed::Deposed => &self.deposed,
        }
    }

    /// Counts a snapshot of this size.
    pub(crate) fn record_snapshot(&self, count: &Counter, bytes: u64) {
        count.inc();
        self.snapshot_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
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
        registry.register("raft_proposal_seconds", help, self.histograms.proposal.clone());
        let help = "Time from appending a log entry to applying it, on the leader";
        registry.register("raft_commit_seconds", help, self.histograms.commit.clone());
        let help = "Commands in one batch, in a log entry or on the way to the leader";
        registry.register("raft_batch_commands", help, self.histograms.batch.clone());
        let help = "Work of the applied commands, in steps of about a microsecond";
        registry.register("raft_apply_steps", help, self.steps.clone());
        registry.register("raft_read_barriers", "Read barriers requested from the leader", self.barriers.clone());
        registry.register("raft_barrier_reads", "Reads served by these barriers", self.barrier_reads.clone());
        let snapshots = [("built", self.snapshots_built.clone()), ("installed", self.snapshots_installed.clone())];
        let help = "Snapshots built here or installed from the leader";
        registry.register("raft_snapshots", help, ByLabel::new("origin", snapshots));
        let help = "Time to build and save a snapshot";
        registry.register("raft_snapshot_build_seconds", help, self.histograms.snapshot_build.clone());
        let help = "Size of the last snapshot that was built or installed since the start";
        registry.register("raft_snapshot_bytes", help, self.snapshot_bytes.clone());
    }
}

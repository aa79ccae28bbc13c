//! The metrics of connections between nodes.

use crate::frame::{FRAME_OVERHEAD, LENGTH_BYTES};
use fairhold_metrics::{ByLabel, Counter, Gauge, Registry};
use fairhold_raft::peer::Refusal;
use fairhold_trust::fault::FaultReason;

/// The counters of a node's connections to others, shared by client and server. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct PeerMetrics {
    pub(crate) dialled: Flow,
    pub(crate) accepted: Flow,
    pub(crate) dials_failed: Counter,
    pub(crate) evicted: Counter,
    pub(crate) not_nodes: Counter,
    refused: Refused,
    joins: Joins,
    tls: TlsFailures,
}

/// The traffic of the connections that one side opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    open: Gauge,
    open_with_tls: Gauge,
    opened: Counter,
    frames_in: Counter,
    frames_out: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
}

/// Handshakes that either side refused, by reason.
#[derive(Debug, Clone, Default)]
struct Refused {
    version: Counter,
    cluster: Counter,
    incarnation: Counter,
    identity: Counter,
    starting: Counter,
    not_a_member: Counter,
    lost_entries: Counter,
    key: Counter,
    removed: Counter,
    duplicate: Counter,
}

/// Failed TLS handshakes, in the order of `FaultReason::ALL`.
#[derive(Debug, Clone, Default)]
struct TlsFailures([Counter; FaultReason::ALL.len()]);

/// Joins that this node received, by result.
#[derive(Debug, Clone, Default)]
struct Joins {
    admitted: Counter,
    refused: Counter,
    busy: Counter,
}

/// Counts an open connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Open(Gauge, Option<Gauge>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
        if let Some(with_tls) = &self.1 {
            with_tls.dec();
        }
    }
}

impl Flow {
    /// Counts a connection until the result is dropped.
    pub(crate) fn open(&self, has_tls: bool) -> Open {
        self.opened.inc();
        self.open.inc();
        if has_tls {
            self.open_with_tls.inc();
        }
        Open(self.open.clone(), has_tls.then(|| self.open_with_tls.clone()))
    }

    /// Counts a received frame by the length of its payload.
    pub(crate) fn received(&self, payload: usize) {
        self.frames_in.inc();
        self.bytes_in.inc_by(frame_bytes(payload));
    }

    /// Counts a sent frame.
    pub(crate) fn sent(&self, payload: usize) {
        self.frames_out.inc();
        self.bytes_out.inc_by(frame_bytes(payload));
    }
}

fn frame_bytes(payload: usize) -> u64 {
    (LENGTH_BYTES + FRAME_OVERHEAD + payload) as u64
}

impl PeerMetrics {
    /// Counts a refused handshake.
    pub(crate) fn refuse(&self, refusal: &Refusal) {
        let refused = &self.refused;
        match refusal {
            Refusal::Version { .. } => &refused.version,
            Refusal::Cluster { .. } => &refused.cluster,
            Refusal::Incarnation { .. } => &refused.incarnation,
            Refusal::Identity { .. } => &refused.identity,
            Refusal::Starting => &refused.starting,
            Refusal::NotAMember { .. } => &refused.not_a_member,
            Refusal::LostEntries(_) => &refused.lost_entries,
            Refusal::Key(_) => &refused.key,
            Refusal::Removed { .. } => &refused.removed,
            Refusal::Duplicate { .. } => &refused.duplicate,
        }
        .inc();
    }

    /// Counts a failed TLS handshake.
    pub(crate) fn tls_failed(&self, reason: FaultReason) {
        if let Some((_, counter)) = FaultReason::ALL.iter().zip(&self.tls.0).find(|(known, _)| **known == reason) {
            counter.inc();
        }
    }

    /// Counts a join that the cluster has decided.
    pub(crate) fn decide_join(&self, is_admitted: bool) {
        let decided = if is_admitted { &self.joins.admitted } else { &self.joins.refused };
        decided.inc();
    }

    /// Counts a join that was not passed on, because too many others were in progress.
    pub(crate) fn turn_join_away(&self) {
        self.joins.busy.inc();
    }

    /// Registers all metrics.
    pub fn register(&self, registry: &mut Registry) {
        let dialled = &self.dialled;
        let accepted = &self.accepted;
        let sides = |dialled: &Counter, accepted: &Counter| {
            ByLabel::new("side", [("dialled", dialled.clone()), ("accepted", accepted.clone())])
        };
        let open = [("dialled", dialled.open.clone()), ("accepted", accepted.open.clone())];
        let help = "Open connections to other nodes, by who dialled";
        registry.register("peer_connections_open", help, ByLabel::new("side", open));
        let with_tls = [("dialled", dialled.open_with_tls.clone()), ("accepted", accepted.open_with_tls.clone())];
        let help = "Open connections to other nodes that have TLS";
        registry.register("peer_tls_connections_open", help, ByLabel::new("side", with_tls));
        let failed = FaultReason::ALL.iter().zip(&self.tls.0).map(|(reason, counter)| (reason.as_str(), counter.clone()));
        let help = "Failed TLS handshakes with other nodes, by reason";
        registry.register("peer_tls_handshakes_failed", help, ByLabel::new("reason", failed));
        let help = "Connections to other nodes that were opened; growth without a restart of a node means reconnects";
        registry.register("peer_connections_opened", help, sides(&dialled.opened, &accepted.opened));
        registry.register("peer_dials_failed", "Failed attempts to reach another node", self.dials_failed.clone());
        let help = "Connections to the peer port that were closed for newer ones";
        registry.register("peer_connections_turned_away", help, self.evicted.clone());
        let help = "Connections to the peer port that were not from a node, or that broke during the handshake";
        registry.register("peer_strangers", help, self.not_nodes.clone());
        let help = "Frames from other nodes";
        registry.register("peer_frames_received", help, sides(&dialled.frames_in, &accepted.frames_in));
        let help = "Frames to other nodes";
        registry.register("peer_frames_sent", help, sides(&dialled.frames_out, &accepted.frames_out));
        let help = "Bytes of frames from other nodes";
        registry.register("peer_received_bytes", help, sides(&dialled.bytes_in, &accepted.bytes_in));
        let help = "Bytes of frames to other nodes";
        registry.register("peer_sent_bytes", help, sides(&dialled.bytes_out, &accepted.bytes_out));
        let refused = &self.refused;
        let reasons = [
            ("version", refused.version.clone()),
            ("cluster", refused.cluster.clone()),
            ("incarnation", refused.incarnation.clone()),
            ("identity", refused.identity.clone()),
            ("starting", refused.starting.clone()),
            ("not_a_member", refused.not_a_member.clone()),
            ("lost_entries", refused.lost_entries.clone()),
            ("key", refused.key.clone()),
            ("removed", refused.removed.clone()),
            ("duplicate", refused.duplicate.clone()),
        ];
        let help = "Refused handshakes between nodes, by reason";
        registry.register("peer_handshakes_refused", help, ByLabel::new("reason", reasons));
        let joins = &self.joins;
        let results = [("admitted", joins.admitted.clone()), ("refused", joins.refused.clone()), ("busy", joins.busy.clone())];
        let help = "Joins that this node received, by result";
        registry.register("peer_joins", help, ByLabel::new("result", results));
    }
}

//! What all connections of a listener share.

use super::handshake_log::HandshakeLog;
use crate::{
    edge::api_service::ApiService, edge::cluster_header::ClusterHeader, edge::metrics::HttpMetrics, edge::origin::Hosts,
    edge::quota::Quota, server::connection_slots::ClientSlots, server::handshake_slots::HandshakeSlots,
};
use fairhold_types::limits::HANDSHAKE_MAX;
use std::{sync::Arc, time::Duration};

/// How long a server waits for its clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// How long a request's head may take to arrive, from its first byte.
    pub(super) head: Duration,
    /// How long after connecting the first byte of the first request may take to arrive.
    pub(super) first: Duration,
    /// How long a connection may be idle between two requests. Clients commonly keep theirs for 90 s. The server waits
    /// longer, because a client cannot know the outcome of a request that meets a closing connection.
    pub(super) idle: Duration,
    /// The idle timeout while more than three quarters of all slots are taken.
    pub(super) idle_when_crowded: Duration,
    /// How long a client may read nothing, or almost nothing, of an answer.
    pub(super) answer: Duration,
    /// How long a TLS handshake may take.
    pub(super) handshake: Duration,
    /// How long it may wait for its turn before that.
    pub(super) handshake_wait: Duration,
    /// How long running requests may continue when the server stops.
    pub(super) drain: Duration,
}

pub(super) const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(5),
    first: Duration::from_secs(15),
    idle: Duration::from_secs(120),
    idle_when_crowded: Duration::from_secs(10),
    answer: Duration::from_secs(30),
    handshake: HANDSHAKE_MAX,
    handshake_wait: Duration::from_secs(10),
    drain: Duration::from_secs(10),
};

/// What all connections of a listener share.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) api: ApiService,
    pub(super) timeouts: Timeouts,
    pub(super) metrics: HttpMetrics,
    pub(super) cluster: ClusterHeader,
    /// The names by which clients reach this server.
    pub(super) hosts: Hosts,
    /// The slots for connections.
    pub(super) slots: Arc<ClientSlots>,
    /// The slots for TLS handshakes.
    pub(super) handshakes: Arc<HandshakeSlots>,
    pub(super) handshake_log: Arc<HandshakeLog>,
    /// Memory for request bodies that are being handled.
    pub(super) bodies: Arc<Quota>,
    /// Memory for answers that their sockets have not taken yet.
    pub(super) answers: Arc<Quota>,
}

//! What all connections of a listener share.

use crate::{
    edge::cluster_header::ClusterHeader, edge::metrics::HttpMetrics, edge::origin::Hosts, edge::quota::Shares,
    server::connection_slots::Places,
};
use axum::Router;
use std::{sync::Arc, time::Duration};

/// How long a server waits for its clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// How long a request's head may take to arrive, from its first byte.
    pub(super) head: Duration,
    /// How long after connecting the first byte of the first request may come.
    pub(super) first: Duration,
    /// How long a connection may be idle between two requests: longer than clients keep theirs (90 s is common), since a
    /// request that meets a closing connection is one whose fate its sender does not know.
    pub(super) idle: Duration,
    /// The same while more than three quarters of all places are taken.
    pub(super) idle_in_a_crowd: Duration,
    /// How long the client of an answer may take nothing, or next to nothing, of it.
    pub(super) answer: Duration,
    /// How long requests that run may go on when the server stops.
    pub(super) drain: Duration,
}

pub(super) const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(5),
    first: Duration::from_secs(15),
    idle: Duration::from_secs(120),
    idle_in_a_crowd: Duration::from_secs(10),
    answer: Duration::from_secs(30),
    drain: Duration::from_secs(10),
};

/// What all connections have in common.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) router: Router,
    pub(super) timeouts: Timeouts,
    pub(super) metrics: HttpMetrics,
    pub(super) cluster: ClusterHeader,
    /// The names by which clients reach this server.
    pub(super) hosts: Hosts,
    /// Connections.
    pub(super) places: Arc<Places>,
    /// Bytes of bodies that are in work.
    pub(super) bodies: Arc<Shares>,
    /// Bytes of answers that are not yet taken.
    pub(super) answers: Arc<Shares>,
}

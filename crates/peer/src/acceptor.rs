//! The state that all accepted connections of a server share: their limits, counters and log lines.

use crate::{
    handshake::HandshakeSettings,
    join_slots::JoinSlots,
    log_limit::{LogLimit, LogLimitBy},
    metrics::PeerMetrics,
    pending::{PendingConnections, PendingSlot},
    slots::ConnectionSlots,
};
use fairhold_raft::peer::Service;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// The state that all accepted connections share.
pub(crate) struct Acceptor {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) settings: HandshakeSettings,
    pub(crate) slots: ConnectionSlots,
    pub(crate) join_slots: JoinSlots,
    pub(crate) join_timeout: Duration,
    pub(crate) not_node_log: LogLimit,
    pub(crate) unauthenticated_log: LogLimitBy<IpAddr>,
    pub(crate) tls_log: LogLimitBy<IpAddr>,
    pub(crate) refusal_log: LogLimit,
    pub(crate) join_log: LogLimit,
    pub(crate) eviction_log: LogLimit,
    pub(crate) accept_error_log: LogLimit,
    pub(crate) broken_connection_log: LogLimit,
    pub(crate) metrics: PeerMetrics,
    pending: PendingConnections,
}

impl Acceptor {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        settings: HandshakeSettings,
        join_timeout: Duration,
        metrics: PeerMetrics,
    ) -> Self {
        Acceptor {
            service,
            settings,
            slots: ConnectionSlots::default(),
            join_slots: JoinSlots::default(),
            join_timeout,
            not_node_log: LogLimit::default(),
            unauthenticated_log: LogLimitBy::default(),
            tls_log: LogLimitBy::default(),
            refusal_log: LogLimit::default(),
            join_log: LogLimit::default(),
            eviction_log: LogLimit::default(),
            accept_error_log: LogLimit::default(),
            broken_connection_log: LogLimit::default(),
            metrics,
            pending: PendingConnections::default(),
        }
    }

    /// A slot for a connection that is not from an admitted node. At the limit, it evicts the oldest one.
    pub(crate) fn enter_pending(&self, from: SocketAddr) -> PendingSlot {
        let (slot, evicted) = self.pending.enter(from.ip());
        if evicted {
            self.metrics.evicted.inc();
            self.eviction_log.log(|suppressed| {
                let message = "too many unauthenticated connections to the peer port: closed the oldest";
                tracing::warn!(%from, suppressed, "{message}");
            });
        }
        slot
    }
}

//! The accepting side of a join: it passes the request on to the cluster, and answers with the decision.
//!
//! The node that wants to join has proved that it has the cluster's peer key. In a cluster without one, that is anyone.
//! So its request is checked here, and few requests are passed on at a time. A node that then reads its answer slowly
//! delays no other one: its connection counts as unauthenticated again.

use crate::{
    acceptor::Acceptor, exchange::Exchange, frame::FrameKind, handshake::Joining, handshake_error::HandshakeError,
    join_texts::checked_request,
};
use fairhold_raft::peer::{JoinRefusal, JoinRequest, Joined, Service};
use std::{net::SocketAddr, time::Duration};
use tokio::time::timeout;

/// How long the cluster's decision may take. The leader needs at most 5 seconds.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(6);

/// Serves a node that wants to join, from its request to the end of the connection.
pub(crate) async fn serve(joining: Joining, address: SocketAddr, acceptor: &Acceptor) {
    let Joining { exchange, request } = joining;
    let Some(slot) = acceptor.join_slots.take(address.ip()) else {
        acceptor.metrics.turn_join_away();
        acceptor.join_log.log(|suppressed| {
            tracing::warn!(%address, suppressed, "closed the connection of a node that wants to join: too many others do");
        });
        return;
    };
    let decision = decide(request, &*acceptor.service, acceptor.join_timeout).await;
    drop(slot);
    acceptor.metrics.decide_join(decision.is_ok());
    match &decision {
        Ok(Joined { id, .. }) => tracing::info!(%address, "a node at {address} joins the cluster as node {id}"),
        Err(refusal) => acceptor.join_log.log(|suppressed| {
            tracing::warn!(%address, suppressed, "refused a node that wants to join: {refusal}");
        }),
    }
    let pending = acceptor.enter_pending(address);
    tokio::select! {
        biased;
        answered = timeout(acceptor.settings.time_limit, answer(exchange, &decision)) => {
            let answered = answered.unwrap_or(Err(HandshakeError::TimedOut(acceptor.settings.time_limit)));
            if let Err(error) = answered {
                tracing::debug!(%address, "a node that wants to join may not have got its answer: {error}");
            }
        }
        () = pending.ended() => {}
    }
}

/// The cluster's decision. The node may repeat its request, whatever became of this one.
async fn decide(request: JoinRequest, service: &dyn Service, time_limit: Duration) -> Result<Joined, JoinRefusal> {
    let request = checked_request(request).map_err(JoinRefusal::BadRequest)?;
    timeout(time_limit, service.join(request)).await.unwrap_or(Err(JoinRefusal::NoLeader))
}

async fn answer(mut exchange: Exchange, decision: &Result<Joined, JoinRefusal>) -> Result<(), HandshakeError> {
    exchange.send_with_proof(FrameKind::Joined, decision).await?;
    exchange.close_gracefully().await
}

//! Sends requests to one node on one lane, and translates failures for openraft.

use crate::{
    base::{
        aliases::LogId,
        member_addresses::MemberAddresses,
        peer::{Lane, PeerError},
        types::{Member, Types},
        wire::{self, Declined, PeerReply, PeerRequest, SnapshotBegin},
    },
    core::Links,
    machine::snapshot_writer::SnapshotData,
};
use bytes::Bytes;
use fairhold_types::{NodeId, failpoint};
use futures_util::{StreamExt, stream};
use openraft::{
    AsyncRuntime, Instant, RPCTypes, Snapshot,
    alias::{SnapshotOf, VoteOf},
    errors::{NetworkError, RPCError, Timeout, Unreachable},
    raft::{AppendEntriesRequest, SnapshotResponse},
};
use std::{future::Future, sync::Arc, time::Duration};

/// Maximum number of snapshot blocks in flight to one peer.
const SNAPSHOT_BLOCKS_IN_FLIGHT: usize = 4;

pub(super) type RpcError<RT> = RPCError<Types<RT>>;

/// Sends requests to one node on one lane.
pub(crate) struct RaftClient<RT: AsyncRuntime> {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// The other node, as it was when openraft created this client. Its address may change later.
    pub(super) member: Member,
    pub(super) addresses: MemberAddresses,
    pub(super) lane: Lane,
    pub(super) links: Arc<Links<RT>>,
}

impl<RT: AsyncRuntime> RaftClient<RT> {
    /// Sends the request during this call, so requests keep the order of the calls; the future only waits for the
    /// answer.
    pub(super) fn send(
        &self,
        lane: Lane,
        request: Bytes,
        action: RPCTypes,
        limit: Duration,
    ) -> impl Future<Output = Result<PeerReply<RT>, RpcError<RT>>> + Send + 'static {
        let to = self.to;
        let timer = self.links.round_trips.timer::<RT::Instant>(to, lane, &action);
        let answer = self.links.peer.call(&self.addresses.newest_target(to, &self.member), lane, request);
        let links = Arc::clone(&self.links);
        let timeout = Timeout { action, id: self.from, target: to, timeout: limit };
        async move {
            let bytes = match RT::timeout(limit, answer).await {
                Ok(Ok(bytes)) => {
                    drop(timer);
                    bytes
                }
                Ok(Err(error)) => {
                    if let Some(timer) = timer {
                        timer.fail();
                    }
                    if let PeerError::Refused(refusal) = &error {
                        links.record_refusal(to, refusal);
                    }
                    return Err(peer_error(error));
                }
                Err(_) => return Err(RPCError::Timeout(timeout)),
            };
            match wire::decode(&bytes) {
                Ok(PeerReply::Declined(declined)) => {
                    if let Declined::Refused(refusal) = &declined {
                        links.record_refusal(to, refusal);
                    }
                    Err(unreachable_error(declined))
                }
                Ok(reply) => {
                    links.notice.record_answer(to);
                    if lane == Lane::Heartbeat {
                        links.losses.forget(to);
                    }
                    Ok(reply)
                }
                Err(error) => Err(unreachable_error(error)),
            }
        }
    }

    pub(super) async fn call(
        &self,
        lane: Lane,
        request: PeerRequest<RT>,
        action: RPCTypes,
        limit: Duration,
    ) -> Result<PeerReply<RT>, RpcError<RT>> {
        let request = wire::encode(&request).map_err(unreachable_error)?;
        self.send(lane, request, action, limit).await
    }

    pub(super) async fn send_snapshot(
        &self,
        vote: VoteOf<Types<RT>>,
        snapshot: SnapshotOf<Types<RT>, SnapshotData>,
        limit: Duration,
    ) -> Result<SnapshotResponse<Types<RT>>, RpcError<RT>> {
        failpoint!(RaftSnapshotSend, RT).map_err(unreachable_error)?;
        let _sending = self.links.outgoing_snapshots.begin();
        let Snapshot { meta, snapshot: SnapshotData::Stored(stored) } = snapshot else { return Err(unexpected()) };
        let blocks = stored.blocks();
        let begin = SnapshotBegin { vote, last_log_id: meta.last_log_id, members: meta.last_membership, blocks };
        let begin = PeerRequest::SnapshotBegin(begin);
        expect_accepted(self.call(Lane::Snapshot, begin, RPCTypes::InstallSnapshot, limit).await?)?;
        // Reads one block after the other. `buffered` calls `send` in the order of the blocks, so they arrive in that
        // order.
        let began = self.links.catch_ups.begin(self.to);
        let read = stream::unfold((0, RT::Instant::now()), move |(index, due)| {
            let stored = stored.clone();
            async move {
                if index == blocks {
                    return None;
                }
                RT::sleep_until(due).await;
                let block = stored.fetch(index).await;
                let bytes = block.as_ref().map_or(0, Bytes::len);
                let pause = self.links.catch_ups.pause_in_snapshot(self.to, bytes, began);
                Some(((index, block), (index + 1, due.max(RT::Instant::now()) + pause)))
            }
        });
        let sent = read.boxed().map(|(index, block)| {
            let request = block.map_err(unreachable_error).and_then(|block| {
                wire::encode(&PeerRequest::<RT>::SnapshotBlock { index, block: block.into() }).map_err(unreachable_error)
            });
            let answer = request.map(|request| self.send(Lane::Snapshot, request, RPCTypes::InstallSnapshot, limit));
            async move { expect_accepted(answer?.await?) }
        });
        let mut sent = std::pin::pin!(sent.buffered(SNAPSHOT_BLOCKS_IN_FLIGHT));
        while let Some(result) = sent.next().await {
            result?;
        }
        let reply = self.call(Lane::Snapshot, PeerRequest::SnapshotEnd, RPCTypes::InstallSnapshot, limit).await?;
        if let PeerReply::SnapshotInstalled(response) = reply { Ok(response) } else { Err(unexpected()) }
    }
}

/// The last log entry of an append request, or the entry before it if the request has none.
pub(super) fn last_of<RT: AsyncRuntime>(rpc: &AppendEntriesRequest<Types<RT>>) -> Option<LogId> {
    rpc.entries.last().map(|entry| entry.log_id).or(rpc.prev_log_id)
}

fn peer_error<RT: AsyncRuntime>(error: PeerError) -> RpcError<RT> {
    match error {
        PeerError::Unreachable(_) | PeerError::Refused(_) => unreachable_error(error),
        // The peer was connected a moment ago: one more attempt shows whether it still is.
        PeerError::Lost(_) => RPCError::Network(NetworkError::new(&error)),
    }
}

pub(super) fn unreachable_error<RT: AsyncRuntime>(error: impl std::error::Error + 'static) -> RpcError<RT> {
    RPCError::Unreachable(Unreachable::new(&error))
}

pub(super) fn unexpected<RT: AsyncRuntime>() -> RpcError<RT> {
    RPCError::Unreachable(Unreachable::from_string("the answer does not match the request"))
}

fn expect_accepted<RT: AsyncRuntime>(reply: PeerReply<RT>) -> Result<(), RpcError<RT>> {
    if let PeerReply::SnapshotAccepted = reply { Ok(()) } else { Err(unexpected()) }
}

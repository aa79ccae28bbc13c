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

/// The rate at which a learner gets a snapshot, and the log after it. A faster one would take the disk, the network and the
/// processor from the commands that are served meanwhile. A voter gets both as fast as it can: it may be needed for the
/// majority.
const CATCH_UP_BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;
/// The rate doubles after each such time, also over several snapshots. Otherwise a learner would never get a large state while there is much writing: the
/// log that it needs next would be purged before.
const CATCH_UP_DOUBLES_AFTER: Duration = Duration::from_secs(10);

/// How long to wait after these bytes of a catch-up that has lasted this long.
pub(super) fn catch_up_pause(bytes: usize, lasted: Duration) -> Duration {
    let doublings = lasted.as_secs() / CATCH_UP_DOUBLES_AFTER.as_secs();
    let pause = Duration::from_nanos(bytes as u64 * 1_000_000_000 / CATCH_UP_BYTES_PER_SECOND);
    pause / 2_u32.saturating_pow(u32::try_from(doublings).unwrap_or(u32::MAX))
}

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
        let began = *self.links.catch_ups.lock().entry(self.to).or_insert_with(RT::Instant::now);
        let read = stream::unfold((0, RT::Instant::now()), move |(index, due)| {
            let stored = stored.clone();
            let is_learner = self.links.learners.lock().contains(&self.to);
            async move {
                if index == blocks {
                    return None;
                }
                RT::sleep_until(due).await;
                let block = stored.fetch(index).await;
                let bytes = if is_learner { block.as_ref().map_or(0, Bytes::len) } else { 0 };
                let pause = catch_up_pause(bytes, began.elapsed());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catch_up_begins_slowly_and_hurries_if_it_takes_long() {
        let rate = usize::try_from(CATCH_UP_BYTES_PER_SECOND).unwrap();
        let pause = |seconds| catch_up_pause(rate, Duration::from_secs(seconds));
        assert_eq!((pause(0), pause(9)), (Duration::from_secs(1), Duration::from_secs(1)));
        assert_eq!((pause(10), pause(25)), (Duration::from_millis(500), Duration::from_millis(250)));
        assert_eq!((pause(1_000), pause(u64::MAX)), (Duration::ZERO, Duration::ZERO));
    }
}

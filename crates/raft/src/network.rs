//! openraft's network over a `Peer`: one client for each target and purpose, each on its own lane.

mod pipeline;

use crate::{
    addresses::Addresses,
    aliases::LogId,
    elections::{Ballots, VOTE_LIMIT, grants},
    keeper::SnapshotData,
    lost_entries::Losses,
    peer::{Lane, Peer, PeerError, Target},
    round_trips::RoundTrips,
    sending::Sending,
    types::{Member, Types},
    wire::{self, Declined, Reply, Request, SnapshotBegin},
};
use bytes::Bytes;
use fairhold_types::{NodeId, failpoint};
use futures_util::{Stream, StreamExt, stream};
use openraft::{
    AsyncRuntime, Instant, OptionalSend, RPCTypes,
    alias::{SnapshotOf, VoteOf},
    base::{BoxFuture, BoxStream},
    errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable},
    network::{RPCOption, RaftNetworkFactory, RaftNetworkV2},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
        TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Blocks of a snapshot under way to one peer at a time.
const SNAPSHOT_BLOCKS_IN_FLIGHT: usize = 4;

type RpcError<RT> = RPCError<Types<RT>>;

/// Makes the clients.
pub(crate) struct Network<RT: AsyncRuntime> {
    id: NodeId,
    peer: Arc<dyn Peer>,
    addresses: Addresses,
    ballots: Ballots<RT::Instant>,
    losses: Losses,
    round_trips: RoundTrips,
    sending: Sending,
}

impl<RT: AsyncRuntime> Network<RT> {
    pub(crate) fn new(
        id: NodeId,
        peer: Arc<dyn Peer>,
        addresses: Addresses,
        ballots: Ballots<RT::Instant>,
        losses: Losses,
        round_trips: RoundTrips,
    ) -> Self {
        Network { id, peer, addresses, ballots, losses, round_trips, sending: Sending::default() }
    }

    /// Which snapshots its clients are sending.
    pub(crate) fn sending(&self) -> Sending {
        self.sending.clone()
    }

    fn client(&self, id: NodeId, member: &Member, lane: Lane) -> Client<RT> {
        let (peer, ballots, losses) = (self.peer.clone(), self.ballots.clone(), self.losses.clone());
        let (round_trips, sending) = (self.round_trips.clone(), self.sending.clone());
        Client { from: self.id, to: self.addresses.target(id, member), lane, peer, ballots, losses, round_trips, sending }
    }
}

impl<RT: AsyncRuntime> RaftNetworkFactory<Types<RT>> for Network<RT> {
    type Network = Client<RT>;

    async fn new_client(&mut self, target: NodeId, node: &Member) -> Client<RT> {
        self.client(target, node, Lane::Append)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, node: &Member) -> Client<RT> {
        self.client(target, node, Lane::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: NodeId, node: &Member) -> Client<RT> {
        self.client(target, node, Lane::Snapshot)
    }
}

/// Speaks to one node on one lane.
pub(crate) struct Client<RT: AsyncRuntime> {
    from: NodeId,
    to: Target,
    lane: Lane,
    peer: Arc<dyn Peer>,
    ballots: Ballots<RT::Instant>,
    losses: Losses,
    round_trips: RoundTrips,
    sending: Sending,
}

impl<RT: AsyncRuntime> Client<RT> {
    /// Sends at once, in the order of the calls; the future only waits for the answer.
    fn send(
        &self,
        lane: Lane,
        request: Bytes,
        action: RPCTypes,
        limit: Duration,
    ) -> impl Future<Output = Result<Reply<RT>, RpcError<RT>>> + Send + 'static {
        let timer = self.round_trips.timer::<RT::Instant>(self.to.id, lane, &action);
        let answer = self.peer.call(&self.to, lane, request);
        let (to, losses) = (self.to.id, self.losses.clone());
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
                        losses.note(refusal);
                    }
                    return Err(peer_error(error));
                }
                Err(_) => return Err(RPCError::Timeout(timeout)),
            };
            match wire::decode(&bytes) {
                Ok(Reply::Declined(declined)) => {
                    if let Declined::Refused(refusal) = &declined {
                        losses.note(refusal);
                    }
                    Err(declined_error(declined))
                }
                Ok(reply) => {
                    if lane == Lane::Heartbeat {
                        losses.forget(to);
                    }
                    Ok(reply)
                }
                Err(error) => Err(unreadable(&error)),
            }
        }
    }

    async fn ask(&self, lane: Lane, request: Request<RT>, action: RPCTypes, limit: Duration) -> Result<Reply<RT>, RpcError<RT>> {
        let request = wire::encode(&request).map_err(|error| unreadable(&error))?;
        self.send(lane, request, action, limit).await
    }

    async fn send_snapshot(
        &self,
        vote: VoteOf<Types<RT>>,
        snapshot: SnapshotOf<Types<RT>, SnapshotData>,
        limit: Duration,
    ) -> Result<SnapshotResponse<Types<RT>>, RpcError<RT>> {
        failpoint!(RaftSnapshotSend, RT).map_err(|error| unreadable(&error))?;
        let _sent = self.sending.begin();
        let SnapshotData::Stored(stored) = snapshot.snapshot else {
            return Err(unexpected());
        };
        let count = stored.blocks();
        let begin = Request::SnapshotBegin(SnapshotBegin {
            vote,
            last_log_id: snapshot.meta.last_log_id,
            members: snapshot.meta.last_membership,
            blocks: count,
        });
        taken(self.ask(Lane::Snapshot, begin, RPCTypes::InstallSnapshot, limit).await?)?;
        // Read one after the other; and `buffered` makes the calls in the order of the blocks, so they arrive in it.
        let read = stream::iter(0..count).then(move |index| {
            let block = stored.clone().fetch(index);
            async move { (index, block.await) }
        });
        let sent = read.boxed().map(|(index, block)| {
            let request = block.map_err(|error| unreadable(&error)).and_then(|block| {
                wire::encode(&Request::<RT>::SnapshotBlock { index, block: block.into() }).map_err(|error| unreadable(&error))
            });
            let answer = request.map(|request| self.send(Lane::Snapshot, request, RPCTypes::InstallSnapshot, limit));
            async move { taken(answer?.await?) }
        });
        let mut sent = std::pin::pin!(sent.buffered(SNAPSHOT_BLOCKS_IN_FLIGHT));
        while let Some(result) = sent.next().await {
            result?;
        }
        let Reply::SnapshotInstalled(response) =
            self.ask(Lane::Snapshot, Request::SnapshotEnd, RPCTypes::InstallSnapshot, limit).await?
        else {
            return Err(unexpected());
        };
        Ok(response)
    }
}

impl<RT: AsyncRuntime> RaftNetworkV2<Types<RT>> for Client<RT> {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<RT>>, RpcError<RT>> {
        let Reply::Append(response) =
            self.ask(self.lane, Request::Append(rpc), RPCTypes::AppendEntries, option.hard_ttl()).await?
        else {
            return Err(unexpected());
        };
        Ok(response)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types<RT>>, RpcError<RT>>>, RpcError<RT>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<RT>>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move { Ok(pipeline::run(self, input)) })
    }

    async fn vote(&mut self, rpc: VoteRequest<Types<RT>>, option: RPCOption) -> Result<VoteResponse<Types<RT>>, RpcError<RT>> {
        failpoint!(RaftVoteAsk, RT).map_err(|error| unreadable(&error))?;
        let (vote, last_log_id, to) = (rpc.vote, rpc.last_log_id, self.to.id);
        let request = wire::encode(&Request::Vote(rpc)).map_err(|error| unreadable(&error))?;
        let answer = self.send(Lane::Heartbeat, request, RPCTypes::Vote, VOTE_LIMIT);
        let ballots = self.ballots.clone();
        let (answered, in_time) = oneshot::channel();
        let asked = RT::Instant::now();
        ballots.asked(vote, last_log_id, to, asked);
        // openraft may not wait for as long as the voter's disk needs.
        drop(RT::spawn(async move {
            let response = match answer.await {
                Ok(Reply::Vote(response)) => Ok(response),
                Ok(_) => Err(unexpected()),
                Err(error) => Err(error),
            };
            let granted = response.as_ref().is_ok_and(|response| grants(response, vote));
            let unheard = answered.send(response).is_err();
            ballots.answered(vote, to, granted, unheard || asked.elapsed() >= option.soft_ttl());
        }));
        in_time.await.unwrap_or_else(|_| Err(unexpected()))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<RT>>, RpcError<RT>> {
        let vote = rpc.vote;
        let Reply::Vote(response) = self.ask(Lane::Heartbeat, Request::PreVote(rpc), RPCTypes::Vote, option.hard_ttl()).await?
        else {
            return Err(unexpected());
        };
        if response.vote_granted {
            self.ballots.would_grant(vote, self.to.id);
        }
        Ok(response)
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types<RT>>,
        snapshot: SnapshotOf<Types<RT>, SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types<RT>>, StreamingError<Types<RT>>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            result = self.send_snapshot(vote, snapshot, option.soft_ttl()) => Ok(result?),
        }
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<RT>>, RpcError<RT>> {
        let Reply::TransferLeader(response) =
            self.ask(Lane::Heartbeat, Request::TransferLeader(rpc), RPCTypes::TransferLeader, option.soft_ttl()).await?
        else {
            return Err(unexpected());
        };
        Ok(response)
    }
}

/// The last log entry of an append request, or the one before it where it has none.
fn last_of<RT: AsyncRuntime>(rpc: &AppendEntriesRequest<Types<RT>>) -> Option<LogId> {
    rpc.entries.last().map(|entry| entry.log_id).or(rpc.prev_log_id)
}

fn peer_error<RT: AsyncRuntime>(error: PeerError) -> RpcError<RT> {
    match error {
        PeerError::Unreachable(_) | PeerError::Refused(_) => RPCError::Unreachable(Unreachable::new(&error)),
        // It was there a moment ago: one more try finds out whether it still is.
        PeerError::Lost(_) => RPCError::Network(NetworkError::new(&error)),
    }
}

fn declined_error<RT: AsyncRuntime>(declined: Declined) -> RpcError<RT> {
    RPCError::Unreachable(Unreachable::new(&declined))
}

fn unreadable<RT: AsyncRuntime>(error: &(impl std::error::Error + 'static)) -> RpcError<RT> {
    RPCError::Unreachable(Unreachable::new(error))
}

fn unexpected<RT: AsyncRuntime>() -> RpcError<RT> {
    RPCError::Unreachable(Unreachable::from_string("an answer to another question"))
}

fn taken<RT: AsyncRuntime>(reply: Reply<RT>) -> Result<(), RpcError<RT>> {
    if let Reply::SnapshotTaken = reply { Ok(()) } else { Err(unexpected()) }
}

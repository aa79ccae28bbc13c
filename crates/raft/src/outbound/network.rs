//! openraft's network over a `Peer`: one client for each target and purpose, each on its own lane.

use crate::{
    base::{
        member_addresses::MemberAddresses,
        peer::Lane,
        types::{Member, Types},
        wire::{self, PeerReply, PeerRequest},
    },
    core::{
        Links,
        ballots::{VOTE_LIMIT, grants},
    },
    machine::snapshot_writer::SnapshotData,
    outbound::{
        pipeline,
        raft_client::{RaftClient, RpcError, unexpected, unreachable_error},
    },
};
use fairhold_types::{NodeId, failpoint};
use futures_util::Stream;
use openraft::{
    AsyncRuntime, Instant, OptionalSend, RPCTypes,
    alias::{SnapshotOf, VoteOf},
    base::{BoxFuture, BoxStream},
    errors::{ReplicationClosed, StreamingError},
    network::{RPCOption, RaftNetworkFactory, RaftNetworkV2},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
        TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};
use std::{future::Future, sync::Arc};
use tokio::sync::oneshot;

/// Creates the clients.
pub(crate) struct Network<RT: AsyncRuntime> {
    pub(crate) id: NodeId,
    pub(crate) addresses: MemberAddresses,
    pub(crate) links: Arc<Links<RT>>,
}

impl<RT: AsyncRuntime> Network<RT> {
    fn client(&self, id: NodeId, member: &Member, lane: Lane) -> RaftClient<RT> {
        RaftClient {
            from: self.id,
            to: id,
            member: member.clone(),
            addresses: self.addresses.clone(),
            lane,
            links: Arc::clone(&self.links),
        }
    }
}

impl<RT: AsyncRuntime> RaftNetworkFactory<Types<RT>> for Network<RT> {
    type Network = RaftClient<RT>;

    async fn new_client(&mut self, target: NodeId, node: &Member) -> RaftClient<RT> {
        self.client(target, node, Lane::Append)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, node: &Member) -> RaftClient<RT> {
        self.client(target, node, Lane::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: NodeId, node: &Member) -> RaftClient<RT> {
        self.client(target, node, Lane::Snapshot)
    }
}

impl<RT: AsyncRuntime> RaftNetworkV2<Types<RT>> for RaftClient<RT> {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<RT>>, RpcError<RT>> {
        let reply = self.call(self.lane, PeerRequest::Append(rpc), RPCTypes::AppendEntries, option.hard_ttl()).await?;
        if let PeerReply::Append(response) = reply { Ok(response) } else { Err(unexpected()) }
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
        failpoint!(RaftVoteAsk, RT).map_err(unreachable_error)?;
        let vote = rpc.vote;
        let last_log_id = rpc.last_log_id;
        let to = self.to;
        let request = wire::encode(&PeerRequest::Vote(rpc)).map_err(unreachable_error)?;
        let answer = self.send(Lane::Heartbeat, request, RPCTypes::Vote, VOTE_LIMIT);
        let links = Arc::clone(&self.links);
        let (respond, response) = oneshot::channel();
        let requested_at = RT::Instant::now();
        links.ballots.requested(vote, last_log_id, to, requested_at);
        // openraft may stop waiting before the voter's disk has written the vote.
        drop(RT::spawn(async move {
            let response = answer.await.and_then(vote_in);
            let granted = response.as_ref().is_ok_and(|response| grants(response, vote));
            let openraft_gave_up = respond.send(response).is_err();
            links.ballots.answered(vote, to, granted, openraft_gave_up || requested_at.elapsed() >= option.soft_ttl());
        }));
        response.await.unwrap_or_else(|_| Err(unexpected()))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<RT>>, RpcError<RT>> {
        let vote = rpc.vote;
        let request = PeerRequest::PreVote(rpc);
        let response = vote_in(self.call(Lane::Heartbeat, request, RPCTypes::Vote, option.hard_ttl()).await?)?;
        if response.vote_granted {
            self.links.ballots.would_grant(vote, self.to);
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
        let request = PeerRequest::TransferLeader(rpc);
        let reply = self.call(Lane::Heartbeat, request, RPCTypes::TransferLeader, option.soft_ttl()).await?;
        if let PeerReply::TransferLeader(response) = reply { Ok(response) } else { Err(unexpected()) }
    }
}

fn vote_in<RT: AsyncRuntime>(reply: PeerReply<RT>) -> Result<VoteResponse<Types<RT>>, RpcError<RT>> {
    if let PeerReply::Vote(response) = reply { Ok(response) } else { Err(unexpected()) }
}

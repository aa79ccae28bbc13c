//! The receiving side of the transport: admits nodes, and serves their requests.

use crate::{
    base::{
        config::ReplicaConfig,
        log_limit::LogLimit,
        peer::{ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, Lane, Refusal, Requester, Service},
        program::Program,
        wire::{self, Declined, PeerReply, PeerRequest, TracedCommand},
    },
    core::{
        Core, LeaderRoute,
        status::{incarnations, is_uninitialized},
    },
    inbound::{
        admission::{Admission, Refused},
        append::Appenders,
        candidate, forwarded, heartbeat,
        incoming_snapshot::IncomingSnapshot,
        refusal_log::RefusalLog,
        term_limit,
    },
    leadership::{fast_election, handover, membership_calls, upgrade},
    propose::queue::ProposalQueue,
    queues::Queues,
};
use bytes::Bytes;
use fairhold_state::command::{AccessGuard, Command, WriteKey};
use fairhold_types::{Incarnation, NodeId, failpoint};
use futures_util::future::{BoxFuture, FutureExt, ready};
use openraft::{AsyncRuntime, Instant};
use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// How long a node that joins waits for the leader. It tries again after that, and gets the same answer.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

/// Serves the requests of other nodes. It exists before the replica, because the transport needs it; it serves requests
/// once the replica has started.
pub struct PeerService<RT: AsyncRuntime> {
    id: NodeId,
    incarnation: Incarnation,
    program: Program,
    boot: u64,
    admission: Admission,
    /// The replica, once it has started.
    replica: OnceLock<StartedReplica<RT>>,
    refused: RefusalLog,
    appenders: Appenders<RT>,
    incoming: IncomingSnapshot,
    term_limit_log: LogLimit<RT>,
    forbidden_log: LogLimit<RT>,
}

/// The parts of a started replica that the service needs.
struct StartedReplica<RT: AsyncRuntime> {
    /// Weak, because the core owns the transport, and the transport owns this.
    core: Weak<Core<RT>>,
    queues: Queues,
}

impl<RT: AsyncRuntime> PeerService<RT> {
    /// Admits no node until a replica has started with this service.
    #[must_use]
    pub fn new(config: &ReplicaConfig) -> Arc<PeerService<RT>> {
        Arc::new(PeerService {
            id: config.id,
            incarnation: config.incarnation,
            program: config.program.clone(),
            boot: config.boot,
            admission: Admission::new(config),
            replica: OnceLock::new(),
            refused: RefusalLog::default(),
            appenders: Appenders::default(),
            incoming: IncomingSnapshot::default(),
            term_limit_log: LogLimit::default(),
            forbidden_log: LogLimit::default(),
        })
    }

    /// The service that a transport's server and client need.
    #[must_use]
    pub fn service(self: &Arc<Self>) -> Arc<dyn Service> {
        self.clone()
    }

    /// Starts serving requests. openraft must have published its first metrics, because they name the members.
    pub(crate) fn open(&self, core: &Arc<Core<RT>>, queues: Queues) -> bool {
        self.replica.set(StartedReplica { core: Arc::downgrade(core), queues }).is_ok()
    }

    fn replica(&self) -> Option<(Arc<Core<RT>>, &Queues)> {
        let StartedReplica { core, queues } = self.replica.get()?;
        Some((core.upgrade()?, queues))
    }

    fn core(&self) -> Option<Arc<Core<RT>>> {
        self.replica().map(|(core, _)| core)
    }

    fn log_refusal(&self, other: NodeId, refusal: &Refusal) {
        if self.refused.should_log(self.admission.configured(), other, refusal) {
            // It passes after a restart. Otherwise the node ends, and says why.
            if matches!(refusal, Refusal::Duplicate { .. }) {
                tracing::info!(node = other, "refused node {other}: {refusal}");
            } else {
                tracing::warn!(node = other, "refused node {other}: {refusal}");
            }
        }
    }
}

impl<RT: AsyncRuntime> Service for PeerService<RT> {
    fn introduction(&self) -> Introduction {
        let core = self.core();
        Introduction {
            id: self.id,
            cluster: core.as_ref().and_then(|core| self.admission.cluster(core)),
            incarnation: self.incarnation,
            // Before the replica has started it is unknown, and a cluster must not form on a guess. A node that belongs
            // to a cluster forms no other one.
            empty: !self.admission.is_bound() && core.as_ref().is_some_and(|core| core.with_metrics(is_uninitialized)),
            members: core.map_or_else(Vec::new, |core| core.with_metrics(incarnations).into_iter().collect()),
            program: self.program.version.clone(),
            supports: self.program.supports,
            boot: self.boot,
        }
    }

    fn admit(&self, other: &Introduction, side: ConnectionSide) -> Result<(), Refusal> {
        let Some(core) = self.core() else { return Err(Refusal::Starting) };
        check_no_lost_entries(&core)?;
        match self.admission.check_introduction(&core, other, side) {
            Ok(()) => {
                core.programs.record(other);
                // Its cluster is the same as this node's.
                if other.cluster.is_some() {
                    core.notice.record_contact();
                }
                self.refused.forget(other.id);
                Ok(())
            }
            Err(Refused { reason, sent }) => {
                self.log_refusal(other.id, &reason);
                Err(sent)
            }
        }
    }

    fn join(&self, request: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>> {
        let Some((core, queues)) = self.replica() else { return ready(Err(JoinRefusal::NoLeader)).boxed() };
        match self.admission.cluster(&core) {
            _ if core.lost.get().is_some() => return ready(Err(JoinRefusal::NoLeader)).boxed(),
            None => return ready(Err(JoinRefusal::NoLeader)).boxed(),
            Some(ours) if ours != request.cluster => {
                return ready(Err(JoinRefusal::OtherCluster { theirs: request.cluster, ours })).boxed();
            }
            Some(_) => {}
        }
        let queues = queues.clone();
        async move {
            let deadline = RT::Instant::now() + JOIN_LIMIT;
            membership_calls::join(&core, &queues, request, deadline).await
        }
        .boxed()
    }

    fn serve(&self, Requester { node: from, boot, lane }: Requester, request: Bytes) -> BoxFuture<'static, Bytes> {
        let Some((core, queues)) = self.replica() else {
            return ready(reply::<RT>(&PeerReply::Declined(Declined::NotRunning))).boxed();
        };
        if let Err(refusal) = check_no_lost_entries(&core) {
            return ready(reply::<RT>(&PeerReply::Declined(Declined::Refused(refusal)))).boxed();
        }
        if let Err(Refused { reason, sent }) = self.admission.check_sender(&core, from, boot) {
            self.log_refusal(from, &reason);
            return ready(reply::<RT>(&PeerReply::Declined(Declined::Refused(sent)))).boxed();
        }
        let request = match wire::decode::<PeerRequest<RT>>(&request) {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!(node = from, %error, "cannot decode a request from node {from}");
                return ready(reply::<RT>(&PeerReply::Declined(Declined::Malformed))).boxed();
            }
        };
        let own = core.with_metrics(|metrics| metrics.current_term);
        if let Some(term) = term_limit::too_far(&request, own) {
            let declined = Declined::TermTooFar { term, own };
            if self.term_limit_log.is_due() {
                tracing::error!(
                    node = from,
                    "refused a request from node {from}: {declined}. Check that it belongs to this cluster and that its \
                     memory is not faulty"
                );
            }
            return ready(reply::<RT>(&PeerReply::Declined(declined))).boxed();
        }
        if let Some(leader) = candidate::claimed_leader(&request).filter(|leader| leader.node_id == from)
            && !core.contact.claim(leader, boot)
        {
            let refusal = Refusal::Duplicate { id: from };
            self.log_refusal(from, &refusal);
            return ready(reply::<RT>(&PeerReply::Declined(Declined::Refused(refusal)))).boxed();
        }
        if let PeerRequest::Append(rpc) = &request {
            core.contact.record_message(rpc.vote, boot, RT::Instant::now());
            self.incoming.on_leader_vote(rpc.vote);
        }
        let answer = self.answer(core, queues.clone(), (from, boot), lane, request);
        async move { reply(&answer.await) }.boxed()
    }

    fn disconnected(&self, from: NodeId, lane: Lane) {
        // A leader keeps one heartbeat connection to each of its followers; other connections come and go.
        match (lane, self.core()) {
            (Lane::Heartbeat, Some(core)) => drop(RT::spawn(fast_election::on_leader_dead(core, from))),
            (Lane::Snapshot, Some(_)) => self.incoming.disconnected(from),
            (Lane::Heartbeat | Lane::Append | Lane::Snapshot | Lane::Forward, _) => {}
        }
    }
}

impl<RT: AsyncRuntime> PeerService<RT> {
    /// Starts serving a request. Ordered requests enter their queue during this call; the future does the rest.
    fn answer(
        &self,
        core: Arc<Core<RT>>,
        queues: Queues,
        (from, boot): (NodeId, u64),
        lane: Lane,
        request: PeerRequest<RT>,
    ) -> BoxFuture<'static, PeerReply<RT>> {
        match request {
            PeerRequest::Append(rpc) if lane == Lane::Append => self.appenders.append(&core, from, rpc),
            PeerRequest::Append(rpc) => heartbeat::answer(core, rpc).boxed(),
            PeerRequest::Vote(rpc) => async move { candidate::vote(&core, (from, boot), rpc).await }.boxed(),
            PeerRequest::PreVote(rpc) => async move { candidate::pre_vote(&core, (from, boot), rpc).await }.boxed(),
            PeerRequest::TransferLeader(rpc) => async move {
                if failpoint!(RaftTransferReceive, RT).is_err() {
                    return PeerReply::Declined(Declined::Busy);
                }
                answer(core.raft.handle_transfer_leader(rpc).await.map(PeerReply::TransferLeader))
            }
            .boxed(),
            PeerRequest::SnapshotBegin(begin) => ready(self.incoming.begin(&core.snapshots, from, begin)).boxed(),
            PeerRequest::SnapshotBlock { index, block } => self.incoming.block(&*core.snapshots, from, index, block),
            PeerRequest::SnapshotEnd => match self.incoming.end::<RT>(from) {
                Ok((vote, snapshot)) => async move {
                    if failpoint!(RaftInstallReceive, RT).is_err() {
                        return PeerReply::Declined(Declined::Busy);
                    }
                    answer(core.raft.install_full_snapshot(vote, snapshot).await.map(PeerReply::SnapshotInstalled))
                }
                .boxed(),
                Err(declined) => ready(PeerReply::Declined(declined)).boxed(),
            },
            PeerRequest::Propose { commands, within_ms } => {
                self.propose(core, queues.proposals, from, (commands, Vec::new()), within_ms)
            }
            PeerRequest::ProposeTraced { commands, within_ms, traced } => {
                self.propose(core, queues.proposals, from, (commands, traced), within_ms)
            }
            PeerRequest::HandOver { to, key, within_ms } => hand_over(core, queues, to, (key, None), within_ms).boxed(),
            PeerRequest::HandOverGuarded { to, key, within_ms, guard } => {
                hand_over(core, queues, to, (key, Some(guard)), within_ms).boxed()
            }
            PeerRequest::UpgradeStatus => ready(PeerReply::UpgradeStatus(upgrade::own_status(&core))).boxed(),
            PeerRequest::FinalizeUpgrade { to, within_ms, guard } => async move {
                let deadline = RT::Instant::now() + Duration::from_millis(within_ms);
                PeerReply::UpgradeFinalized(upgrade::serve(&core, &queues, to, guard, deadline).await)
            }
            .boxed(),
            PeerRequest::ChangeMember { request, within_ms, guard, origin } => async move {
                let deadline = RT::Instant::now() + Duration::from_millis(within_ms);
                let change = request.decided_by(guard).attributed(origin);
                PeerReply::MemberChanged(membership_calls::serve_change(&core, &queues, change, deadline).await)
            }
            .boxed(),
            PeerRequest::MembersView => {
                async move { PeerReply::MembersView(membership_calls::serve_view(&core, &queues).await) }.boxed()
            }
            PeerRequest::Join(request) => async move {
                let deadline = RT::Instant::now() + JOIN_LIMIT;
                PeerReply::Joined(membership_calls::serve_join(&core, &queues, request, deadline).await)
            }
            .boxed(),
            PeerRequest::DiskLow => {
                core.disk_room.record_low(from, RT::Instant::now());
                ready(PeerReply::Recorded).boxed()
            }
            PeerRequest::ReadIndex => async move { PeerReply::ReadIndex(queues.barriers.next(true).await) }.boxed(),
            PeerRequest::CallLeader(message) => async move { call_leader(&core, message, from).await }.boxed(),
            PeerRequest::CallMember(message) => ready(call_member(&core, &message, from)).boxed(),
        }
    }

    fn propose(
        &self,
        core: Arc<Core<RT>>,
        proposals: ProposalQueue,
        from: NodeId,
        (commands, traced): (Vec<Command>, Vec<TracedCommand>),
        within_ms: u64,
    ) -> BoxFuture<'static, PeerReply<RT>> {
        if let Some(refusal) = commands.iter().find_map(|command| forwarded::refusal(from, command))
            && self.forbidden_log.is_due()
        {
            tracing::error!(node = from, "node {from} forwarded a command that no node may forward: {refusal}");
        }
        async move {
            if !matches!(core.route(), LeaderRoute::Local) {
                return PeerReply::Declined(Declined::NotLeader);
            }
            let within = Duration::from_millis(within_ms);
            PeerReply::Proposed(forwarded::serve(&core, &proposals, from, (commands, traced), within).await)
        }
        .boxed()
    }
}

/// A node that has lost log entries refuses every node, and reports the loss.
fn check_no_lost_entries<RT: AsyncRuntime>(core: &Core<RT>) -> Result<(), Refusal> {
    core.lost.get().map_or(Ok(()), |lost| Err(Refusal::LostEntries(lost.clone())))
}

/// Hands over, as an operator of another node requested.
async fn hand_over<RT: AsyncRuntime>(
    core: Arc<Core<RT>>,
    queues: Queues,
    to: NodeId,
    decided: (Option<WriteKey>, Option<AccessGuard>),
    within_ms: u64,
) -> PeerReply<RT> {
    let deadline = RT::Instant::now() + Duration::from_millis(within_ms);
    PeerReply::HandedOver(handover::serve(&core, &queues, to, decided, deadline).await)
}

/// Passes a message to what handles such messages while this node leads.
async fn call_leader<RT: AsyncRuntime>(core: &Core<RT>, message: Vec<u8>, from: NodeId) -> PeerReply<RT> {
    match (core.route(), core.leader_handler.get()) {
        (LeaderRoute::Local, Some(leader_handler)) => PeerReply::LeaderReply(leader_handler.handle(message, from).await),
        (LeaderRoute::Local | LeaderRoute::Remote(_) | LeaderRoute::Unknown, _) => PeerReply::Declined(Declined::NotLeader),
    }
}

/// Passes a message to what handles such messages on every node.
fn call_member<RT: AsyncRuntime>(core: &Core<RT>, message: &[u8], from: NodeId) -> PeerReply<RT> {
    match core.member_handler.get() {
        Some(member_handler) => PeerReply::MemberReply(member_handler.handle(message, from)),
        None => PeerReply::Declined(Declined::NotRunning),
    }
}

/// openraft answers every request until it has stopped.
fn answer<RT: AsyncRuntime, E>(result: Result<PeerReply<RT>, E>) -> PeerReply<RT> {
    result.unwrap_or(PeerReply::Declined(Declined::NotRunning))
}

fn reply<RT: AsyncRuntime>(reply: &PeerReply<RT>) -> Bytes {
    wire::encode(reply).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot encode an answer to another node");
        // The other node cannot decode an empty answer, and treats it as an unknown outcome, which is correct.
        Bytes::new()
    })
}

impl<RT: AsyncRuntime> fmt::Debug for PeerService<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerService").field("id", &self.id).finish_non_exhaustive()
    }
}

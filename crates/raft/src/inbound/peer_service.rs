//! The receiving side: who may speak to this node, and what becomes of a request.

use crate::{
    base::{
        config::ReplicaConfig,
        log_limit::Complaint,
        peer::{Introduction, Lane, Refusal, Service},
        wire::{self, Declined, PeerReply, PeerRequest},
    },
    core::{
        Core, ForwardRoute,
        ballots::grants,
        status::{incarnations, is_empty},
    },
    inbound::{append::Appenders, forwarded, heartbeat, incoming_snapshot::Incoming, refusal_log::Refused, term_limit},
    leadership::{fast_election, handover},
    propose::queue::ProposalQueue,
    queues::Queues,
};
use bytes::Bytes;
use fairhold_state::command::Command;
use fairhold_types::{
    Incarnation, NodeId, failpoint,
    planted::{self, Bug},
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, ready},
};
use openraft::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// Where other nodes are received. It is made first, because the transport needs it; it answers when the replica has started.
pub struct PeerService<RT: AsyncRuntime>(Arc<ServiceInner<RT>>);

struct ServiceInner<RT: AsyncRuntime> {
    id: NodeId,
    incarnation: Incarnation,
    /// The nodes that may speak to this node until it knows a membership.
    configured: BTreeSet<NodeId>,
    /// The replica, once it has started.
    replica: OnceLock<StartedReplica<RT>>,
    /// With which data directory each node introduced itself last.
    introduced: Mutex<BTreeMap<NodeId, Incarnation>>,
    refused: Refused,
    appenders: Appenders<RT>,
    incoming: Incoming,
    far_terms: Complaint<RT>,
    improper: Complaint<RT>,
}

/// What the service needs of a replica that has started.
struct StartedReplica<RT: AsyncRuntime> {
    /// Weak, because the core owns the transport, and the transport this.
    core: Weak<Core<RT>>,
    queues: Queues,
}

/// What a node knows of the members: their data directories. Empty before the cluster formed.
type Known = BTreeMap<NodeId, Incarnation>;

impl<RT: AsyncRuntime> PeerService<RT> {
    /// Receives nobody until the replica has started with it.
    #[must_use]
    pub fn new(config: &ReplicaConfig) -> PeerService<RT> {
        PeerService(Arc::new(ServiceInner {
            id: config.id,
            incarnation: config.incarnation,
            configured: config.members.keys().copied().collect(),
            replica: OnceLock::new(),
            introduced: Mutex::new(BTreeMap::new()),
            refused: Refused::default(),
            appenders: Appenders::default(),
            incoming: Incoming::default(),
            far_terms: Complaint::default(),
            improper: Complaint::default(),
        }))
    }

    /// The service that a transport's server and client need.
    #[must_use]
    pub fn service(&self) -> Arc<dyn Service> {
        Arc::new(self.clone())
    }

    /// From now on requests are served. openraft must have told its first metrics: they say who the members are.
    pub(crate) fn open(&self, core: &Arc<Core<RT>>, queues: Queues) -> bool {
        self.0.replica.set(StartedReplica { core: Arc::downgrade(core), queues }).is_ok()
    }

    fn replica(&self) -> Option<(Arc<Core<RT>>, &Queues)> {
        let StartedReplica { core, queues } = self.0.replica.get()?;
        Some((core.upgrade()?, queues))
    }

    fn core(&self) -> Option<Arc<Core<RT>>> {
        self.replica().map(|(core, _)| core)
    }

    fn decide(&self, core: &Core<RT>, other: &Introduction) -> Result<(), Refusal> {
        if let (Some(ours), Some(theirs)) = (core.shared.read().cluster(), other.cluster)
            && ours != theirs
        {
            return Err(Refusal::Cluster { theirs, ours });
        }
        self.decide_on(&core.look(incarnations), other.id, other.incarnation)
    }

    fn decide_on(&self, known: &Known, id: NodeId, found: Incarnation) -> Result<(), Refusal> {
        match known.get(&id) {
            Some(&expected) if expected != found && !planted::has(Bug::AdmitsWipedMember) => {
                Err(Refusal::Incarnation { id, expected, found })
            }
            Some(_) => Ok(()),
            None if known.is_empty() && self.0.configured.contains(&id) => Ok(()),
            None => Err(Refusal::Stranger { id }),
        }
    }

    /// A connection may be older than what this node knows of the members by now.
    fn still_admitted(&self, core: &Core<RT>, from: NodeId) -> Result<(), Refusal> {
        let introduced = self.0.introduced.lock().get(&from).copied().ok_or(Refusal::Stranger { id: from })?;
        core.look(|metrics| {
            let mut nodes = metrics.membership_config.nodes().peekable();
            if nodes.peek().is_none() {
                return Ok(());
            }
            match metrics.membership_config.get_node(&from) {
                Some(member) if member.incarnation == introduced || planted::has(Bug::AdmitsWipedMember) => Ok(()),
                Some(member) => Err(Refusal::Incarnation { id: from, expected: member.incarnation, found: introduced }),
                None => Err(Refusal::Stranger { id: from }),
            }
        })
    }

    fn log_refusal(&self, other: NodeId, refusal: &Refusal) {
        if self.0.refused.is_news(&self.0.configured, other, refusal) {
            tracing::warn!(node = other, "node {other} is refused: {refusal}");
        }
    }
}

impl<RT: AsyncRuntime> Service for PeerService<RT> {
    fn introduction(&self) -> Introduction {
        let ServiceInner { id, incarnation, .. } = *self.0;
        match self.core() {
            // Not `empty`: whether it is, is not known yet, and a cluster must not be formed on a guess.
            None => Introduction { id, cluster: None, incarnation, empty: false, members: Vec::new() },
            Some(core) => Introduction {
                id,
                cluster: core.shared.read().cluster(),
                incarnation,
                empty: core.look(is_empty),
                members: core.look(incarnations).into_iter().collect(),
            },
        }
    }

    fn admit(&self, other: &Introduction) -> Result<(), Refusal> {
        let decision = match self.core() {
            Some(core) => takes_part(&core).and_then(|()| self.decide(&core, other)),
            None => Err(Refusal::Starting),
        };
        match &decision {
            Ok(()) => {
                self.0.introduced.lock().insert(other.id, other.incarnation);
                self.0.refused.forget(other.id);
            }
            Err(refusal) => self.log_refusal(other.id, refusal),
        }
        decision
    }

    fn serve(&self, from: NodeId, lane: Lane, request: Bytes) -> BoxFuture<'static, Bytes> {
        let Some((core, queues)) = self.replica() else {
            return ready(reply::<RT>(&PeerReply::Declined(Declined::NotRunning))).boxed();
        };
        if let Err(refusal) = takes_part(&core).and_then(|()| self.still_admitted(&core, from)) {
            self.log_refusal(from, &refusal);
            return ready(reply::<RT>(&PeerReply::Declined(Declined::Refused(refusal)))).boxed();
        }
        let request = match wire::decode::<PeerRequest<RT>>(&request) {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!(node = from, %error, "a request of node {from} cannot be read");
                return ready(reply::<RT>(&PeerReply::Declined(Declined::Malformed))).boxed();
            }
        };
        let own = core.look(|metrics| metrics.current_term);
        if let Some(term) = term_limit::too_far(&request, own) {
            let declined = Declined::TermTooFar { term, own };
            if self.0.far_terms.is_due() {
                tracing::error!(
                    node = from,
                    "refused a request from node {from}: {declined}. Is it really a node of this cluster, and is its memory \
                     sound?"
                );
            }
            return ready(reply::<RT>(&PeerReply::Declined(declined))).boxed();
        }
        let answer = self.0.answer(core, queues.clone(), from, lane, request);
        async move { reply(&answer.await) }.boxed()
    }

    fn hung_up(&self, from: NodeId, lane: Lane) {
        // A leader keeps each of its followers one connection for heartbeats; the others come and go.
        if lane == Lane::Heartbeat
            && let Some(core) = self.core()
        {
            drop(RT::spawn(fast_election::fill(core, from)));
        } else if lane == Lane::Snapshot
            && let Some(core) = self.core()
        {
            self.0.incoming.hung_up(&*core.snapshots, from);
        }
    }
}

impl<RT: AsyncRuntime> ServiceInner<RT> {
    /// What must keep its order takes its place here; the rest happens in the future.
    fn answer(
        &self,
        core: Arc<Core<RT>>,
        queues: Queues,
        from: NodeId,
        lane: Lane,
        request: PeerRequest<RT>,
    ) -> BoxFuture<'static, PeerReply<RT>> {
        if let PeerRequest::Append(rpc) = &request {
            core.contact.heard(rpc.vote, RT::Instant::now());
            self.incoming.hear(&*core.snapshots, rpc.vote);
        }
        match request {
            PeerRequest::Append(rpc) if lane == Lane::Append => self.appenders.append(&core, from, rpc),
            PeerRequest::Append(rpc) => heartbeat::answer(core, rpc).boxed(),
            PeerRequest::Vote(rpc) => async move {
                if failpoint!(RaftVoteReceive, RT).is_err() {
                    return PeerReply::Declined(Declined::Busy);
                }
                let (vote, asked) = (rpc.vote, RT::Instant::now());
                let response = core.raft.vote(rpc).await;
                if response.as_ref().is_ok_and(|response| grants(response, vote)) {
                    core.contact.gave(vote, asked, RT::Instant::now());
                }
                let reply = answer(response.map(PeerReply::Vote));
                if failpoint!(RaftVoteAnswer, RT).is_ok() { reply } else { PeerReply::Declined(Declined::Busy) }
            }
            .boxed(),
            PeerRequest::PreVote(rpc) => async move {
                let mut response = core.raft.pre_vote(rpc).await;
                // openraft leaves a lease that `vacancy` set aside as it is, also where that was a false alarm.
                if let Ok(response) = &mut response {
                    response.vote_granted &= !core.contact.hears_leader(core.lease, RT::Instant::now());
                }
                answer(response.map(PeerReply::Vote))
            }
            .boxed(),
            PeerRequest::TransferLeader(rpc) => async move {
                if failpoint!(RaftTransferReceive, RT).is_err() {
                    return PeerReply::Declined(Declined::Busy);
                }
                answer(core.raft.handle_transfer_leader(rpc).await.map(PeerReply::TransferLeader))
            }
            .boxed(),
            PeerRequest::SnapshotBegin(begin) => ready(self.incoming.begin(&*core.snapshots, from, begin)).boxed(),
            PeerRequest::SnapshotBlock { index, block } => self.incoming.block(&*core.snapshots, from, index, block),
            PeerRequest::SnapshotEnd => match self.incoming.end::<RT>(&*core.snapshots, from) {
                Ok((vote, snapshot)) => async move {
                    if failpoint!(RaftInstallReceive, RT).is_err() {
                        return PeerReply::Declined(Declined::Busy);
                    }
                    answer(core.raft.install_full_snapshot(vote, snapshot).await.map(PeerReply::SnapshotInstalled))
                }
                .boxed(),
                Err(declined) => ready(PeerReply::Declined(declined)).boxed(),
            },
            PeerRequest::Propose { commands, within_ms } => self.propose(core, queues.proposals, from, commands, within_ms),
            PeerRequest::HandOver { to, key, within_ms } => async move {
                let deadline = RT::Instant::now() + Duration::from_millis(within_ms);
                PeerReply::HandedOver(handover::serve(&core, &queues, to, key, deadline).await)
            }
            .boxed(),
            PeerRequest::DiskLow => {
                core.disk_room.heard(from, RT::Instant::now());
                ready(PeerReply::Noted).boxed()
            }
            PeerRequest::ReadIndex => async move { PeerReply::ReadIndex(queues.barriers.next(true).await) }.boxed(),
            PeerRequest::Attend(message) => async move {
                match (core.route(), core.attendant.get()) {
                    (ForwardRoute::Here, Some(attendant)) => PeerReply::Attended(attendant.attend(message, from).await),
                    (ForwardRoute::Here | ForwardRoute::There(_) | ForwardRoute::Unknown, _) => {
                        PeerReply::Declined(Declined::NotLeader)
                    }
                }
            }
            .boxed(),
        }
    }

    fn propose(
        &self,
        core: Arc<Core<RT>>,
        proposals: ProposalQueue,
        from: NodeId,
        commands: Vec<Command>,
        within_ms: u64,
    ) -> BoxFuture<'static, PeerReply<RT>> {
        if let Some(refusal) = commands.iter().find_map(|command| forwarded::refusal(from, command))
            && self.improper.is_due()
        {
            tracing::error!(node = from, "node {from} forwarded a command that a node must not forward: {refusal}");
        }
        async move {
            if !matches!(core.route(), ForwardRoute::Here) {
                return PeerReply::Declined(Declined::NotLeader);
            }
            PeerReply::Proposed(forwarded::serve(&core, &proposals, from, commands, Duration::from_millis(within_ms)).await)
        }
        .boxed()
    }
}

/// A node that has lost entries speaks with nobody, and tells everyone why.
fn takes_part<RT: AsyncRuntime>(core: &Core<RT>) -> Result<(), Refusal> {
    core.lost.get().map_or(Ok(()), |lost| Err(Refusal::LostEntries(lost.clone())))
}

/// openraft answers everything but when it has stopped.
fn answer<RT: AsyncRuntime, E>(result: Result<PeerReply<RT>, E>) -> PeerReply<RT> {
    result.unwrap_or(PeerReply::Declined(Declined::NotRunning))
}

fn reply<RT: AsyncRuntime>(reply: &PeerReply<RT>) -> Bytes {
    wire::encode(reply).unwrap_or_else(|error| {
        tracing::error!(%error, "an answer to another node cannot be encoded");
        // The other side cannot read nothing, and takes it for an unknown outcome: which it is.
        Bytes::new()
    })
}

impl<RT: AsyncRuntime> Clone for PeerService<RT> {
    fn clone(&self) -> Self {
        PeerService(self.0.clone())
    }
}

impl<RT: AsyncRuntime> fmt::Debug for PeerService<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reception").field("id", &self.0.id).finish_non_exhaustive()
    }
}

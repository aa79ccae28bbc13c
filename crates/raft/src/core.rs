//! What all parts of a running replica share.

use crate::{
    aliases::{LeaderId, RaftOf},
    barrier::BarrierQueue,
    error::NotProposed,
    machine::{Progress, Shared},
    network::target,
    peer::{Lane, Peer, PeerError, Target},
    proposals::ProposalQueue,
    status::{ReplicaStatus, status},
    types::{Member, Types},
    wire::{self, Declined, Reply, Request},
};
use fairhold_types::NodeId;
use futures_util::future::BoxFuture;
use openraft::{AsyncRuntime, Instant, RaftMetrics, ServerState, async_runtime::watch::WatchReceiver};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// A pause before something is tried again that failed for want of a leader, where one is known: it may be dead, or just
/// elected.
const RETRY_PAUSE: Duration = Duration::from_millis(25);
/// How long work that was handed to a leader may go on after this node learnt of another one: its answer may be under way.
const GRACE_AFTER_CHANGE: Duration = Duration::from_secs(1);

/// One leadership of this node. Two are never equal, even of the same node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership(pub(crate) LeaderId);

impl Leadership {
    /// Its term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.0.term
    }
}

/// Takes the messages that other nodes send to whoever leads.
pub trait Attendant: Send + Sync + 'static {
    /// Answers one message; called on the node that leads, as far as it knows.
    fn attend(&self, request: Vec<u8>, from: NodeId) -> BoxFuture<'static, Vec<u8>>;
}

/// What all parts of a running replica share.
pub(crate) struct Core<RT: AsyncRuntime> {
    pub(crate) id: NodeId,
    pub(crate) raft: RaftOf<RT>,
    pub(crate) shared: Arc<Shared<RT>>,
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) proposals: ProposalQueue,
    pub(crate) barriers: BarrierQueue,
    pub(crate) attendant: OnceLock<Arc<dyn Attendant>>,
    /// The longer election timeout.
    pub(crate) lease: Duration,
}

/// Where the leader is.
pub(crate) enum Route {
    /// This node leads, as far as it knows.
    Here,
    /// Another node leads, as far as this one knows.
    There(Target),
    /// No leader is known.
    Unknown,
}

/// How a call of another node failed.
pub(crate) enum CallError {
    /// Nothing came of it.
    NotDelivered(NotProposed),
    /// Something may have come of it.
    Lost,
}

impl<RT: AsyncRuntime> Core<RT> {
    /// Looks at openraft's metrics as they are now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&RaftMetrics<Types<RT>>) -> T) -> T {
        look(&self.raft.metrics().borrow_watched())
    }

    /// Waits until something is seen in openraft's metrics; `None` when Raft has stopped without it.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&RaftMetrics<Types<RT>>) -> Option<T>) -> Option<T> {
        let mut metrics = self.raft.metrics();
        loop {
            let (seen, stopped) = {
                let metrics = metrics.borrow_and_update();
                (look(&metrics), metrics.running_state.is_err())
            };
            if seen.is_some() || stopped || metrics.changed().await.is_err() {
                return seen;
            }
        }
    }

    /// Resolves when Raft has stopped, for whatever reason.
    pub(crate) async fn stopped(&self) {
        self.until(|_| None::<()>).await;
    }

    /// What this node knows of itself and of its cluster.
    pub(crate) fn status(&self) -> ReplicaStatus {
        let (cluster, revision) = {
            let state = self.shared.read();
            (state.cluster(), state.revision())
        };
        self.look(|metrics| status(metrics, cluster, revision))
    }

    pub(crate) fn leader(&self) -> Option<(NodeId, Member)> {
        self.look(leader_in)
    }

    pub(crate) fn leadership(&self) -> Option<Leadership> {
        self.look(leadership_in)
    }

    pub(crate) fn route(&self) -> Route {
        match self.leader() {
            Some((id, _)) if id == self.id => Route::Here,
            Some((id, member)) => Route::There(target(id, &member)),
            None => Route::Unknown,
        }
    }

    /// Does work that was handed to the leader of the moment; gives up some time after this node learnt of another leader.
    pub(crate) async fn while_led<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let leader = self.look(|metrics| metrics.current_leader);
        let given_up = async {
            self.until(|metrics| (metrics.current_leader != leader).then_some(())).await;
            RT::sleep(GRACE_AFTER_CHANGE).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = given_up => None,
        }
    }

    /// Waits for a better moment to ask the leader again; `false` when the deadline came first.
    pub(crate) async fn pause(&self, deadline: RT::Instant) -> bool {
        let better = async {
            match self.leader() {
                Some(_) => RT::sleep(RETRY_PAUSE).await,
                None => drop(self.until(leader_in).await),
            }
        };
        RT::timeout_at(deadline, better).await.is_ok() && RT::Instant::now() < deadline
    }

    /// Waits until the state here covers a log entry; `None` when Raft has stopped before.
    pub(crate) async fn applied(&self, index: u64) -> Option<()> {
        self.progressed(|progress| progress.applied >= Some(index)).await
    }

    /// Waits until the state here got somewhere; `None` when Raft has stopped before.
    pub(crate) async fn progressed(&self, there: impl Fn(&Progress) -> bool + Send) -> Option<()> {
        let mut progress = self.shared.progress();
        if there(&progress.borrow_and_update()) {
            return Some(());
        }
        let arrived = async move {
            loop {
                progress.changed().await.ok()?;
                if there(&progress.borrow_and_update()) {
                    return Some(());
                }
            }
        };
        tokio::select! {
            biased;
            arrived = arrived => arrived,
            () = self.stopped() => None,
        }
    }

    /// Asks another node on its clients' behalf.
    pub(crate) async fn ask(&self, to: &Target, request: &Request<RT>) -> Result<Reply<RT>, CallError> {
        let request = match wire::encode(request) {
            Ok(request) => request,
            Err(error) => {
                tracing::error!(%error, "a request to another node cannot be encoded");
                return Err(CallError::NotDelivered(NotProposed::Overloaded));
            }
        };
        let bytes = match self.peer.call(to, Lane::Forward, request).await {
            Ok(bytes) => bytes,
            Err(PeerError::Unreachable(_) | PeerError::Refused(_)) => {
                return Err(CallError::NotDelivered(NotProposed::NoLeader));
            }
            Err(PeerError::Lost(_)) => return Err(CallError::Lost),
        };
        match wire::decode(&bytes) {
            Ok(Reply::Declined(Declined::Busy)) => Err(CallError::NotDelivered(NotProposed::Overloaded)),
            Ok(Reply::Declined(_)) => Err(CallError::NotDelivered(NotProposed::NoLeader)),
            Ok(reply) => Ok(reply),
            Err(error) => {
                tracing::error!(%error, node = to.id, "an answer from another node cannot be read");
                Err(CallError::Lost)
            }
        }
    }
}

pub(crate) fn leader_in<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> Option<(NodeId, Member)> {
    metrics.running_state.as_ref().ok()?;
    let id = metrics.current_leader?;
    Some((id, metrics.membership_config.get_node(&id)?.clone()))
}

pub(crate) fn leadership_in<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> Option<Leadership> {
    let leads = metrics.running_state.is_ok()
        && metrics.state == ServerState::Leader
        && metrics.vote.committed
        && metrics.vote.leader_id.node_id == metrics.id;
    leads.then_some(Leadership(metrics.vote.leader_id))
}

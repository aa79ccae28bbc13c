//! What all parts of a running replica share.

pub(crate) mod ballots;
pub(crate) mod contact;
pub(crate) mod disk_room;
pub(crate) mod losses;
pub(crate) mod outgoing_snapshots;
pub(crate) mod round_trips;
pub(crate) mod snapshot_schedule;
pub(crate) mod status;

use crate::{
    base::{
        addresses::Addresses,
        aliases::LeaderId,
        error::NotProposed,
        lost_entries::LostEntries,
        peer::{Lane, Peer, PeerError, Target},
        types::{Member, Types},
        wire::{self, Declined, PeerReply, PeerRequest},
    },
    core::{
        ballots::Ballots,
        contact::Contact,
        disk_room::DiskRoom,
        losses::Losses,
        outgoing_snapshots::Sending,
        round_trips::RoundTrips,
        snapshot_schedule::{LogRoom, Schedule},
        status::{ReplicaStatus, status},
    },
    machine::{
        apply::Machine,
        shared::{Progress, Shared},
        snapshot::SnapshotStore,
    },
};
use fairhold_types::NodeId;
use futures_util::future::BoxFuture;
use openraft::{
    AsyncRuntime, Instant, Raft, RaftMetrics, ServerState, async_runtime::watch::WatchReceiver, metrics::RaftServerMetrics,
};
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
    /// That of a node in a term.
    #[must_use]
    pub fn new(term: u64, leader: NodeId) -> Leadership {
        Leadership(LeaderId { term, node_id: leader })
    }

    /// Its term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.0.term
    }
}

/// Takes the messages that other nodes send to the leader.
pub trait LeaderHandler: Send + Sync + 'static {
    /// Answers one message; called on the node that leads, as far as it knows.
    fn attend(&self, request: Vec<u8>, from: NodeId) -> BoxFuture<'static, Vec<u8>>;
}

/// The handle of a running Raft.
pub(crate) type RaftOf<RT> = Raft<Types<RT>, Machine<RT>>;

/// What all parts of a running replica share.
pub(crate) struct Core<RT: AsyncRuntime> {
    pub(crate) id: NodeId,
    pub(crate) raft: RaftOf<RT>,
    pub(crate) shared: Arc<Shared<RT>>,
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) snapshots: Arc<dyn SnapshotStore>,
    pub(crate) sending: Sending,
    /// When snapshots are due.
    pub(crate) schedule: Schedule,
    pub(crate) attendant: OnceLock<Arc<dyn LeaderHandler>>,
    /// The longer election timeout.
    pub(crate) lease: Duration,
    /// Where the members are reached.
    pub(crate) addresses: Addresses,
    /// How long heartbeats take.
    pub(crate) round_trips: RoundTrips,
    /// What was heard of leaders.
    pub(crate) contact: Contact<RT::Instant>,
    /// The votes for this node.
    pub(crate) ballots: Ballots<RT::Instant>,
    /// What this node's own storage has lost: it takes no part any more.
    pub(crate) lost: OnceLock<LostEntries>,
    /// What other nodes' storage has lost.
    pub(crate) losses: Losses,
    /// Which nodes have room on their disks.
    pub(crate) disk_room: DiskRoom<RT>,
}

/// Where the leader is.
pub(crate) enum ForwardRoute {
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
    /// Looks at openraft's metrics as they are now. `look` must not ask for metrics again: a second look within the first waits
    /// for the task that writes them, which waits for the first.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&RaftMetrics<Types<RT>>) -> T) -> T {
        look(&self.raft.metrics().borrow_watched())
    }

    /// Whether Raft has stopped, for whatever reason.
    pub(crate) fn has_stopped(&self) -> bool {
        self.look(|metrics| metrics.running_state.is_err())
    }

    /// Looks at who leads and who is a member, as far as this node knows; `None` when Raft has stopped.
    pub(crate) fn standing<T>(&self, look: impl FnOnce(&ServerMetrics<RT>) -> Option<T>) -> Option<T> {
        if self.has_stopped() { None } else { look(&self.raft.server_metrics().borrow_watched()) }
    }

    /// Waits until something is seen of who leads and who is a member; `None` when Raft has stopped without it.
    ///
    /// openraft tells its other metrics after every message that it handles: a task that waits on those would be woken some six
    /// times for each log entry.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&ServerMetrics<RT>) -> Option<T>) -> Option<T> {
        let mut standing = self.raft.server_metrics();
        loop {
            let seen = look(&standing.borrow_and_update());
            if self.has_stopped() {
                return None;
            }
            // Raft's end is the end of these metrics, and was told in the others before.
            if seen.is_some() || standing.changed().await.is_err() {
                return seen;
            }
        }
    }

    /// Waits until something is seen in any of openraft's metrics; `None` when Raft has stopped without it. Only for those who
    /// wait seldom and not for long.
    pub(crate) async fn until_in_all<T>(&self, mut look: impl FnMut(&RaftMetrics<Types<RT>>) -> Option<T>) -> Option<T> {
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

    /// Stops taking part. What was in flight is answered first, as unknown where it is.
    pub(crate) async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(%error, "raft did not stop as it should");
        }
    }

    /// What the log has room for now.
    pub(crate) fn log_room(&self) -> LogRoom {
        self.schedule.log_room(&self.shared.newest_now(), &self.shared.now())
    }

    /// Whether fewer than a majority of the voters answer this leader and have room on their disks.
    pub(crate) fn too_few_disks_have_room(&self) -> bool {
        !self.disk_room.all_have_room() && self.look(|metrics| self.disk_room.is_short(metrics, self.lease))
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
        self.look(|metrics| status(metrics, (&self.losses, &self.addresses, &self.round_trips), cluster, revision))
    }

    pub(crate) fn leader(&self) -> Option<(NodeId, Member)> {
        self.standing(leader_in).map(|(id, member)| (id, self.addresses.of(id, &member)))
    }

    pub(crate) fn leadership(&self) -> Option<Leadership> {
        self.standing(leadership_in)
    }

    pub(crate) fn route(&self) -> ForwardRoute {
        match self.leader() {
            Some((id, _)) if id == self.id => ForwardRoute::Here,
            Some((id, member)) => ForwardRoute::There(self.addresses.target(id, &member)),
            None => ForwardRoute::Unknown,
        }
    }

    /// Does work that was handed to the leader of the moment; gives up some time after this node learnt of another leader.
    pub(crate) async fn while_led<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let leader = self.standing(|standing| standing.current_leader);
        let given_up = async {
            self.until(|standing| (standing.current_leader != leader).then_some(())).await;
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
    pub(crate) async fn ask(&self, to: &Target, request: &PeerRequest<RT>) -> Result<PeerReply<RT>, CallError> {
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
            Ok(PeerReply::Declined(Declined::Busy)) => Err(CallError::NotDelivered(NotProposed::Overloaded)),
            Ok(PeerReply::Declined(_)) => Err(CallError::NotDelivered(NotProposed::NoLeader)),
            Ok(reply) => Ok(reply),
            Err(error) => {
                tracing::error!(%error, node = to.id, "an answer from another node cannot be read");
                Err(CallError::Lost)
            }
        }
    }
}

/// Who leads and who is a member, as far as a node knows: the metrics that change seldom.
pub(crate) type ServerMetrics<RT> = RaftServerMetrics<Types<RT>>;

pub(crate) fn leader_in<RT: AsyncRuntime>(standing: &ServerMetrics<RT>) -> Option<(NodeId, Member)> {
    let id = standing.current_leader?;
    Some((id, standing.membership_config.get_node(&id)?.clone()))
}

pub(crate) fn leadership_in<RT: AsyncRuntime>(standing: &ServerMetrics<RT>) -> Option<Leadership> {
    let leads =
        standing.state == ServerState::Leader && standing.vote.committed && standing.vote.leader_id.node_id == standing.id;
    leads.then_some(Leadership(standing.vote.leader_id))
}

//! What all parts of a running replica share.

pub(crate) mod ballots;
pub(crate) mod catch_ups;
pub(crate) mod contact;
pub(crate) mod disk_room;
pub(crate) mod handlers;
pub(crate) mod losses;
pub(crate) mod outgoing_snapshots;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod reach;
pub(crate) mod removal_notice;
pub(crate) mod round_trips;
pub(crate) mod snapshot_schedule;
pub(crate) mod status;

use crate::{
    base::{
        aliases::LeaderId,
        error::NotProposed,
        lost_entries::LostEntries,
        member_addresses::MemberAddresses,
        peer::{Lane, Peer, PeerError, Refusal, Target},
        program::Program,
        types::{Member, Types},
        wire::{self, Declined, PeerReply, PeerRequest},
    },
    core::{
        ballots::Ballots,
        catch_ups::CatchUps,
        contact::Contact,
        disk_room::DiskRoom,
        handlers::{LeaderHandler, MemberHandler},
        losses::Losses,
        outgoing_snapshots::OutgoingSnapshots,
        processes::Processes,
        programs::Programs,
        removal_notice::RemovalNotice,
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
use fairhold_trace::Tracer;
use fairhold_types::NodeId;
use openraft::{
    AsyncRuntime, Instant, Raft, RaftMetrics, ServerState, async_runtime::watch::WatchReceiver, metrics::RaftServerMetrics,
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::{Mutex, Notify};

/// Pause before a retry after `NoLeader`, if a leader is known: it may be dead, or just elected.
const RETRY_PAUSE: Duration = Duration::from_millis(25);
/// How long work that was handed to a leader may continue after this node learns of another leader: its answer may be
/// on the way.
const GRACE_AFTER_CHANGE: Duration = Duration::from_secs(1);

/// One leadership of this node. No two are equal, even of the same node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership(pub(crate) LeaderId);

impl Leadership {
    /// The leadership of a node in a term.
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

/// The handle of a running Raft.
pub(crate) type RaftOf<RT> = Raft<Types<RT>, Machine<RT>>;

/// The transport to other nodes, and the records of the clients that use it.
pub(crate) struct Links<RT: AsyncRuntime> {
    pub(crate) peer: Arc<dyn Peer>,
    /// The votes for this node.
    pub(crate) ballots: Ballots<RT::Instant>,
    /// The losses of other nodes' storage.
    pub(crate) losses: Losses,
    /// The round trips of heartbeats.
    pub(crate) round_trips: RoundTrips,
    pub(crate) outgoing_snapshots: OutgoingSnapshots,
    pub(crate) catch_ups: CatchUps<RT::Instant>,
    /// Whether this node must stop, because it was removed or is a copy.
    pub(crate) notice: Arc<RemovalNotice<RT::Instant>>,
}

/// What all parts of a running replica share.
pub(crate) struct Core<RT: AsyncRuntime> {
    pub(crate) id: NodeId,
    pub(crate) raft: RaftOf<RT>,
    pub(crate) shared: Arc<Shared<RT>>,
    pub(crate) links: Arc<Links<RT>>,
    pub(crate) snapshots: Arc<dyn SnapshotStore>,
    /// When snapshots are due.
    pub(crate) schedule: Schedule,
    pub(crate) leader_handler: OnceLock<Arc<dyn LeaderHandler>>,
    pub(crate) member_handler: OnceLock<Arc<dyn MemberHandler>>,
    /// Held while the leader decides about a member: whether a node may join, or whether a member may be removed or changed.
    /// It is held until the decision is applied, because the next decision counts it.
    pub(crate) admissions: Mutex<()>,
    /// The longer election timeout, which is also the leader's lease.
    pub(crate) lease: Duration,
    /// The addresses of the members.
    pub(crate) addresses: MemberAddresses,
    /// The last contact with leaders.
    pub(crate) contact: Contact<RT::Instant>,
    /// This node's program.
    pub(crate) program: Program,
    /// The programs of the other nodes.
    pub(crate) programs: Programs,
    /// The processes of the members.
    pub(crate) processes: Processes,
    /// What this node's storage has lost. If set, the node takes no part any more.
    pub(crate) lost: OnceLock<LostEntries>,
    /// Which nodes have free disk space.
    pub(crate) disk_room: DiskRoom<RT>,
    /// Whether this node must stop, because it was removed or is a copy.
    pub(crate) notice: Arc<RemovalNotice<RT::Instant>>,
    /// Wakes the reconciler of the membership after a change.
    pub(crate) reconcile: Notify,
    /// How many times longer everything takes that depends on the network than in one data centre.
    pub(crate) time_scale: u32,
    /// Has the spans of commands that other nodes forward to this one.
    pub(crate) tracer: Tracer,
}

/// Where the leader is.
pub(crate) enum LeaderRoute {
    /// This node leads, as far as it knows.
    Local,
    /// Another node leads, as far as this one knows.
    Remote(Target),
    /// No leader is known.
    Unknown,
}

/// Why a call to another node failed.
pub(crate) enum CallError {
    /// It had no effect.
    NotDelivered(NotProposed),
    /// It may have had an effect.
    Lost,
}

impl<RT: AsyncRuntime> Links<RT> {
    pub(crate) fn new(peer: Arc<dyn Peer>, notice: Arc<RemovalNotice<RT::Instant>>) -> Self {
        Links {
            peer,
            notice,
            ballots: Ballots::default(),
            losses: Losses::default(),
            round_trips: RoundTrips::default(),
            outgoing_snapshots: OutgoingSnapshots::default(),
            catch_ups: CatchUps::default(),
        }
    }

    /// Records that node `by` refuses a request of Raft: it may have lost entries, or this node may have been removed.
    pub(crate) fn record_refusal(&self, by: NodeId, refusal: &Refusal) {
        self.losses.record(refusal);
        self.notice.record_refusal(by, refusal, RT::Instant::now());
    }
}

impl<RT: AsyncRuntime> Core<RT> {
    /// Reads openraft's current metrics. `read` must not read metrics again: a nested read waits for the task that
    /// writes them, which waits for the outer read.
    pub(crate) fn with_metrics<T>(&self, read: impl FnOnce(&RaftMetrics<Types<RT>>) -> T) -> T {
        read(&self.raft.metrics().borrow_watched())
    }

    /// Whether Raft has stopped, for any reason.
    pub(crate) fn has_stopped(&self) -> bool {
        self.with_metrics(|metrics| metrics.running_state.is_err())
    }

    /// Reads the leader and the members, as far as this node knows them; `None` once Raft has stopped.
    pub(crate) fn with_server_metrics<T>(&self, read: impl FnOnce(&ServerMetrics<RT>) -> Option<T>) -> Option<T> {
        if self.has_stopped() { None } else { read(&self.raft.server_metrics().borrow_watched()) }
    }

    /// Waits until `find` finds something in the leader and the members; `None` if Raft stops first.
    ///
    /// openraft updates its other metrics after every message: a task that waits on those would wake about six times
    /// for each log entry.
    pub(crate) async fn until<T>(&self, mut find: impl FnMut(&ServerMetrics<RT>) -> Option<T>) -> Option<T> {
        let mut metrics = self.raft.server_metrics();
        loop {
            let found = find(&metrics.borrow_and_update());
            if self.has_stopped() {
                return None;
            }
            // These metrics end with Raft, and the others reported the end before.
            if found.is_some() || metrics.changed().await.is_err() {
                return found;
            }
        }
    }

    /// Waits until `find` finds something in any of openraft's metrics; `None` if Raft stops first. Only for rare,
    /// short waits.
    pub(crate) async fn until_any_metrics<T>(&self, mut find: impl FnMut(&RaftMetrics<Types<RT>>) -> Option<T>) -> Option<T> {
        let mut metrics = self.raft.metrics();
        loop {
            let (found, stopped) = {
                let metrics = metrics.borrow_and_update();
                (find(&metrics), metrics.running_state.is_err())
            };
            if found.is_some() || stopped || metrics.changed().await.is_err() {
                return found;
            }
        }
    }

    /// Stops taking part. First answers whatever is in flight, if necessary with an unknown outcome.
    pub(crate) async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(%error, "Raft did not stop cleanly");
        }
    }

    /// Which commands the log currently has room for.
    pub(crate) fn log_room(&self) -> LogRoom {
        self.schedule.log_room(&self.shared.newest.get(), &self.shared.progress.get())
    }

    /// Whether fewer than a majority of the voters answer this leader and have free disk space.
    pub(crate) fn too_few_disks_have_room(&self) -> bool {
        !self.disk_room.all_have_room() && self.with_metrics(|metrics| self.disk_room.is_short(metrics, self.lease))
    }

    /// Resolves when Raft has stopped, for any reason.
    pub(crate) async fn stopped(&self) {
        self.until(|_| None::<()>).await;
    }

    /// What this node knows about itself and its cluster.
    pub(crate) fn status(&self) -> ReplicaStatus {
        let (cluster, revision) = {
            let state = self.shared.read();
            (state.cluster(), state.revision())
        };
        let metrics = self.metrics_with_current_role();
        let links = (&self.links.losses, &self.addresses, &self.links.round_trips);
        status(&metrics, links, cluster, revision, self.hears_from_leader())
    }

    /// openraft publishes the leader and the members before the metrics that contain everything. Tasks that wait for
    /// a leader see the former, and a status that is read after that must agree.
    fn metrics_with_current_role(&self) -> RaftMetrics<Types<RT>> {
        let mut metrics = self.with_metrics(Clone::clone);
        let server = self.raft.server_metrics();
        let server = server.borrow_watched();
        metrics.current_term = metrics.current_term.max(server.vote.leader_id.term);
        metrics.vote = server.vote;
        metrics.state = server.state;
        metrics.current_leader = server.current_leader;
        metrics.membership_config.clone_from(&server.membership_config);
        metrics
    }

    pub(crate) fn leader(&self) -> Option<(NodeId, Member)> {
        self.with_server_metrics(leader_in).map(|(id, member)| (id, self.addresses.of(id, &member)))
    }

    pub(crate) fn leadership(&self) -> Option<Leadership> {
        self.with_server_metrics(leadership_in)
    }

    pub(crate) fn route(&self) -> LeaderRoute {
        match self.leader() {
            Some((id, _)) if id == self.id => LeaderRoute::Local,
            Some((id, member)) => LeaderRoute::Remote(self.addresses.target(id, &member)),
            None => LeaderRoute::Unknown,
        }
    }

    /// Runs work that was handed to the current leader. Gives up some time after this node learns of another leader.
    pub(crate) async fn until_leader_changes<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.until_leader_changes_and(work, || ()).await
    }

    /// Like `until_leader_changes`. Calls `changed` as soon as this node learns of another leader.
    pub(crate) async fn until_leader_changes_and<T>(&self, work: impl Future<Output = T>, changed: impl FnOnce()) -> Option<T> {
        let leader = self.with_server_metrics(|metrics| metrics.current_leader);
        let given_up = async {
            self.until(|metrics| (metrics.current_leader != leader).then_some(())).await;
            changed();
            RT::sleep(GRACE_AFTER_CHANGE).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = given_up => None,
        }
    }

    /// Waits until retrying at the leader makes sense; `false` if the deadline passes or Raft stops first.
    pub(crate) async fn pause(&self, deadline: RT::Instant) -> bool {
        let retry = async {
            match self.leader() {
                Some(_) => {
                    RT::sleep(RETRY_PAUSE).await;
                    true
                }
                None => self.until(leader_in).await.is_some(),
            }
        };
        RT::timeout_at(deadline, retry).await.unwrap_or(false) && RT::Instant::now() < deadline
    }

    /// Waits until the local state covers a log entry; `None` if Raft stops first.
    pub(crate) async fn applied(&self, index: u64) -> Option<()> {
        self.progressed(|progress| progress.applied >= Some(index)).await
    }

    /// Waits until the local state has made this much progress; `None` if Raft stops first.
    pub(crate) async fn progressed(&self, there: impl Fn(&Progress) -> bool + Send) -> Option<()> {
        let mut progress = self.shared.progress.watch();
        tokio::select! {
            biased;
            arrived = progress.wait_until(there) => arrived.ok().map(drop),
            () = self.stopped() => None,
        }
    }

    /// Sends a request to another node on behalf of this node's clients.
    pub(crate) async fn call(&self, to: &Target, request: &PeerRequest<RT>) -> Result<PeerReply<RT>, CallError> {
        let request = match wire::encode(request) {
            Ok(request) => request,
            Err(error) => {
                tracing::error!(%error, "cannot encode a request to another node");
                return Err(CallError::NotDelivered(NotProposed::Overloaded));
            }
        };
        let bytes = match self.links.peer.call(to, Lane::Forward, request).await {
            Ok(bytes) => bytes,
            Err(error @ (PeerError::Unreachable(_) | PeerError::Refused(_))) => {
                if let PeerError::Refused(refusal) = &error {
                    self.notice.record_refusal(to.id, refusal, RT::Instant::now());
                }
                return Err(CallError::NotDelivered(NotProposed::NoLeader));
            }
            Err(PeerError::Lost(_)) => return Err(CallError::Lost),
        };
        match wire::decode(&bytes) {
            Ok(PeerReply::Declined(Declined::Busy)) => Err(CallError::NotDelivered(NotProposed::Overloaded)),
            Ok(PeerReply::Declined(declined)) => {
                match &declined {
                    Declined::Refused(refusal) => self.notice.record_refusal(to.id, refusal, RT::Instant::now()),
                    Declined::NotRunning
                    | Declined::NotLeader
                    | Declined::Busy
                    | Declined::Malformed
                    | Declined::OutOfOrder
                    | Declined::TermTooFar { .. } => self.notice.record_answer(to.id),
                }
                Err(CallError::NotDelivered(NotProposed::NoLeader))
            }
            Ok(reply) => {
                self.notice.record_answer(to.id);
                Ok(reply)
            }
            Err(error) => {
                tracing::error!(%error, node = to.id, "cannot decode an answer from another node");
                Err(CallError::Lost)
            }
        }
    }
}

/// The leader and the members, as far as this node knows: the metrics that rarely change.
pub(crate) type ServerMetrics<RT> = RaftServerMetrics<Types<RT>>;

pub(crate) fn leader_in<RT: AsyncRuntime>(metrics: &ServerMetrics<RT>) -> Option<(NodeId, Member)> {
    let id = metrics.current_leader?;
    Some((id, metrics.membership_config.get_node(&id)?.clone()))
}

pub(crate) fn leadership_in<RT: AsyncRuntime>(metrics: &ServerMetrics<RT>) -> Option<Leadership> {
    let leads = metrics.state == ServerState::Leader && metrics.vote.committed && metrics.vote.leader_id.node_id == metrics.id;
    leads.then_some(Leadership(metrics.vote.leader_id))
}

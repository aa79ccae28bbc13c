//! One node's part of the replicated state: proposes, reads, and reports the leader.

use crate::{
    background::snapshots,
    base::{
        error::{FatalReason, FinalizeError, FormationError, HandoverError, NotProposed, ProposeError, ReadError, UnknownReason},
        membership::{MemberChange, MembersView, MembershipError},
        peer::Service,
        types::{Batch, BatchResults, Member, Types},
        upgrade_status::UpgradeStatus,
        wire::{PeerReply, PeerRequest},
    },
    core::{CallError, Core, LeaderRoute, Leadership, handlers::LeaderHandler, leadership_in, status::ReplicaStatus},
    inbound::peer_service::PeerService,
    leadership::{handover, membership_calls, upgrade},
    machine::defect::Defect,
    metrics,
    propose::batcher,
    queues::Queues,
};
use fairhold_metrics::{Histogram, Registry};
use fairhold_state::{
    State,
    command::{AccessGuard, Answer, Command, WriteKey},
};
use fairhold_trace::Tracer;
use fairhold_types::{
    ClusterVersion, NodeId, Revision, Timing, failpoint,
    planted::{self, Bug},
};
use openraft::{
    AsyncRuntime,
    alias::WatchReceiverOf,
    async_runtime::watch::WatchReceiver,
    errors::{ClientWriteError, Fatal, ForwardReason},
    impls::ProgressResponder,
    raft::ClientWriteResult,
};
use std::{fmt, sync::Arc};

pub(crate) type Formation = Option<Result<(), FormationError>>;

/// One node's part of the replicated state. It is a handle: all clones are the same replica.
pub struct Replica<RT: AsyncRuntime> {
    pub(crate) core: Arc<Core<RT>>,
    pub(crate) queues: Queues,
    pub(crate) peer_service: Arc<PeerService<RT>>,
    pub(crate) formation: WatchReceiverOf<Types<RT>, Formation>,
}

impl<RT: AsyncRuntime> Replica<RT> {
    /// The service for the transport's server and client.
    #[must_use]
    pub fn service(&self) -> Arc<dyn Service> {
        self.peer_service.service()
    }

    /// Traces the requests of this node.
    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        &self.core.tracer
    }

    /// Waits until this node is part of a cluster.
    pub async fn formed(&self) -> Result<(), FormationError> {
        let formation = self.formation.clone().wait_until(Option::is_some).await;
        let stopped = || Err(FormationError::Impossible("the node has stopped".to_owned()));
        formation.ok().flatten().unwrap_or_else(stopped)
    }

    /// Handles the messages that nodes send to the leader from now on; `false` if a handler is already set.
    pub fn set_leader_handler(&self, leader_handler: Arc<dyn LeaderHandler>) -> bool {
        self.core.leader_handler.set(leader_handler).is_ok()
    }

    /// Proposes a command in a separate entry, on this node, and only under this leadership: otherwise it is `Deposed`.
    /// `NoLeader` means that the leadership has no majority, or none yet: the caller may retry. It may wait as long as
    /// this node leads without reaching a majority.
    pub async fn propose_alone(&self, command: Command, leadership: Leadership) -> Result<Answer, ProposeError> {
        if failpoint!(RaftProposeAlone, RT).is_err() {
            return Err(NotProposed::NoLeader.into());
        }
        if let Some(answer) = self.core.shared.defect_answer(&command) {
            return Ok(answer);
        }
        let (responder, completed) = ProgressResponder::<Types<RT>, ClientWriteResult<Types<RT>>>::complete_only();
        let batch = Batch::new(vec![command]).map_err(|_| NotProposed::Overloaded)?;
        let write = self.core.raft.write(batch).with_leader(leadership.0).responder(responder);
        if write.await.is_err() {
            return Err(NotProposed::ShuttingDown.into());
        }
        match self.core.until_leader_changes(completed).await {
            Some(Ok(Ok(response))) => {
                let BatchResults { answers, .. } = response.data;
                answers.into_iter().next().ok_or(ProposeError::Unknown(UnknownReason::Deposed))
            }
            Some(Ok(Err(ClientWriteError::ForwardToLeader(forward)))) => Err(match forward.reason {
                ForwardReason::LeaseExpired => NotProposed::NoLeader.into(),
                ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => NotProposed::Deposed.into(),
            }),
            Some(Ok(Err(error))) => Err(batcher::write_error::<RT>(&error)),
            Some(Err(_)) | None => Err(UnknownReason::Deposed.into()),
        }
    }

    /// Once it returns, the local state contains everything that any node acknowledged before the call.
    pub async fn read_barrier(&self, deadline: RT::Instant) -> Result<(), ReadError> {
        if skips_barriers() {
            return Ok(());
        }
        let index = loop {
            match RT::timeout_at(deadline, self.queues.barriers.next(false)).await {
                Ok(Ok(index)) => break index,
                Ok(Err(reason)) if !reason.awaits_leader() => return Err(reason.into()),
                Ok(Err(_)) if self.core.pause(deadline).await => {}
                Ok(Err(_)) | Err(_) => return Err(NotProposed::NoLeader.into()),
            }
        };
        caught_up(RT::timeout_at(deadline, self.core.applied(index)).await)
    }

    /// Waits until this node leads, or the leader has sent it a message within the lease; `false` if the deadline passes or
    /// Raft stops first. A read barrier proves less: it shows that this node reaches the leader.
    pub async fn wait_for_contact(&self, deadline: RT::Instant) -> bool {
        loop {
            if self.core.leadership().is_some() || self.core.hears_from_leader() {
                return true;
            }
            if !self.core.pause(deadline).await {
                return false;
            }
        }
    }

    /// Waits until the local state has reached a revision.
    pub async fn wait_for_revision(&self, revision: Revision, deadline: RT::Instant) -> Result<(), ReadError> {
        caught_up(RT::timeout_at(deadline, self.core.progressed(|progress| progress.revision >= revision)).await)
    }

    /// Hands the leadership to a member, from whichever node leads. After `Ok`, this node's status names the member as
    /// the leader. A key that was used before changes nothing, and any member may lead. The leader compares the guard
    /// with what was revoked in the meantime.
    pub async fn hand_over(
        &self,
        to: NodeId,
        key: Option<WriteKey>,
        guard: Option<AccessGuard>,
        deadline: RT::Instant,
    ) -> Result<(), HandoverError> {
        handover::hand_over(&self.core, &self.queues, to, (key, guard), deadline).await
    }

    /// Whether and how far the cluster is upgraded, as the leader knows it; without a reachable leader, as this node
    /// knows it.
    pub async fn upgrade_status(&self, deadline: RT::Instant) -> UpgradeStatus {
        upgrade::status(&self.core, deadline).await
    }

    /// Raises the cluster's version to the next one, from whichever node leads. If it is `to` already, nothing changes.
    /// The leader compares the guard with what was revoked in the meantime.
    pub async fn finalize_upgrade(
        &self,
        to: ClusterVersion,
        guard: Option<AccessGuard>,
        deadline: RT::Instant,
    ) -> Result<(), FinalizeError> {
        upgrade::finalize(&self.core, &self.queues, to, guard, deadline).await
    }

    /// Changes a member, from whichever node leads. A removal is complete after `Ok`.
    // `Send` is proven here: the compiler cannot prove it for callers that spawn a future with this one in it.
    pub fn change_member(
        &self,
        change: MemberChange,
        deadline: RT::Instant,
    ) -> impl Future<Output = Result<(), MembershipError>> + Send {
        membership_calls::change(&self.core, &self.queues, change, deadline)
    }

    /// The members, the nodes that are joining, and those that were removed, as the leader knows them; without a
    /// reachable leader, as this node knows them.
    pub async fn members_view(&self, deadline: RT::Instant) -> MembersView {
        membership_calls::view(&self.core, &self.queues, deadline).await
    }

    /// Whether the cluster's version allows join tokens, changes of members and timing profiles, as this node knows it.
    pub fn check_membership_version(&self) -> Result<(), MembershipError> {
        membership_calls::check_version(&self.core.shared.read())
    }

    /// The timing profile of the cluster, as this node knows it. A node uses it from its next start on.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.core.shared.read().membership().timing()
    }

    /// If this node leads and there is another voter, hands the leadership to the voter most likely to take it,
    /// preferring one with free disk space, and waits briefly for the result.
    pub async fn transfer_leadership(&self) {
        handover::transfer(&self.core).await;
    }

    /// Takes a snapshot of the current local state, unless there is one, and waits until it is stored. Returns the
    /// index of the last log entry that it covers.
    pub async fn take_snapshot(&self, deadline: RT::Instant) -> Result<u64, ProposeError> {
        snapshots::take_snapshot(&self.core, deadline).await
    }

    /// Reports whether this node's disk is nearly full. While fewer than a majority of the voters answer the leader and
    /// have free space, the leader refuses commands that make the state larger, with `NotProposed::DiskLow`. It still
    /// accepts commands that end or remove something.
    pub fn set_disk_low(&self, low: bool) {
        self.core.disk_room.low.set(low);
    }

    /// Reads the current local state. No change is applied meanwhile: be quick.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.core.shared.read())
    }

    /// A copy of the current local state; it is cheap.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.shared.read().clone()
    }

    /// This node's leadership, if it leads as far as it knows.
    #[must_use]
    pub fn leadership(&self) -> Option<Leadership> {
        self.core.leadership()
    }

    /// Waits until this node's leadership differs from the known one. Once the replica has stopped, it is always
    /// `None`.
    pub async fn leadership_change(&self, known: Option<Leadership>) -> Option<Leadership> {
        let changed = self.core.until(|metrics| {
            let now = leadership_in(metrics);
            (now != known).then_some(now)
        });
        match changed.await {
            Some(now) => now,
            None if known.is_some() => None,
            None => std::future::pending().await,
        }
    }

    /// The leader, as far as this node knows.
    #[must_use]
    pub fn leader(&self) -> Option<(NodeId, Member)> {
        self.core.leader()
    }

    /// Passes the leader's URL for clients to `read`, if this node knows a leader. Be quick: it holds a lock.
    pub fn with_leader_url<T>(&self, read: impl FnOnce(&str) -> T) -> Option<T> {
        self.core.with_server_metrics(|metrics| {
            let id = metrics.current_leader?;
            Some(read(self.core.addresses.url(id, metrics.membership_config.get_node(&id)?)))
        })
    }

    /// A number that is another one after each change of the members or of their addresses: the index of the log entry
    /// with the newest members that this node knows. `None` before the cluster has formed, and once the replica has
    /// stopped.
    #[must_use]
    pub fn members_index(&self) -> Option<u64> {
        self.core.with_server_metrics(|metrics| metrics.membership_config.log_id().as_ref().map(|log_id| log_id.index))
    }

    /// What this node knows about itself and its cluster.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        self.core.status()
    }

    /// The commands at which this node's state machine panicked, oldest first; almost always none.
    #[must_use]
    pub fn defects(&self) -> Vec<Defect> {
        self.core.shared.defects.recorded()
    }

    /// How long entries took from the append to the state machine's answer, on this node as the leader.
    #[must_use]
    pub fn commit_times(&self) -> Histogram {
        self.core.shared.metrics.histograms.commit.clone()
    }

    /// Registers this replica's metrics.
    pub fn register_metrics(&self, registry: &mut Registry) {
        metrics::register(&self.core, registry);
    }

    /// Sends a message to the leader, and waits for its answer; on the leader itself, without the network. It is resent
    /// within the deadline while it definitely did not arrive.
    pub async fn call_leader(&self, request: Vec<u8>, deadline: RT::Instant) -> Result<Vec<u8>, ProposeError> {
        loop {
            match RT::timeout_at(deadline, self.call_leader_once(&request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(CallError::Lost)) => return Err(UnknownReason::ConnectionLost.into()),
                Ok(Err(CallError::NotDelivered(reason))) if !reason.awaits_leader() => return Err(reason.into()),
                Ok(Err(CallError::NotDelivered(_))) if self.core.pause(deadline).await => {}
                Ok(Err(CallError::NotDelivered(_))) => return Err(NotProposed::NoLeader.into()),
                Err(_) => return Err(UnknownReason::Deadline.into()),
            }
        }
    }

    async fn call_leader_once(&self, request: &[u8]) -> Result<Vec<u8>, CallError> {
        if self.core.has_stopped() {
            return Err(CallError::NotDelivered(NotProposed::ShuttingDown));
        }
        match self.core.route() {
            LeaderRoute::Local => match self.core.leader_handler.get() {
                Some(leader_handler) => Ok(leader_handler.handle(request.to_vec(), self.core.id).await),
                None => Err(CallError::NotDelivered(NotProposed::NoLeader)),
            },
            LeaderRoute::Remote(leader) => {
                let request = PeerRequest::CallLeader(request.to_vec());
                match self.core.until_leader_changes(self.core.call(&leader, &request)).await {
                    Some(Ok(PeerReply::LeaderReply(answer))) => Ok(answer),
                    Some(Err(error)) => Err(error),
                    Some(Ok(_)) | None => Err(CallError::Lost),
                }
            }
            LeaderRoute::Unknown => Err(CallError::NotDelivered(NotProposed::NoLeader)),
        }
    }

    /// Stops taking part. First answers whatever is in flight, if necessary with an unknown outcome.
    pub async fn shutdown(&self) {
        self.core.stop().await;
    }

    /// Whether the replica has stopped, for any reason.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.core.has_stopped()
    }

    /// Resolves when the replica has stopped, and returns why. Unless the node was shut down, the process must end.
    pub async fn stopped(&self) -> FatalReason {
        let refused = async {
            match self.formed().await {
                Err(error) => FatalReason::Formation(error),
                Ok(()) => std::future::pending().await,
            }
        };
        let stopped = async {
            self.core.stopped().await;
            if let Some(lost) = self.core.lost.get() {
                return FatalReason::LostEntries(lost.clone());
            }
            if let Some(reason) = self.core.notice.reason() {
                return reason;
            }
            match self.core.with_metrics(|metrics| metrics.running_state.clone().err()) {
                Some(Fatal::Stopped) | None => FatalReason::Stopped,
                Some(error @ (Fatal::StorageError(_) | Fatal::Panicked)) => {
                    self.core.shared.failure.get().cloned().unwrap_or_else(|| FatalReason::Failed(error.to_string()))
                }
            }
        };
        tokio::select! {
            biased;
            reason = stopped => reason,
            reason = refused => reason,
        }
    }
}

fn caught_up<E>(waited: Result<Option<()>, E>) -> Result<(), ReadError> {
    match waited {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(NotProposed::ShuttingDown.into()),
        Err(_) => Err(ReadError::Deadline),
    }
}

impl<RT: AsyncRuntime> Clone for Replica<RT> {
    fn clone(&self) -> Self {
        Replica {
            core: self.core.clone(),
            queues: self.queues.clone(),
            peer_service: self.peer_service.clone(),
            formation: self.formation.clone(),
        }
    }
}

impl<RT: AsyncRuntime> fmt::Debug for Replica<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = self.core.shared.progress.get();
        f.debug_struct("Replica").field("id", &self.core.id).field("progress", &progress).finish_non_exhaustive()
    }
}

/// Whether reads skip the barrier, as a planted bug does.
fn skips_barriers() -> bool {
    planted::has(Bug::ReadsWithoutBarrier)
}

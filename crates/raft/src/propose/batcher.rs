//! Hands over batches of commands: into a log entry on the leader, into one request to the leader elsewhere.

use crate::{
    base::{
        error::{NotProposed, ProposeError, UnknownReason},
        peer::Target,
        types::{Batch, Types},
        wire::{PeerReply, PeerRequest, TracedCommand},
    },
    core::{CallError, Core, LeaderRoute, snapshot_schedule::LogRoom},
    propose::{
        priority::needs_room,
        queue::{Proposal, ProposalReceiver},
        times::{Answered, HandOver, ProposalOutcome},
    },
};
use fairhold_state::command::Command;
use fairhold_types::{cluster_version::TRACE_SINCE, duration, failpoint};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use openraft::{AsyncRuntime, errors::ClientWriteError, impls::ProgressResponder, raft::ClientWriteResult};
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum number of entries, or of batches to the leader, in flight. A higher limit made the slowest answers slower
/// and nothing faster. A batch that was handed to an earlier leader does not count.
const BATCHES_IN_FLIGHT: usize = 2;
/// Time limit for a batch sent to the leader. Callers have their own deadlines; this limit frees the slot in flight.
const FORWARD_LIMIT: Duration = Duration::from_secs(10);

/// A place among the batches in flight.
type Slot = OwnedSemaphorePermit;

/// Runs until Raft stops. Commands that still wait at that time are definitely not proposed.
pub(crate) async fn run<RT: AsyncRuntime>(mut batcher: ProposalReceiver, core: Arc<Core<RT>>) {
    let mut in_flight: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    let slots = Arc::new(Semaphore::new(BATCHES_IN_FLIGHT));
    let mut stopped = std::pin::pin!(core.stopped());
    let mut last_batch = 0;
    // The first command of a batch that lingers, and the batch's slot.
    let mut lingering: Option<(Proposal, Slot)> = None;
    let linger = Arc::clone(&batcher.linger);
    let mut gathered = std::pin::pin!(linger.wait_for::<RT>(0));
    loop {
        let (batch, slot) = tokio::select! {
            biased;
            () = &mut stopped => break,
            Some(()) = in_flight.next(), if !in_flight.is_empty() => continue,
            () = &mut gathered, if lingering.is_some() => match lingering.take() {
                Some((first, slot)) => (batcher.gather(first), slot),
                None => continue,
            },
            Some((first, slot)) = first_with_slot(&mut batcher, &slots), if lingering.is_none() => {
                if let Some(target) = linger.target(last_batch) {
                    lingering = Some((first, slot));
                    gathered.set(linger.wait_for::<RT>(target));
                    continue;
                }
                (batcher.gather(first), slot)
            }
        };
        last_batch = batch.len();
        if !batch.is_empty() {
            core.shared.metrics.histograms.batch.observe_size(batch.len());
            in_flight.push(hand_over(core.clone(), batch, slot).boxed());
        }
    }
    if let Some((first, _)) = lingering {
        first.resolve(Err(NotProposed::ShuttingDown.into()));
    }
    batcher.close();
    while let Some(proposal) = batcher.first().await {
        proposal.resolve(Err(NotProposed::ShuttingDown.into()));
    }
    // Raft has dropped the batches in flight, or the leader answers them: either way each caller gets an outcome.
    while let Some(()) = in_flight.next().await {}
}

/// Waits for a slot, then for a command.
async fn first_with_slot(batcher: &mut ProposalReceiver, slots: &Arc<Semaphore>) -> Option<(Proposal, Slot)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    Some((batcher.first().await?, slot))
}

/// Hands a batch to the leader, and answers each caller. Gives the slot back when that is done, or when another node
/// leads: an answer may still be on the way then, and other commands do not wait for it.
async fn hand_over<RT: AsyncRuntime>(core: Arc<Core<RT>>, batch: Vec<Proposal>, slot: Slot) {
    match core.route() {
        LeaderRoute::Local => {
            let ready = if core.shared.read().cluster().is_some() {
                batch
            } else {
                // Until the cluster has an id here, only the command that gives it one may enter the log. After a start the
                // id may be in the log and not applied yet; the callers retry.
                refuse(batch, NotProposed::NoLeader, |proposal| !proposal.command.forms_cluster())
            };
            let ready = refuse_without_space(&core, ready);
            let ready = refuse_defects(&core, ready);
            if !ready.is_empty() {
                write(&core, ready, slot).await;
            }
        }
        LeaderRoute::Remote(leader) => {
            let own = refuse(batch, NotProposed::NoLeader, |proposal| proposal.forwarded);
            if !own.is_empty() {
                forward(&core, &leader, own, slot).await;
            }
        }
        LeaderRoute::Unknown => drop(refuse(batch, NotProposed::NoLeader, |_| true)),
    }
}

/// Refuses commands that need disk space while too few nodes have it, and large commands while the log grows faster
/// than snapshots free it; returns the others.
fn refuse_without_space<RT: AsyncRuntime>(core: &Core<RT>, batch: Vec<Proposal>) -> Vec<Proposal> {
    let disks_short = core.too_few_disks_have_room();
    let log_room = core.log_room();
    if !disks_short && log_room == LogRoom::All {
        return batch;
    }
    let reason = if disks_short { NotProposed::DiskLow } else { NotProposed::Overloaded };
    refuse(batch, reason, |proposal| {
        needs_room(&proposal.command, proposal.bytes) && (disks_short || !log_room.accepts(proposal.bytes))
    })
}

/// Answers the commands at which the state machine is known to panic; returns the others.
fn refuse_defects<RT: AsyncRuntime>(core: &Core<RT>, batch: Vec<Proposal>) -> Vec<Proposal> {
    if !core.shared.defects.has_skipped() {
        return batch;
    }
    answer_some(batch, |proposal| core.shared.defect_answer(&proposal.command).map(Ok))
}

/// Appends one entry with all commands, and answers each caller.
async fn write<RT: AsyncRuntime>(core: &Core<RT>, batch: Vec<Proposal>, slot: Slot) {
    let (commands, callers) = split::<RT>(batch, false);
    if failpoint!(RaftProposeWrite, RT).is_err() {
        return callers.answer_all(Err(NotProposed::Overloaded.into()));
    }
    let (responder, completed) = ProgressResponder::<Types<RT>, ClientWriteResult<Types<RT>>>::complete_only();
    // The queues' limits keep a batch far below the largest size.
    let Ok(batch) = Batch::new(commands) else {
        return callers.answer_all(Err(NotProposed::Overloaded.into()));
    };
    if core.raft.client_write_ff(batch, Some(responder)).await.is_err() {
        return callers.answer_all(Err(NotProposed::ShuttingDown.into()));
    }
    match core.until_leader_changes_and(completed, || drop(slot)).await {
        Some(Ok(Ok(_))) if failpoint!(RaftProposeDone, RT).is_err() => callers.answer_all(Err(UnknownReason::Deposed.into())),
        Some(Ok(Ok(response))) => {
            core.shared.metrics.histograms.commit.observe((callers.handed_over.elapsed)());
            let results = response.data;
            debug_assert_eq!(callers.answers.len(), results.answers.len(), "each command has an answer");
            callers.answer_each(results.answers.into_iter().map(Ok), results.took);
        }
        Some(Ok(Err(error))) => callers.answer_all(Err(write_error(&error))),
        // Raft stopped, or another node leads and the fate of the entry is unknown.
        Some(Err(_)) | None => callers.answer_all(Err(UnknownReason::Deposed.into())),
    }
}

/// The error for the commands of an entry that failed.
pub(crate) fn write_error<RT: AsyncRuntime>(error: &ClientWriteError<Types<RT>>) -> ProposeError {
    match error {
        // The entry was in the log when another leader's log replaced it; another copy of it may have been committed.
        ClientWriteError::LogEntryDiscarded(_) => UnknownReason::Deposed.into(),
        ClientWriteError::ForwardToLeader(_)
        | ClientWriteError::ChangeMembershipError(_)
        | ClientWriteError::PreconditionFailed(_) => NotProposed::NoLeader.into(),
    }
}

/// Forwards commands to the leader, which batches them with its own.
async fn forward<RT: AsyncRuntime>(core: &Core<RT>, leader: &Target, batch: Vec<Proposal>, slot: Slot) {
    let traced = traced_in(&batch);
    let (commands, callers) = split::<RT>(batch, true);
    if failpoint!(RaftProposeForward, RT).is_err() {
        return callers.answer_all(Err(NotProposed::NoLeader.into()));
    }
    let count = commands.len();
    let within_ms = duration::millis(FORWARD_LIMIT);
    let request = if traced.is_empty() || core.shared.read().cluster_version() < TRACE_SINCE {
        PeerRequest::Propose { commands, within_ms }
    } else {
        PeerRequest::ProposeTraced { commands, within_ms, traced }
    };
    let answered = RT::timeout(FORWARD_LIMIT, core.call(leader, &request));
    let outcomes = match core.until_leader_changes_and(answered, || drop(slot)).await {
        Some(Ok(Ok(PeerReply::Proposed(outcomes)))) if outcomes.len() == count => Ok(outcomes),
        Some(Ok(Err(CallError::NotDelivered(reason)))) => Err(reason.into()),
        Some(Ok(Ok(_) | Err(CallError::Lost))) => Err(UnknownReason::ConnectionLost.into()),
        Some(Err(_)) => Err(UnknownReason::Deadline.into()),
        None => Err(UnknownReason::Deposed.into()),
    };
    match outcomes {
        Ok(outcomes) => callers.answer_each(outcomes, Duration::ZERO),
        Err(error) => callers.answer_all(Err(error)),
    }
}

/// The callers of a batch that was handed over.
struct Callers {
    answers: Vec<oneshot::Sender<Answered>>,
    handed_over: HandOver,
}

impl Callers {
    fn answer_all(self, outcome: ProposalOutcome) {
        let times = self.handed_over.times(Duration::ZERO);
        for caller in self.answers {
            caller.send(Answered { outcome: outcome.clone(), times }).ok();
        }
    }

    /// Answers each caller. This node has applied the batch for this long.
    fn answer_each(self, outcomes: impl IntoIterator<Item = ProposalOutcome>, applied: Duration) {
        let times = self.handed_over.times(applied);
        for (caller, outcome) in self.answers.into_iter().zip(outcomes) {
            caller.send(Answered { outcome, times }).ok();
        }
    }
}

/// The commands of a batch that is handed over now, and their callers.
fn split<RT: AsyncRuntime>(batch: Vec<Proposal>, is_forwarded: bool) -> (Vec<Command>, Callers) {
    let handed_over = HandOver::now::<RT::Instant>(is_forwarded);
    let (commands, answers) = batch.into_iter().map(|proposal| proposal.hand_over(&handed_over)).unzip();
    (commands, Callers { answers, handed_over })
}

/// The commands of a batch whose requests are traced.
fn traced_in(batch: &[Proposal]) -> Vec<TracedCommand> {
    let traced = (0..).zip(batch).filter_map(|(index, proposal)| Some(TracedCommand { index, context: proposal.trace? }));
    traced.collect()
}

/// Refuses some commands for this reason; returns the others.
fn refuse(batch: Vec<Proposal>, reason: NotProposed, is_refused: impl Fn(&Proposal) -> bool) -> Vec<Proposal> {
    answer_some(batch, |proposal| is_refused(proposal).then(|| Err(reason.into())))
}

/// Answers the commands whose outcome is known early; returns the others.
fn answer_some(batch: Vec<Proposal>, early: impl Fn(&Proposal) -> Option<ProposalOutcome>) -> Vec<Proposal> {
    let unanswered = |proposal: Proposal| match early(&proposal) {
        Some(outcome) => {
            proposal.resolve(outcome);
            None
        }
        None => Some(proposal),
    };
    batch.into_iter().filter_map(unanswered).collect()
}

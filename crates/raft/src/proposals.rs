//! Gathers commands into log entries: many in one entry while others are in flight. Where many come at a time, a moment is
//! waited for them (`company`).
//!
//! On a follower the same queue gathers what is passed on to the leader. Each command keeps its own answer, and until it is
//! handed over its caller can still take it back: so a deadline in the queue is "surely not proposed".
//!
//! There are two queues. What ends something or keeps it alive goes before what begins or writes something, and has room of its
//! own: a flood of writes holds up no release.

use crate::{
    company::Company,
    core::{CallError, Core, Route},
    disk_room,
    error::{NotProposed, ProposeError, UnknownReason},
    peer::Target,
    rank::{goes_first, needs_room},
    snapshot_schedule::LogRoom,
    types::{Answers, Batch, Types},
    wire::{Reply, Request},
};
use fairhold_state::command::{Answer, Command};
use fairhold_types::failpoint;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use openraft::{AsyncRuntime, Instant, errors::ClientWriteError, impls::ProgressResponder, raft::ClientWriteResult};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Entries, or batches to the leader, in flight at a time. More made the slowest answers slower and nothing faster.
const BATCHES_IN_FLIGHT: usize = 2;
/// Commands of one entry.
const BATCH_COMMANDS_MAX: usize = 1_024;
/// Bytes of an entry's commands, above which no further one is added.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// Of an entry's commands, those that may go before others: what goes first must not shut out the rest.
const BATCH_URGENT_MAX: usize = BATCH_COMMANDS_MAX / 4 * 3;
/// Commands that wait in each of the two queues to be proposed on one node.
const QUEUE_COMMANDS_MAX: usize = 16_384;

pub(crate) type Outcome = Result<Answer, ProposeError>;

const WAITING: u8 = 0;
const HANDED_OVER: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Whether a command was handed over already, which its caller and the batcher decide between them.
#[derive(Debug, Default)]
struct Ticket(AtomicU8);

impl Ticket {
    fn settle(&self, state: u8) -> bool {
        self.0.compare_exchange(WAITING, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A command in the queue.
struct Proposal {
    command: Command,
    bytes: usize,
    /// Came from another node: it is not passed on once more.
    forwarded: bool,
    ticket: Arc<Ticket>,
    answer: oneshot::Sender<Outcome>,
}

impl Proposal {
    fn resolve(self, outcome: Outcome) {
        // A caller that went away wants no answer.
        self.answer.send(outcome).ok();
    }
}

/// The queues' entrance.
pub(crate) struct ProposalQueue {
    urgent: mpsc::Sender<Proposal>,
    ordinary: mpsc::Sender<Proposal>,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    company: Arc<Company>,
}

/// The queues' exit.
pub(crate) struct ProposalOutlet {
    urgent: mpsc::Receiver<Proposal>,
    ordinary: mpsc::Receiver<Proposal>,
    bytes: Arc<AtomicUsize>,
    company: Arc<Company>,
}

/// A command that was submitted. Dropping it takes the command back, if it was not handed over yet.
pub(crate) struct Submitted {
    ticket: Arc<Ticket>,
    answer: oneshot::Receiver<Outcome>,
}

/// Takes at most this many bytes of commands. Urgent commands are small, so this limit does not apply to them.
pub(crate) fn queue(bytes_max: usize) -> (ProposalQueue, ProposalOutlet) {
    let (first, urgent) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let (second, ordinary) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    let company = Arc::new(Company::default());
    let queue = ProposalQueue { urgent: first, ordinary: second, bytes: bytes.clone(), bytes_max, company: company.clone() };
    (queue, ProposalOutlet { urgent, ordinary, bytes, company })
}

impl ProposalQueue {
    pub(crate) fn submit(&self, command: Command, forwarded: bool) -> Result<Submitted, NotProposed> {
        let bytes = command.size();
        let (ticket, (answer, receiver)) = (Arc::new(Ticket::default()), oneshot::channel());
        let urgent = goes_first(&command);
        // The count may pass the bound by what others add at the same time, which is harmless.
        if !urgent && self.bytes.load(Ordering::Relaxed) >= self.bytes_max {
            return Err(NotProposed::Overloaded);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let proposal = Proposal { command, bytes, forwarded, ticket: ticket.clone(), answer };
        let queue = if urgent { &self.urgent } else { &self.ordinary };
        self.company.came();
        queue.try_send(proposal).map_err(|error| {
            self.company.left();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            match error {
                mpsc::error::TrySendError::Full(_) => NotProposed::Overloaded,
                mpsc::error::TrySendError::Closed(_) => NotProposed::ShuttingDown,
            }
        })?;
        Ok(Submitted { ticket, answer: receiver })
    }
}

impl Submitted {
    /// Waits for what becomes of the command.
    pub(crate) async fn outcome<RT: AsyncRuntime>(mut self, deadline: RT::Instant) -> Outcome {
        let (answered, not_handed_over, handed_over) = match RT::timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(_)) => (None, NotProposed::ShuttingDown, UnknownReason::Deposed),
            // The answer may have come at the last moment.
            Err(_) => (self.answer.try_recv().ok(), NotProposed::NoLeader, UnknownReason::Deadline),
        };
        match answered {
            Some(outcome) => outcome,
            None if self.ticket.settle(WITHDRAWN) => Err(not_handed_over.into()),
            None => Err(handed_over.into()),
        }
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.ticket.settle(WITHDRAWN);
    }
}

impl ProposalOutlet {
    /// Waits for a command.
    async fn first(&mut self) -> Option<Proposal> {
        tokio::select! {
            biased;
            Some(urgent) = self.urgent.recv() => Some(urgent),
            Some(ordinary) = self.ordinary.recv() => Some(ordinary),
            else => None,
        }
    }

    /// The next one without waiting, if the batch has `gathered` already: the urgent ones first, up to their share.
    fn next(&mut self, gathered: usize) -> Option<Proposal> {
        let urgent = if gathered < BATCH_URGENT_MAX { self.urgent.try_recv().ok() } else { None };
        urgent.or_else(|| self.ordinary.try_recv().ok())
    }

    /// Takes what waits, as much as fits into one batch, without waiting for more.
    fn gather(&mut self, first: Proposal) -> Vec<Proposal> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(proposal) = next {
            self.bytes.fetch_sub(proposal.bytes, Ordering::Relaxed);
            self.company.left();
            if proposal.ticket.settle(HANDED_OVER) {
                bytes += proposal.bytes;
                batch.push(proposal);
            }
            let full = batch.len() >= BATCH_COMMANDS_MAX || bytes >= BATCH_BYTES_MAX;
            next = if full { None } else { self.next(batch.len()) };
        }
        batch
    }

    /// Runs until Raft stops; then everything that waits is surely not proposed.
    pub(crate) async fn run<RT: AsyncRuntime>(mut self, core: Arc<Core<RT>>) {
        let mut in_flight: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let mut stopped = std::pin::pin!(core.stopped());
        // How many came together the last time; and the first of a batch that waits for company.
        let (mut together, mut begun) = (0, None);
        let company = Arc::clone(&self.company);
        let mut gathered = std::pin::pin!(company.gathers::<RT>(0));
        loop {
            let batch = tokio::select! {
                biased;
                () = &mut stopped => break,
                Some(()) = in_flight.next(), if !in_flight.is_empty() => continue,
                () = &mut gathered, if begun.is_some() => match begun.take() {
                    Some(first) => self.gather(first),
                    None => continue,
                },
                Some(first) = self.first(), if begun.is_none() && in_flight.len() < BATCHES_IN_FLIGHT => {
                    if let Some(wanted) = company.wanted_after(together) {
                        begun = Some(first);
                        gathered.set(company.gathers::<RT>(wanted));
                        continue;
                    }
                    self.gather(first)
                }
            };
            together = batch.len();
            if !batch.is_empty() {
                core.shared.metrics.batch.observe_size(batch.len());
                in_flight.push(hand_over(core.clone(), batch).boxed());
            }
        }
        if let Some(first) = begun {
            first.resolve(Err(NotProposed::ShuttingDown.into()));
        }
        self.urgent.close();
        self.ordinary.close();
        while let Some(proposal) = self.first().await {
            proposal.resolve(Err(NotProposed::ShuttingDown.into()));
        }
        // Raft has dropped what was in flight, or the leader answers it; either way each caller is told.
        while let Some(()) = in_flight.next().await {}
    }
}

async fn hand_over<RT: AsyncRuntime>(core: Arc<Core<RT>>, batch: Vec<Proposal>) {
    match core.route() {
        Route::Here => {
            let (ready, early) = if core.shared.read().cluster().is_some() {
                (batch, Vec::new())
            } else {
                // Naming the cluster is its first change. This state may also just be behind the log, after a start.
                batch.into_iter().partition(|proposal| matches!(proposal.command, Command::FormCluster { .. }))
            };
            fail_all(early, NotProposed::NoLeader.into());
            let ready = refuse_for_room(&core, ready);
            let ready = refuse_defects(&core, ready);
            if !ready.is_empty() {
                write(&core, ready).await;
            }
        }
        Route::There(leader) => {
            let (forwarded, own): (Vec<_>, Vec<_>) = batch.into_iter().partition(|proposal| proposal.forwarded);
            fail_all(forwarded, NotProposed::NoLeader.into());
            if !own.is_empty() {
                forward(&core, &leader, own).await;
            }
        }
        Route::Unknown => fail_all(batch, NotProposed::NoLeader.into()),
    }
}

/// Refuses commands that need space while too few disks have it, and large commands while the log grows faster than snapshots
/// free it; returns the others.
fn refuse_for_room<RT: AsyncRuntime>(core: &Core<RT>, batch: Vec<Proposal>) -> Vec<Proposal> {
    let (disks_short, log_room) = (disk_room::is_short(core), LogRoom::of(core));
    if !disks_short && log_room == LogRoom::All {
        return batch;
    }
    let refusal = |proposal: &Proposal| {
        if !needs_room(&proposal.command, proposal.bytes) {
            None
        } else if disks_short {
            Some(NotProposed::DiskLow)
        } else {
            (!log_room.takes(proposal.bytes)).then_some(NotProposed::Overloaded)
        }
    };
    let mut others = Vec::with_capacity(batch.len());
    for proposal in batch {
        match refusal(&proposal) {
            Some(reason) => proposal.resolve(Err(reason.into())),
            None => others.push(proposal),
        }
    }
    others
}

/// Answers those of which it is known that the machine panics at them; gives the others.
fn refuse_defects<RT: AsyncRuntime>(core: &Core<RT>, batch: Vec<Proposal>) -> Vec<Proposal> {
    if !core.shared.defects.has_left_out() {
        return batch;
    }
    let (others, refused): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|proposal| (core.shared.defects.refuses(&proposal.command), proposal))
        .partition(|(fingerprint, _)| fingerprint.is_none());
    for (fingerprint, proposal) in refused {
        proposal.resolve(Ok(core.shared.defect_answer(fingerprint.unwrap_or_default())));
    }
    others.into_iter().map(|(_, proposal)| proposal).collect()
}

/// Appends one entry with all commands, and gives each its answer.
async fn write<RT: AsyncRuntime>(core: &Core<RT>, batch: Vec<Proposal>) {
    let (commands, callers) = split(batch);
    let begun = RT::Instant::now();
    if failpoint!(RaftProposeWrite, RT).is_err() {
        return tell_all(callers, Err(NotProposed::Overloaded.into()));
    }
    let (responder, completed) = ProgressResponder::<Types<RT>, ClientWriteResult<Types<RT>>>::complete_only();
    if core.raft.client_write_ff(Batch(commands), Some(responder)).await.is_err() {
        return tell_all(callers, Err(NotProposed::ShuttingDown.into()));
    }
    match core.while_led(completed).await {
        Some(Ok(Ok(_))) if failpoint!(RaftProposeDone, RT).is_err() => tell_all(callers, Err(UnknownReason::Deposed.into())),
        Some(Ok(Ok(response))) => {
            core.shared.metrics.commit.observe(begun.elapsed());
            tell_each(callers, response.data);
        }
        Some(Ok(Err(error))) => tell_all(callers, Err(write_error(&error))),
        // Raft stopped, or another node leads and this one was never told what became of the entry.
        Some(Err(_)) | None => tell_all(callers, Err(UnknownReason::Deposed.into())),
    }
}

/// What an entry's failure says about its commands.
pub(crate) fn write_error<RT: AsyncRuntime>(error: &ClientWriteError<Types<RT>>) -> ProposeError {
    match error {
        // It was in the log when another leader's log took its place; another copy of it may have been committed.
        ClientWriteError::LogEntryDiscarded(_) => UnknownReason::Deposed.into(),
        ClientWriteError::ForwardToLeader(_)
        | ClientWriteError::ChangeMembershipError(_)
        | ClientWriteError::PreconditionFailed(_) => NotProposed::NoLeader.into(),
    }
}

/// Passes commands on to the leader, which gathers them with its own.
async fn forward<RT: AsyncRuntime>(core: &Core<RT>, leader: &Target, batch: Vec<Proposal>) {
    let (commands, callers) = split(batch);
    if failpoint!(RaftProposeForward, RT).is_err() {
        return tell_all(callers, Err(NotProposed::NoLeader.into()));
    }
    let count = commands.len();
    let request = Request::Propose { commands, within_ms: millis(FORWARD_LIMIT) };
    let outcomes = match core.while_led(RT::timeout(FORWARD_LIMIT, core.ask(leader, &request))).await {
        Some(Ok(Ok(Reply::Proposed(outcomes)))) if outcomes.len() == count => Ok(outcomes),
        Some(Ok(Err(CallError::NotDelivered(reason)))) => Err(reason.into()),
        Some(Ok(Ok(_) | Err(CallError::Lost))) => Err(UnknownReason::ConnectionLost.into()),
        Some(Err(_)) => Err(UnknownReason::Deadline.into()),
        None => Err(UnknownReason::Deposed.into()),
    };
    match outcomes {
        Ok(outcomes) => callers.into_iter().zip(outcomes).for_each(|(caller, outcome)| drop(caller.send(outcome))),
        Err(error) => tell_all(callers, Err(error)),
    }
}

/// How long a batch may be under way to the leader. Callers have deadlines of their own; this one frees the place in flight.
const FORWARD_LIMIT: Duration = Duration::from_secs(10);

type Caller = oneshot::Sender<Outcome>;

fn split(batch: Vec<Proposal>) -> (Vec<Command>, Vec<Caller>) {
    batch.into_iter().map(|proposal| (proposal.command, proposal.answer)).unzip()
}

fn fail_all(batch: Vec<Proposal>, error: ProposeError) {
    for proposal in batch {
        proposal.resolve(Err(error.clone()));
    }
}

fn tell_all(callers: Vec<Caller>, outcome: Outcome) {
    for caller in callers {
        caller.send(outcome.clone()).ok();
    }
}

fn tell_each(callers: Vec<Caller>, Answers(answers): Answers) {
    debug_assert_eq!(callers.len(), answers.len(), "the machine answers each command");
    for (caller, answer) in callers.into_iter().zip(answers) {
        caller.send(Ok(answer)).ok();
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

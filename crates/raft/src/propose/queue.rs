//! The queues of commands that wait to be proposed. Commands that wait while others are in flight share a log entry; if
//! many arrive at a time, a batch lingers for more (`linger`).
//!
//! On a follower the same queues gather the commands to forward to the leader. Each command keeps its own answer, and
//! its caller can withdraw it until it is handed over: so a deadline that passes in the queue means "definitely not
//! proposed".
//!
//! There are two queues, each with its own capacity. Commands that end something or keep it alive precede commands that
//! begin or write something: a flood of writes delays no release. The latter wait in lanes that take turns, so that a flood
//! of one tenant hardly delays another (`lanes`).

use crate::{
    base::error::{NotProposed, UnknownReason},
    propose::{
        lanes::{Lane, Lanes},
        linger::BatchLinger,
        priority::is_urgent,
        times::{Answered, HandOver, ProposalOutcome, ProposalTimes},
    },
};
use fairhold_state::command::Command;
use fairhold_types::trace_context::TraceContext;
use openraft::AsyncRuntime;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, mpsc, oneshot};

/// Maximum number of commands in one entry.
const BATCH_COMMANDS_MAX: usize = 1_024;
/// Bytes of an entry's commands above which no more are added.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// Maximum number of urgent commands in one entry: they must not starve the others.
const BATCH_URGENT_MAX: usize = BATCH_COMMANDS_MAX / 4 * 3;
/// Maximum number of commands in each of the two queues of a node.
const QUEUE_COMMANDS_MAX: usize = 16_384;

/// A command in the queue.
pub(crate) struct Proposal {
    pub(crate) command: Command,
    pub(crate) bytes: usize,
    /// Forwarded by another node: it is not forwarded again.
    pub(crate) forwarded: bool,
    /// The span of its work at another node, if its request is traced.
    pub(crate) trace: Option<TraceContext>,
    progress: Arc<CommandProgress>,
    answer: oneshot::Sender<Answered>,
}

/// What the caller of a command and the batcher share.
#[derive(Default)]
struct CommandProgress {
    /// Whether the command is settled: its caller has withdrawn it, or the batcher hands it over. Each of them swaps `true` in;
    /// the first finds `false`, and decides.
    settled: AtomicBool,
    /// Set once the batcher has handed it over.
    handed_over: OnceLock<HandOver>,
}

impl Proposal {
    /// It is handed over as a part of this batch. Returns the command, and where its answer goes.
    pub(crate) fn hand_over(self, batch: &HandOver) -> (Command, oneshot::Sender<Answered>) {
        self.progress.handed_over.get_or_init(|| batch.clone());
        (self.command, self.answer)
    }

    pub(crate) fn resolve(self, outcome: ProposalOutcome) {
        // The caller may be gone; then the answer is dropped.
        self.answer.send(outcome.into()).ok();
    }

    /// Refuses a command that has lost its place in the queue, unless its caller has withdrawn it.
    fn lose_place(self) {
        if !self.progress.settled.swap(true, Ordering::AcqRel) {
            self.resolve(Err(NotProposed::Overloaded.into()));
        }
    }
}

/// The queue of the commands that are not urgent.
#[derive(Default)]
struct OrdinaryQueue {
    /// Consistent after every statement that can panic.
    waiting: Mutex<OrdinaryCommands>,
    pushed: Notify,
}

#[derive(Default)]
struct OrdinaryCommands {
    lanes: Lanes<Proposal>,
    is_closed: bool,
}

impl OrdinaryQueue {
    fn pop(&self) -> Option<Proposal> {
        self.waiting.lock().lanes.pop()
    }
}

/// The sending side of the queues.
#[derive(Clone)]
pub(crate) struct ProposalQueue {
    urgent: mpsc::Sender<Proposal>,
    ordinary: Arc<OrdinaryQueue>,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    linger: Arc<BatchLinger>,
}

/// The receiving side of the queues.
pub(crate) struct ProposalReceiver {
    urgent: mpsc::Receiver<Proposal>,
    ordinary: Arc<OrdinaryQueue>,
    bytes: Arc<AtomicUsize>,
    pub(crate) linger: Arc<BatchLinger>,
}

/// A submitted command. Dropping it withdraws the command, if it was not handed over yet.
pub(crate) struct SubmittedCommand {
    progress: Arc<CommandProgress>,
    answer: oneshot::Receiver<Answered>,
}

/// Creates the queues. They hold at most `bytes_max` bytes of commands. Urgent commands are small, so this limit does
/// not apply to them.
pub(crate) fn new(bytes_max: usize) -> (ProposalQueue, ProposalReceiver) {
    let (urgent_sender, urgent) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let ordinary = Arc::new(OrdinaryQueue::default());
    let bytes = Arc::new(AtomicUsize::new(0));
    let linger = Arc::new(BatchLinger::default());
    let queue = ProposalQueue {
        urgent: urgent_sender,
        ordinary: Arc::clone(&ordinary),
        bytes: bytes.clone(),
        bytes_max,
        linger: linger.clone(),
    };
    (queue, ProposalReceiver { urgent, ordinary, bytes, linger })
}

impl ProposalQueue {
    /// Submits a command of this node itself, or of a caller without a tenant.
    pub(crate) fn submit(&self, command: Command, forwarded: bool) -> Result<SubmittedCommand, NotProposed> {
        self.submit_in(Lane::Own(None), command, forwarded)
    }

    /// Submits a command, which waits in this lane unless it is urgent.
    pub(crate) fn submit_in(&self, lane: Lane, command: Command, forwarded: bool) -> Result<SubmittedCommand, NotProposed> {
        self.submit_traced(lane, command, forwarded, None)
    }

    /// The same for a command whose work at another node is this span.
    pub(crate) fn submit_traced(
        &self,
        lane: Lane,
        command: Command,
        forwarded: bool,
        trace: Option<TraceContext>,
    ) -> Result<SubmittedCommand, NotProposed> {
        let bytes = command.size();
        let progress = Arc::new(CommandProgress::default());
        let (answer, receiver) = oneshot::channel();
        let urgent = is_urgent(&command);
        let proposal = Proposal { command, bytes, forwarded, trace, progress: Arc::clone(&progress), answer };
        if urgent {
            self.submit_urgent(proposal)?
        } else {
            self.submit_ordinary(lane, proposal)?
        }
        Ok(SubmittedCommand { progress, answer: receiver })
    }

    fn submit_urgent(&self, proposal: Proposal) -> Result<(), NotProposed> {
        let bytes = proposal.bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.linger.enqueued();
        self.urgent.try_send(proposal).map_err(|error| {
            self.linger.dequeued();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            match error {
                mpsc::error::TrySendError::Full(_) => NotProposed::Overloaded,
                mpsc::error::TrySendError::Closed(_) => NotProposed::ShuttingDown,
            }
        })
    }

    fn submit_ordinary(&self, lane: Lane, proposal: Proposal) -> Result<(), NotProposed> {
        let bytes = proposal.bytes;
        let mut waiting = self.ordinary.waiting.lock();
        if waiting.is_closed {
            return Err(NotProposed::ShuttingDown);
        }
        // A large command may take the room of many small ones.
        let mut evicted = Vec::new();
        while self.is_full(&waiting.lanes)
            && let Some(newest) = waiting.lanes.make_room_for(lane, bytes)
        {
            self.bytes.fetch_sub(newest.bytes, Ordering::Relaxed);
            self.linger.dequeued();
            evicted.push(newest);
        }
        let submitted = if self.is_full(&waiting.lanes) {
            Err(NotProposed::Overloaded)
        } else {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.linger.enqueued();
            waiting.lanes.push(lane, bytes, proposal);
            Ok(())
        };
        drop(waiting);
        evicted.into_iter().for_each(Proposal::lose_place);
        if submitted.is_ok() {
            self.ordinary.pushed.notify_one();
        }
        submitted
    }

    fn is_full(&self, lanes: &Lanes<Proposal>) -> bool {
        lanes.len() >= QUEUE_COMMANDS_MAX || self.bytes.load(Ordering::Relaxed) >= self.bytes_max
    }
}

impl SubmittedCommand {
    /// Waits for the outcome of the command.
    pub(crate) async fn outcome<RT: AsyncRuntime>(mut self, deadline: RT::Instant) -> ProposalOutcome {
        self.answered::<RT>(deadline).await.outcome
    }

    /// The same, with the time that it took.
    pub(crate) async fn answered<RT: AsyncRuntime>(&mut self, deadline: RT::Instant) -> Answered {
        let (answered, if_withdrawn, if_handed_over) = match RT::timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(answered)) => return answered,
            Ok(Err(_)) => (None, NotProposed::ShuttingDown, UnknownReason::Deposed),
            // The answer may have arrived at the last moment.
            Err(_) => (self.answer.try_recv().ok(), NotProposed::NoLeader, UnknownReason::Deadline),
        };
        answered.unwrap_or_else(|| {
            let is_withdrawn = !self.progress.settled.swap(true, Ordering::AcqRel);
            let outcome = Err(if is_withdrawn { if_withdrawn.into() } else { if_handed_over.into() });
            Answered { outcome, times: self.times() }
        })
    }

    /// Where the time of the command went so far, without an answer.
    pub(crate) fn times(&self) -> ProposalTimes {
        self.progress.handed_over.get().map(|batch| batch.times(Duration::ZERO)).unwrap_or_default()
    }
}

impl Drop for SubmittedCommand {
    fn drop(&mut self) {
        self.progress.settled.store(true, Ordering::Release);
    }
}

impl ProposalReceiver {
    /// Waits for a command.
    pub(crate) async fn first(&mut self) -> Option<Proposal> {
        loop {
            let next = self.next(0);
            if next.is_some() {
                return next;
            }
            tokio::select! {
                biased;
                urgent = self.urgent.recv() => match urgent {
                    Some(urgent) => return Some(urgent),
                    // Nobody can submit a command any more.
                    None => return self.ordinary.pop(),
                },
                () = self.ordinary.pushed.notified() => {}
            }
        }
    }

    /// The next command that is already waiting, if any: urgent ones first, up to their share of a batch that has
    /// `gathered` commands.
    fn next(&mut self, gathered: usize) -> Option<Proposal> {
        let urgent = if gathered < BATCH_URGENT_MAX { self.urgent.try_recv().ok() } else { None };
        urgent.or_else(|| self.ordinary.pop())
    }

    /// Takes no more commands.
    pub(crate) fn close(&mut self) {
        self.urgent.close();
        self.ordinary.waiting.lock().is_closed = true;
    }

    /// Takes the waiting commands that fit into one batch, without waiting for more.
    pub(crate) fn gather(&mut self, first: Proposal) -> Vec<Proposal> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(proposal) = next {
            self.bytes.fetch_sub(proposal.bytes, Ordering::Relaxed);
            self.linger.dequeued();
            if !proposal.progress.settled.swap(true, Ordering::AcqRel) {
                bytes += proposal.bytes;
                batch.push(proposal);
            }
            let full = batch.len() >= BATCH_COMMANDS_MAX || bytes >= BATCH_BYTES_MAX;
            next = if full { None } else { self.next(batch.len()) };
        }
        batch
    }
}

/// The callers of the waiting commands must learn that nobody hands them over any more.
impl Drop for ProposalReceiver {
    fn drop(&mut self) {
        self.close();
        while self.ordinary.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests;

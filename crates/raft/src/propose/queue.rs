//! Gathers commands into log entries: many in one entry while others are in flight. Where many come at a time, a moment is
//! waited for them (`linger`).
//!
//! On a follower the same queue gathers what is passed on to the leader. Each command keeps its own answer, and until it is
//! handed over its caller can still take it back: so a deadline in the queue is "surely not proposed".
//!
//! There are two queues. What ends something or keeps it alive goes before what begins or writes something, and has room of its
//! own: a flood of writes holds up no release.

use crate::{
    base::error::{NotProposed, ProposeError, UnknownReason},
    propose::{linger::BatchLinger, priority::is_urgent},
};
use fairhold_state::command::{Answer, Command};
use openraft::AsyncRuntime;
use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};
use tokio::sync::{mpsc, oneshot};

/// Commands of one entry.
const BATCH_COMMANDS_MAX: usize = 1_024;
/// Bytes of an entry's commands, above which no further one is added.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// Of an entry's commands, those that may go before others: what goes first must not shut out the rest.
const BATCH_URGENT_MAX: usize = BATCH_COMMANDS_MAX / 4 * 3;
/// Commands that wait in each of the two queues to be proposed on one node.
const QUEUE_COMMANDS_MAX: usize = 16_384;

pub(crate) type ProposalOutcome = Result<Answer, ProposeError>;

const WAITING: u8 = 0;
const HANDED_OVER: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Whether a command was handed over already, which its caller and the batcher decide between them.
#[derive(Debug, Default)]
struct HandOff(AtomicU8);

impl HandOff {
    fn settle(&self, state: u8) -> bool {
        self.0.compare_exchange(WAITING, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A command in the queue.
pub(crate) struct Proposal {
    pub(crate) command: Command,
    pub(crate) bytes: usize,
    /// Came from another node: it is not passed on once more.
    pub(crate) forwarded: bool,
    hand_off: Arc<HandOff>,
    pub(crate) answer: oneshot::Sender<ProposalOutcome>,
}

impl Proposal {
    pub(crate) fn resolve(self, outcome: ProposalOutcome) {
        // A caller that went away wants no answer.
        self.answer.send(outcome).ok();
    }
}

/// The queues' entrance.
#[derive(Clone)]
pub(crate) struct ProposalQueue {
    urgent: mpsc::Sender<Proposal>,
    ordinary: mpsc::Sender<Proposal>,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    linger: Arc<BatchLinger>,
}

/// The queues' exit.
pub(crate) struct ProposalBatcher {
    urgent: mpsc::Receiver<Proposal>,
    ordinary: mpsc::Receiver<Proposal>,
    bytes: Arc<AtomicUsize>,
    pub(crate) linger: Arc<BatchLinger>,
}

/// A command that was submitted. Dropping it takes the command back, if it was not handed over yet.
pub(crate) struct Submitted {
    hand_off: Arc<HandOff>,
    answer: oneshot::Receiver<ProposalOutcome>,
}

/// Takes at most this many bytes of commands. Urgent commands are small, so this limit does not apply to them.
pub(crate) fn new(bytes_max: usize) -> (ProposalQueue, ProposalBatcher) {
    let (first, urgent) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let (second, ordinary) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    let linger = Arc::new(BatchLinger::default());
    let queue = ProposalQueue { urgent: first, ordinary: second, bytes: bytes.clone(), bytes_max, linger: linger.clone() };
    (queue, ProposalBatcher { urgent, ordinary, bytes, linger })
}

impl ProposalQueue {
    pub(crate) fn submit(&self, command: Command, forwarded: bool) -> Result<Submitted, NotProposed> {
        let bytes = command.size();
        let (hand_off, (answer, receiver)) = (Arc::new(HandOff::default()), oneshot::channel());
        let urgent = is_urgent(&command);
        // The count may pass the bound by what others add at the same time, which is harmless.
        if !urgent && self.bytes.load(Ordering::Relaxed) >= self.bytes_max {
            return Err(NotProposed::Overloaded);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let proposal = Proposal { command, bytes, forwarded, hand_off: hand_off.clone(), answer };
        let queue = if urgent { &self.urgent } else { &self.ordinary };
        self.linger.enqueued();
        queue.try_send(proposal).map_err(|error| {
            self.linger.dequeued();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            match error {
                mpsc::error::TrySendError::Full(_) => NotProposed::Overloaded,
                mpsc::error::TrySendError::Closed(_) => NotProposed::ShuttingDown,
            }
        })?;
        Ok(Submitted { hand_off, answer: receiver })
    }
}

impl Submitted {
    /// Waits for what becomes of the command.
    pub(crate) async fn outcome<RT: AsyncRuntime>(mut self, deadline: RT::Instant) -> ProposalOutcome {
        let (answered, not_handed_over, handed_over) = match RT::timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(_)) => (None, NotProposed::ShuttingDown, UnknownReason::Deposed),
            // The answer may have come at the last moment.
            Err(_) => (self.answer.try_recv().ok(), NotProposed::NoLeader, UnknownReason::Deadline),
        };
        match answered {
            Some(outcome) => outcome,
            None if self.hand_off.settle(WITHDRAWN) => Err(not_handed_over.into()),
            None => Err(handed_over.into()),
        }
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.hand_off.settle(WITHDRAWN);
    }
}

impl ProposalBatcher {
    /// Waits for a command.
    pub(crate) async fn first(&mut self) -> Option<Proposal> {
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

    /// Takes no more commands.
    pub(crate) fn close(&mut self) {
        self.urgent.close();
        self.ordinary.close();
    }

    /// Takes what waits, as much as fits into one batch, without waiting for more.
    pub(crate) fn gather(&mut self, first: Proposal) -> Vec<Proposal> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(proposal) = next {
            self.bytes.fetch_sub(proposal.bytes, Ordering::Relaxed);
            self.linger.dequeued();
            if proposal.hand_off.settle(HANDED_OVER) {
                bytes += proposal.bytes;
                batch.push(proposal);
            }
            let full = batch.len() >= BATCH_COMMANDS_MAX || bytes >= BATCH_BYTES_MAX;
            next = if full { None } else { self.next(batch.len()) };
        }
        batch
    }
}

#[cfg(test)]
mod tests;

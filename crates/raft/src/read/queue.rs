//! The queue of reads that wait for a read barrier: proof that the leader still leads after the read was requested, and
//! the log index that the read must have applied.
//!
//! One barrier is in flight at a time, and serves all reads requested before it started. Later reads wait for the next
//! one.

use crate::base::error::NotProposed;
use tokio::sync::{mpsc, oneshot};

/// Maximum number of reads that wait for a barrier on one node.
const QUEUE_MAX: usize = 65_536;

/// The log index that a read must have applied.
pub(crate) type Outcome = Result<u64, NotProposed>;

pub(crate) struct BarrierWaiter {
    /// Forwarded by another node: the barrier is not forwarded again.
    pub(crate) forwarded: bool,
    pub(crate) answer: oneshot::Sender<Outcome>,
}

/// The sending side of the queue.
#[derive(Clone)]
pub(crate) struct BarrierQueue(mpsc::Sender<BarrierWaiter>);

/// The receiving side of the queue.
pub(crate) struct BarrierReceiver(pub(crate) mpsc::Receiver<BarrierWaiter>);

pub(crate) fn new() -> (BarrierQueue, BarrierReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    (BarrierQueue(sender), BarrierReceiver(receiver))
}

impl BarrierQueue {
    /// Returns the outcome of a barrier that starts after this call.
    pub(crate) async fn next(&self, forwarded: bool) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        self.0.try_send(BarrierWaiter { forwarded, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotProposed::Overloaded,
            mpsc::error::TrySendError::Closed(_) => NotProposed::ShuttingDown,
        })?;
        outcome.await.unwrap_or(Err(NotProposed::ShuttingDown))
    }
}

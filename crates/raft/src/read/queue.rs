//! Read barriers: proof, after the asking, that the leader still leads, and up to where a read must have applied the log.
//!
//! One is in flight at a time and serves all that asked before it started; who asks later waits for the next.

use crate::base::error::NotProposed;
use tokio::sync::{mpsc, oneshot};

/// Reads that wait for a barrier on one node.
const QUEUE_MAX: usize = 65_536;

/// The index up to which a read must have applied the log.
pub(crate) type Outcome = Result<u64, NotProposed>;

pub(crate) struct BarrierWaiter {
    /// Came from another node: the barrier is not asked of a third one.
    pub(crate) forwarded: bool,
    pub(crate) answer: oneshot::Sender<Outcome>,
}

/// Where reads ask for a barrier.
#[derive(Clone)]
pub(crate) struct BarrierQueue(mpsc::Sender<BarrierWaiter>);

/// Where the barriers are made.
pub(crate) struct BarrierReceiver(pub(crate) mpsc::Receiver<BarrierWaiter>);

pub(crate) fn new() -> (BarrierQueue, BarrierReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    (BarrierQueue(sender), BarrierReceiver(receiver))
}

impl BarrierQueue {
    /// The outcome of a barrier that starts after this call.
    pub(crate) async fn next(&self, forwarded: bool) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        self.0.try_send(BarrierWaiter { forwarded, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotProposed::Overloaded,
            mpsc::error::TrySendError::Closed(_) => NotProposed::ShuttingDown,
        })?;
        outcome.await.unwrap_or(Err(NotProposed::ShuttingDown))
    }
}

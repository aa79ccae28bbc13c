//! Serves append requests in the order of their arrival, with one queue for each sender.

use crate::{
    base::{
        types::Types,
        wire::{Declined, PeerReply},
    },
    core::Core,
};
use fairhold_types::{NodeId, failpoint};
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::FuturesUnordered,
};
use openraft::{AsyncRuntime, raft::AppendEntriesRequest};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of requests of one node in its queue. A leader has at most 64 in flight; the rest come from another
/// leader.
const QUEUE_MAX: usize = 256;
/// Maximum number of requests of one node that openraft handles at a time. It writes them to disk together.
const IN_FLIGHT_MAX: usize = 64;

type Queued<RT> = (AppendEntriesRequest<Types<RT>>, oneshot::Sender<PeerReply<RT>>);

/// The queues by node, created on first use. Only members send appends, so there are few.
pub(super) struct Appenders<RT: AsyncRuntime>(Mutex<BTreeMap<NodeId, mpsc::Sender<Queued<RT>>>>);

impl<RT: AsyncRuntime> Default for Appenders<RT> {
    fn default() -> Self {
        Appenders(Mutex::new(BTreeMap::new()))
    }
}

impl<RT: AsyncRuntime> Appenders<RT> {
    /// Enqueues a request during this call; the future waits for its answer.
    pub(super) fn append(
        &self,
        core: &Arc<Core<RT>>,
        from: NodeId,
        rpc: AppendEntriesRequest<Types<RT>>,
    ) -> BoxFuture<'static, PeerReply<RT>> {
        let (answer, answered) = oneshot::channel();
        let sent = self
            .0
            .lock()
            .entry(from)
            .or_insert_with(|| {
                let (sender, receiver) = mpsc::channel(QUEUE_MAX);
                // The task ends with Raft, or with this map.
                drop(RT::spawn(run(core.clone(), receiver)));
                sender
            })
            .try_send((rpc, answer));
        match sent {
            Ok(()) => async move { answered.await.unwrap_or(PeerReply::Declined(Declined::NotRunning)) }.boxed(),
            Err(mpsc::error::TrySendError::Full(_)) => ready(PeerReply::Declined(Declined::Busy)).boxed(),
            Err(mpsc::error::TrySendError::Closed(_)) => ready(PeerReply::Declined(Declined::NotRunning)).boxed(),
        }
    }
}

/// Hands the requests to openraft in order, without waiting for each answer. Each request is complete in itself and is
/// checked against the log, so a request after a rejected one needs no special handling.
async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, mut queue: mpsc::Receiver<Queued<RT>>) {
    let mut in_flight = FuturesUnordered::new();
    let mut stopped = std::pin::pin!(core.stopped());
    loop {
        tokio::select! {
            biased;
            () = &mut stopped => return,
            Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
            next = queue.recv(), if in_flight.len() < IN_FLIGHT_MAX => {
                let Some((rpc, answer)) = next else { return };
                if failpoint!(RaftAppendReceive, RT).is_err() {
                    continue;
                }
                let raft = &core.raft;
                let mut handling = async move {
                    let appended = raft.append_entries(rpc).await;
                    let reply = appended.map_or(PeerReply::Declined(Declined::NotRunning), PeerReply::Append);
                    if failpoint!(RaftAppendAnswer, RT).is_err() {
                        return;
                    }
                    // The connection may have closed; then the answer is dropped.
                    answer.send(reply).ok();
                }
                .boxed();
                // The first poll puts the request into openraft's queue, so it must happen before the next request.
                if (&mut handling).now_or_never().is_none() {
                    in_flight.push(handling);
                }
            }
        }
    }
}

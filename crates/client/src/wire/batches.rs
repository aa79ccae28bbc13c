//! Batches: one request carries the calls that many tasks make at about the same time. Client and server pay the cost
//! of a request once, and the cluster commits the calls together.
//!
//! A node has at most [`BATCHES_MAX`] such requests in flight. Later calls wait for the next one, so batches grow with
//! the load, and a single call never waits. Only calls that the server answers at once share a batch.

use crate::wire::{
    call::{ANSWER_GRACE, ATTEMPT_MAX, BatchPart, Call, CallBody},
    endpoints::Endpoint,
    http::{Attempted, Connections},
    reply::{LEADER, MEMBERS, REVISION, Reply},
};
use fairhold_types::limits::{BATCH_CALLS_MAX, BODY_BYTES_MAX};
use futures_util::future::join_all;
use parking_lot::Mutex;
use reqwest::{Method, StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
    task::yield_now,
    time::timeout,
};

/// Batches in flight at one node: when one is answered, the next has already arrived.
const BATCHES_MAX: usize = 2;
/// Calls that wait for a batch. Further callers wait for room.
const WAITING_MAX: usize = 4 * BATCH_CALLS_MAX;
/// Nodes with a queue. If there are more, the client drops all queues and starts again.
const QUEUES_MAX: usize = 64;

/// The queues of calls, one per node. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Batches {
    connections: Connections,
    runtime: Handle,
    queues: Arc<Mutex<Vec<Queue>>>,
}

/// The queue of a node.
type Queue = (Endpoint, mpsc::Sender<QueuedCall>);

/// A call that waits for its answer.
struct QueuedCall {
    call: Call,
    limit: Duration,
    answer: oneshot::Sender<Attempted>,
}

#[derive(Deserialize)]
struct RawAnswers<'a> {
    #[serde(borrow)]
    answers: Vec<RawAnswer<'a>>,
}

#[derive(Deserialize)]
struct RawAnswer<'a> {
    status: u16,
    retry_after: Option<u64>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

impl Batches {
    pub(crate) fn new(connections: Connections, runtime: Handle) -> Batches {
        Batches { connections, runtime, queues: Arc::default() }
    }

    /// Sends a call to one node, once, together with others. Dropping the future withdraws the call if it is not sent
    /// yet.
    pub(crate) async fn send(&self, endpoint: &Endpoint, call: &Call, limit: Duration) -> Attempted {
        let unknown = |why: &str| Attempted::unknown(format!("{endpoint}: {why}"));
        let (sender, receiver) = oneshot::channel();
        let answer = async {
            // The queue ends only with the runtime. Then the receiver fails.
            self.queue(endpoint).send(QueuedCall { call: call.clone(), limit, answer: sender }).await.ok();
            receiver.await
        };
        match timeout(limit + ANSWER_GRACE, answer).await {
            Ok(Ok(tried)) => tried,
            Ok(Err(_)) => unknown("this program's runtime is shutting down"),
            Err(_) => unknown("no answer in time"),
        }
    }

    fn queue(&self, endpoint: &Endpoint) -> mpsc::Sender<QueuedCall> {
        let mut queues = self.queues.lock();
        if let Some((_, queue)) = queues.iter().find(|(known, _)| known == endpoint) {
            return queue.clone();
        }
        if queues.len() >= QUEUES_MAX {
            queues.clear();
        }
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        queues.push((endpoint.clone(), queue.clone()));
        drop(self.runtime.spawn(run(self.connections.clone(), self.runtime.clone(), endpoint.clone(), waiting)));
        queue
    }
}

/// Sends the calls that wait for a node, until the queue closes.
async fn run(connections: Connections, runtime: Handle, endpoint: Endpoint, mut queue: mpsc::Receiver<QueuedCall>) {
    let permits = Arc::new(Semaphore::new(BATCHES_MAX));
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH_CALLS_MAX).await > 0 {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        // Tasks that the same answer woke can join.
        yield_now().await;
        while batch.len() < BATCH_CALLS_MAX
            && let Ok(waiting) = queue.try_recv()
        {
            batch.push(waiting);
        }
        let connections = connections.clone();
        let endpoint = endpoint.clone();
        let batch = std::mem::take(&mut batch);
        drop(runtime.spawn(async move {
            send(&connections, &endpoint, batch).await;
            drop(permit);
        }));
    }
}

async fn send(connections: &Connections, endpoint: &Endpoint, mut batch: Vec<QueuedCall>) {
    // Callers that have left meanwhile send nothing.
    batch.retain(|waiting| !waiting.answer.is_closed());
    let alone = async |waiting: QueuedCall| {
        let attempted = connections.send(endpoint, &waiting.call, waiting.limit, waiting.limit + ANSWER_GRACE).await;
        // A caller that has left releases what it may have acquired.
        waiting.answer.send(attempted).ok();
    };
    if batch.len() < 2 {
        join_all(batch.into_iter().map(alone)).await;
        return;
    }
    let limit = batch.iter().map(|waiting| waiting.limit).max().unwrap_or(ATTEMPT_MAX);
    let parts: Vec<String> = batch.iter().map(|waiting| part(&waiting.call)).collect();
    let text = format!("{{\"calls\":[{}]}}", parts.join(","));
    if text.len() > BODY_BYTES_MAX {
        let rest = batch.split_off(batch.len() / 2);
        Box::pin(send(connections, endpoint, batch)).await;
        Box::pin(send(connections, endpoint, rest)).await;
        return;
    }
    let call = Call { body: Some(CallBody::Json(text)), ..Call::new(Method::POST, "/v1/batch".to_owned()) };
    let attempted = connections.send(endpoint, &call, limit, limit + ANSWER_GRACE).await;
    let alone_again = [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
    if matches!(&attempted, Attempted::Answered(Reply { status, .. }) if alone_again.contains(status)) {
        // The node did nothing: it did not understand one of the calls, or it has an older version. Send each call
        // alone, so that each gets its own answer.
        join_all(batch.into_iter().map(alone)).await;
        return;
    }
    let answers = split(attempted, batch.len());
    for (waiting, answer) in batch.into_iter().zip(answers) {
        waiting.answer.send(answer).ok();
    }
}

/// A call as part of a batch.
fn part(call: &Call) -> String {
    let id = call.key.map(|key| key.to_string()).unwrap_or_default();
    match (&call.part, &call.body) {
        (Some(BatchPart::Acquire(lock)), Some(CallBody::Json(body))) => {
            let lock = serde_json::Value::from(lock.as_str());
            // The fields of its own body follow. It has at least one: its session.
            let fields = body.trim_start_matches('{');
            format!("{{\"acquire\":{{\"id\":\"{id}\",\"lock\":{lock},\"queue\":true,{fields}}}")
        }
        (Some(BatchPart::Renew), _) => format!("{{\"renew\":{{\"id\":\"{id}\"}}}}"),
        (Some(BatchPart::Release(Some(session))), _) => {
            format!("{{\"release\":{{\"id\":\"{id}\",\"session\":\"{}\"}}}}", session.to_hex())
        }
        (Some(BatchPart::Acquire(_) | BatchPart::Release(None)) | None, _) => format!("{{\"release\":{{\"id\":\"{id}\"}}}}"),
    }
}

/// The answers to the calls of a batch.
fn split(attempted: Attempted, length: usize) -> Vec<Attempted> {
    let reply = match attempted {
        Attempted::Answered(reply) if reply.status.is_success() => reply,
        // The result of the batch is the result of each call.
        failed @ (Attempted::Answered(_) | Attempted::Nothing { .. } | Attempted::Unknown { .. }) => return vec![failed; length],
    };
    let unknown = |why: String| Attempted::unknown(format!("the answer to a batch is not understood: {why}"));
    match serde_json::from_slice::<RawAnswers<'_>>(&reply.body) {
        Ok(RawAnswers { answers }) if answers.len() == length => {
            answers.iter().map(|answer| one(&reply, answer).unwrap_or_else(|| unknown("a status".to_owned()))).collect()
        }
        Ok(RawAnswers { answers }) => vec![unknown(format!("{} answers to {length} calls", answers.len())); length],
        Err(error) => vec![unknown(error.to_string()); length],
    }
}

fn one(whole: &Reply, answer: &RawAnswer<'_>) -> Option<Attempted> {
    let status = StatusCode::from_u16(answer.status).ok()?;
    let mut headers = header::HeaderMap::new();
    for name in [LEADER, MEMBERS, REVISION] {
        if let Some(value) = whole.headers.get(name) {
            headers.insert(name, value.clone());
        }
    }
    if let Some(seconds) = answer.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    let body = answer.body.map(|body| body.get().as_bytes().to_vec()).unwrap_or_default();
    Some(Attempted::of(Reply { status, headers, body, is_whole: true, sent: whole.sent, may_be_done: false }))
}

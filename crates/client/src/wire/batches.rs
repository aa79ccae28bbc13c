//! Calls of many tasks in one request: what a request costs, on both sides, is paid once for all that ask at about the same time,
//! and the cluster commits them together.
//!
//! A node has [`BATCHES_MAX`] such requests under way at a time. Whatever comes meanwhile waits for the next one, so the more
//! is asked the larger they are, and who asks alone never waits. Only calls are put together that are answered at once.

use crate::wire::{
    call::{ANSWER_GRACE, BatchPart, Call, CallBody, TRY_MAX},
    endpoints::Endpoint,
    http::{Attempted, Connections},
    reply::Reply,
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

/// Batches that one node has under way at a time: as one is answered, the next is there.
const BATCHES_MAX: usize = 2;
/// Calls that wait for a batch; who comes on top waits for a place.
const WAITING_MAX: usize = 4 * BATCH_CALLS_MAX;
/// Nodes with a queue of their own; when there are more, all begin anew.
const QUEUES_MAX: usize = 64;

/// The queues of calls, one for each node. Clones are the same queues.
#[derive(Debug, Clone)]
pub(crate) struct Batches {
    connections: Connections,
    runtime: Handle,
    queues: Arc<Mutex<Vec<Queue>>>,
}

/// Where the calls of a node wait.
type Queue = (Endpoint, mpsc::Sender<QueuedCall>);

/// A call that waits for its answer.
struct QueuedCall {
    call: Call,
    limit: Duration,
    tell: oneshot::Sender<Attempted>,
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

    /// Sends a call to one node, once, together with others. Dropping the future takes it back as far as it is not sent yet.
    pub(crate) async fn send(&self, endpoint: &Endpoint, call: &Call, limit: Duration) -> Attempted {
        let unknown = |why: &str| Attempted::unknown(format!("{endpoint}: {why}"));
        let (tell, told) = oneshot::channel();
        let asked = async {
            // It ends with the runtime alone, and then nobody answers.
            self.queue(endpoint).send(QueuedCall { call: call.clone(), limit, tell }).await.ok();
            told.await
        };
        match timeout(limit + ANSWER_GRACE, asked).await {
            Ok(Ok(tried)) => tried,
            Ok(Err(_)) => unknown("this program's runtime ends"),
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

/// Sends what waits for a node, until nobody can ask any more.
async fn run(connections: Connections, runtime: Handle, endpoint: Endpoint, mut queue: mpsc::Receiver<QueuedCall>) {
    let places = Arc::new(Semaphore::new(BATCHES_MAX));
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH_CALLS_MAX).await > 0 {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        // Tasks woken by the same answer as the first one join too.
        yield_now().await;
        while batch.len() < BATCH_CALLS_MAX
            && let Ok(waiting) = queue.try_recv()
        {
            batch.push(waiting);
        }
        let (connections, endpoint, batch) = (connections.clone(), endpoint.clone(), std::mem::take(&mut batch));
        drop(runtime.spawn(async move {
            send(&connections, &endpoint, batch).await;
            drop(place);
        }));
    }
}

async fn send(connections: &Connections, endpoint: &Endpoint, mut batch: Vec<QueuedCall>) {
    // Of those who left meanwhile nothing is sent.
    batch.retain(|waiting| !waiting.tell.is_closed());
    let alone = async |waiting: QueuedCall| {
        let tried = connections.send(endpoint, &waiting.call, waiting.limit, waiting.limit + ANSWER_GRACE).await;
        // Who left meanwhile takes it back.
        waiting.tell.send(tried).ok();
    };
    if batch.len() < 2 {
        join_all(batch.into_iter().map(alone)).await;
        return;
    }
    let limit = batch.iter().map(|waiting| waiting.limit).max().unwrap_or(TRY_MAX);
    let parts: Vec<String> = batch.iter().map(|waiting| part(&waiting.call)).collect();
    let text = format!("{{\"calls\":[{}]}}", parts.join(","));
    if text.len() > BODY_BYTES_MAX {
        let rest = batch.split_off(batch.len() / 2);
        Box::pin(send(connections, endpoint, batch)).await;
        Box::pin(send(connections, endpoint, rest)).await;
        return;
    }
    let call = Call { body: Some(CallBody::Json(text)), ..Call::new(Method::POST, "/v1/batch".to_owned()) };
    let tried = connections.send(endpoint, &call, limit, limit + ANSWER_GRACE).await;
    let alone_again = [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
    if matches!(&tried, Attempted::Answered(Reply { status, .. }) if alone_again.contains(status)) {
        // One of them is not understood, and nothing was begun: which, each learns alone. Or it is a node of an older version.
        join_all(batch.into_iter().map(alone)).await;
        return;
    }
    let each = apart(tried, batch.len());
    for (waiting, tried) in batch.into_iter().zip(each) {
        waiting.tell.send(tried).ok();
    }
}

/// A call as it stands in a batch.
fn part(call: &Call) -> String {
    let id = call.key.map(|key| key.to_string()).unwrap_or_default();
    match (&call.part, &call.body) {
        (Some(BatchPart::Acquire(lock)), Some(CallBody::Json(body))) => {
            let lock = serde_json::Value::from(lock.as_str());
            // The fields of its own body follow: it has one at least, its session.
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

/// What each of so many calls was answered.
fn apart(tried: Attempted, length: usize) -> Vec<Attempted> {
    let reply = match tried {
        Attempted::Answered(reply) if reply.status.is_success() => reply,
        // What became of the whole became of each.
        tried @ (Attempted::Answered(_) | Attempted::Nothing { .. } | Attempted::Unknown { .. }) => return vec![tried; length],
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
    for name in ["fairhold-leader", "fairhold-revision"] {
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

//! A client sends many calls in one request. Each call is its own operation in the history.

use super::{ChaosClient, HeldLock, Opened, TTL, WORK, micros};
use crate::{
    history::{Call, Op, Outcome},
    http::{Reply, Request},
    new_key,
};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};

/// A call of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) call: Call,
    pub(crate) lock: String,
    id: String,
    /// The owner of a session's grant: each id has its own. `None` for a grant without a session.
    owner: Option<String>,
    /// The operation that acquired a grant without a session, and its token.
    held: Option<(usize, u64)>,
    /// Whether an acquire waits in the queue.
    queue: bool,
}

impl Part {
    /// Another call with the same id.
    pub(crate) fn then(&self, call: Call) -> Part {
        Part { call, ..self.clone() }
    }

    /// Whether it has the same id.
    pub(crate) fn is_same(&self, other: &Part) -> bool {
        self.id == other.id
    }

    /// A renewal of a grant without a session.
    pub(crate) fn renewal(held: &HeldLock) -> Part {
        let (id, lock) = (held.id.clone(), held.key.clone());
        Part { call: Call::Renew, lock, id, owner: None, held: Some((held.grant, held.token)), queue: false }
    }

    fn json(&self, session: &Opened) -> Value {
        let id = &self.id;
        match (self.call, &self.owner) {
            (Call::Renew, _) => json!({"renew": {"id": id}}),
            (Call::Release, None) => json!({"release": {"id": id}}),
            (Call::Release, Some(_)) => json!({"release": {"id": id, "session": session.id}}),
            (_acquire, owner) => {
                json!({"acquire": {"id": id, "lock": self.lock, "session": session.id, "owner": owner, "queue": self.queue}})
            }
        }
    }

    fn describe(&self, op: &mut Op, batch: usize, session: &Opened) {
        (op.batch, op.value) = (Some(batch), self.owner.clone());
        match self.held {
            Some((grant, token)) => (op.grant, op.token) = (Some(grant), Some(token)),
            None => op.session = Some(session.number),
        }
        if self.call == Call::Acquire {
            op.grant = Some(op.index);
        } else if self.call == Call::Renew {
            op.ttl = Some(micros(TTL));
        }
    }
}

impl ChaosClient {
    /// An acquire with a new id.
    pub(crate) fn part(&self, lock: &str, queue: bool) -> Part {
        let owner = format!("a{}", self.shared.attempts.fetch_add(1, Ordering::SeqCst));
        Part { call: Call::Acquire, lock: lock.to_owned(), id: new_key(), owner: Some(owner), held: None, queue }
    }

    /// Sends these calls to one node. Returns the time of sending, and the outcome of each call.
    pub(crate) async fn batch(&mut self, session: &Opened, parts: &[Part]) -> (u64, Vec<Outcome>) {
        let node = self.any_node();
        let recorder = std::sync::Arc::clone(&self.shared.recorder);
        let mut running = Vec::with_capacity(parts.len());
        for part in parts {
            // A process has one operation at a time.
            let process = self.shared.processes.fetch_add(1, Ordering::SeqCst);
            let batch = running.first().map(|first: &crate::history::Running| first.index);
            let describe = |op: &mut Op| part.describe(op, batch.unwrap_or(op.index), session);
            running.push(recorder.invoke(process, node, part.call, &part.lock, describe));
        }
        let calls: Vec<Value> = parts.iter().map(|part| part.json(session)).collect();
        let request = Request::post("/v1/batch", &new_key()).json(&json!({ "calls": calls })).within(WORK, Duration::ZERO);
        let whole = self.http.ask(node, &request).await;
        let mut outcomes = Vec::with_capacity(parts.len());
        for (index, (one, part)) in running.iter().zip(parts).enumerate() {
            let reply = if whole.outcome == Outcome::Ok { Reply::of_part(&whole.json["answers"][index]) } else { whole.clone() };
            recorder.complete(one, reply.outcome, |op| learn(part, &reply, &whole, op));
            outcomes.push(reply.outcome);
        }
        if whole.outcome != Outcome::Ok {
            tokio::time::sleep(super::AFTER_FAILURE).await;
        }
        (running.first().map_or(0, |first| first.start), outcomes)
    }
}

fn learn(part: &Part, reply: &Reply, whole: &Reply, op: &mut Op) {
    op.revision = whole.revision();
    op.error = reply.error.as_ref().map(|error| match reply.json["reason"].as_str() {
        Some(reason) => format!("{error} {reason}"),
        None => error.clone(),
    });
    if matches!(part.call, Call::Acquire | Call::Again) {
        (op.number, op.token) = (reply.json["number"].as_u64(), reply.json["token"].as_u64());
    }
}

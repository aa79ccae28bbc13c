//! A user whose rights change, and the administrator that changes them.

use super::{ChaosClient, WORK};
use crate::{
    history::{Call, Op, OpRights, Outcome, Right, Running, StreamEvent},
    http::{Reply, Request},
    log_line, new_key,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{fmt, sync::Arc, time::Duration};

/// How long a watch may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);
/// A stream that is silent for this long is closed: a bookmark comes every 10 s.
const SILENT_MAX: Duration = Duration::from_secs(12);
/// How often a silent watch looks whether the run is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A token of a user. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Credential {
    /// Its number in the cluster.
    pub(crate) number: u64,
    pub(crate) token: Arc<str>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A user whose rights change.
#[derive(Debug)]
pub(crate) struct ChaosUser {
    /// Its number in the run.
    pub(crate) number: u64,
    /// Its name in the cluster.
    pub(crate) name: String,
    newest: Mutex<Option<Credential>>,
}

/// What a change does to the rights of a user.
#[derive(Debug, Clone, Default)]
pub(crate) struct RightsChange {
    /// What the administrator does, in words.
    pub(crate) what: &'static str,
    /// The rights that it takes or gives.
    pub(crate) rights: Vec<Right>,
    /// The token that it ends.
    pub(crate) credential: Option<u64>,
}

impl ChaosUser {
    /// A user without a token.
    pub(crate) fn new(number: u64, name: String) -> ChaosUser {
        ChaosUser { number, name, newest: Mutex::new(None) }
    }

    /// Its newest token.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.newest.lock().clone()
    }
}

impl ChaosClient {
    /// Changes the rights of a user, as an administrator. Tries until it is acknowledged, always with the same key, so it
    /// takes effect once. If the run is over before, nobody gets to know whether it did.
    pub(crate) async fn change_rights(&mut self, call: Call, user: &ChaosUser, change: &RightsChange, request: Request) {
        let request = request.header("idempotency-key", new_key()).within(WORK, Duration::ZERO);
        while !self.is_over() {
            let describe = |op: &mut Op| {
                op.rights = Some(OpRights { user: user.number, credential: change.credential, rights: change.rights.clone() });
                op.value = Some(change.what.to_owned());
            };
            // A repeated request may get the answer of the first one, with its old revision.
            let learn = |_: &Reply, op: &mut Op| op.number = op.revision.take();
            let (_, reply) = self.ask(call, &user.name, describe, request.clone(), learn).await;
            if reply.outcome == Outcome::Ok {
                return;
            }
            if (400..500).contains(&reply.status) && reply.status != 429 {
                log_line(&format!("{} of {}: {} {}", change.what, user.name, reply.status, reply.text));
            }
        }
    }

    /// Gives a user a new token, as an administrator.
    pub(crate) async fn give_token(&mut self, user: &ChaosUser) {
        while !self.is_over() {
            let body = json!({ "user": user.name });
            // The server shows a token only once, so each attempt makes another one.
            let request = Request::post("/v1/access/tokens", &new_key()).json(&body).within(WORK, Duration::ZERO);
            let describe = |op: &mut Op| {
                op.rights = Some(OpRights { user: user.number, credential: None, rights: Vec::new() });
                op.value = Some("create a token".to_owned());
            };
            let learn = |reply: &Reply, op: &mut Op| {
                op.number = op.revision.take();
                if let (Some(rights), Some(number)) = (&mut op.rights, reply.json["number"].as_u64()) {
                    rights.credential = Some(number);
                }
            };
            let (_, reply) = self.ask(Call::Widen, &user.name, describe, request, learn).await;
            let (number, token) = (reply.json["number"].as_u64(), reply.json["token"].as_str());
            if let (Outcome::Ok, Some(number), Some(token)) = (reply.outcome, number, token) {
                *user.newest.lock() = Some(Credential { number, token: token.into() });
                return;
            }
        }
    }

    /// Reads a node from the state of one server.
    pub(crate) async fn read_local(&mut self, key: &str) {
        let request = Request::get(format!("/v1/nodes/{key}?consistency=local")).within(WORK, Duration::ZERO);
        let learn = |reply: &Reply, op: &mut Op| {
            // It may show an old state.
            op.revision = None;
            if reply.code() == "no_node" {
                (op.outcome, op.error) = (Outcome::Ok, None);
            }
        };
        self.ask(Call::LocalRead, key, |_| {}, request, learn).await;
    }

    /// Watches a subtree as its user, until the stream ends or the run is over.
    pub(crate) async fn watch(&mut self, key: &str) {
        let node = self.any_node();
        let request = Request::get(format!("/v1/watch?path=/chaos/{key}&recursive"));
        let (request, rights) = self.as_user(Call::Watch, request);
        let recorder = Arc::clone(&self.shared.recorder);
        let running = recorder.invoke(self.process, node, Call::Watch, key, |op| op.rights = rights);
        let (outcome, error) = self.stream(node, &request, &running).await;
        if outcome == Outcome::Unknown {
            self.process = self.shared.processes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        recorder.complete(&running, outcome, |op| op.error = Some(error));
    }

    /// Records the events of a stream. Returns how it ended: refused by the server, or broken.
    async fn stream(&self, node: usize, request: &Request, running: &Running) -> (Outcome, String) {
        let broken = || (Outcome::Unknown, "the connection broke".to_owned());
        let opened = tokio::time::timeout(BEGINS_WITHIN, self.http.open(node, request)).await;
        let Ok(Ok(mut response)) = opened else { return broken() };
        let status = response.status().as_u16();
        if status != 200 {
            let text = tokio::time::timeout(BEGINS_WITHIN, response.text()).await.ok().and_then(Result::ok).unwrap_or_default();
            let body: Value = serde_json::from_str(&text).unwrap_or_default();
            return (Outcome::Fail, format!("{status} {}", body["code"].as_str().unwrap_or_default()));
        }
        let (mut text, mut silent) = (Vec::new(), Duration::ZERO);
        loop {
            let chunk = match tokio::time::timeout(LOOK_EVERY, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None) | Err(_)) => return broken(),
                Err(_) if self.is_over() => return (Outcome::Unknown, "the run is over".to_owned()),
                Err(_) if silent > SILENT_MAX => return broken(),
                Err(_) => {
                    silent += LOOK_EVERY;
                    continue;
                }
            };
            silent = Duration::ZERO;
            text.extend_from_slice(&chunk);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let Ok(line) = serde_json::from_slice::<Value>(&line) else { return broken() };
                let revision = line["revision"].as_u64().unwrap_or(0);
                match line["type"].as_str().unwrap_or_default() {
                    "bookmark" | "credential_expires" => {}
                    "goaway" => return broken(),
                    "error" => return (Outcome::Fail, format!("stream {}", line["code"].as_str().unwrap_or_default())),
                    _change => {
                        let at = self.shared.recorder.now();
                        self.shared.recorder.stream_event(StreamEvent { at, stream: running.index, revision });
                    }
                }
            }
        }
    }
}

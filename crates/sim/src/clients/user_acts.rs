//! The clients of a user whose rights change: they write, acquire and watch, with or without the right.

use super::held_grant::TRIES;
use crate::{
    access_user::AccessUser,
    client::{ClientReply, ClientRequest, SimClient, lock_in_path},
    coverage::Probe,
    facts::Fact,
    trace,
};
use fairhold_types::Revision;
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::Mutex;
use rand::RngExt;
use std::{sync::Arc, time::Duration};

/// The ttl of a grant.
const TTL: Duration = Duration::from_secs(2);
/// How many nodes a user writes.
const NODES: u32 = 4;
/// How long a watch may be silent before its client looks whether the run is over.
const SILENT_MAX: Duration = Duration::from_secs(4);

/// What the clients of a user know. Clones are the same.
#[derive(Clone)]
pub(super) struct UserTask {
    pub(super) user: AccessUser,
    inner: Arc<Mutex<UserTaskInner>>,
}

#[derive(Default)]
struct UserTaskInner {
    token: String,
    /// The number of the token, if it is known.
    number: Option<u64>,
    disabling: Disabling,
    is_over: bool,
}

/// What an administrator knows of whether a user is disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Disabling {
    /// It is enabled.
    #[default]
    No,
    /// It was disabled, and no answer says that it is enabled again.
    Done,
    /// No answer says that it was disabled, so a copy of the request may disable it at any time.
    Unsettled,
}

impl UserTask {
    pub(super) fn new(user: AccessUser) -> UserTask {
        UserTask { user, inner: Arc::default() }
    }

    /// The user has another token.
    pub(super) fn set_token(&self, token: String, number: Option<u64>) {
        let mut inner = self.inner.lock();
        (inner.token, inner.number) = (token, number);
    }

    /// The number of its token, if it is known.
    pub(super) fn token_number(&self) -> Option<u64> {
        self.inner.lock().number
    }

    /// An administrator has asked to disable the user. `done`: it was answered that the user is disabled.
    pub(super) fn disabled(&self, done: bool) {
        let mut inner = self.inner.lock();
        if inner.disabling != Disabling::Unsettled {
            inner.disabling = if done { Disabling::Done } else { Disabling::Unsettled };
        }
    }

    /// An administrator was answered that the user is enabled.
    pub(super) fn enabled(&self) {
        let mut inner = self.inner.lock();
        if inner.disabling == Disabling::Done {
            inner.disabling = Disabling::No;
        }
    }

    /// Whether the user may be disabled, so that no token may be created for it.
    pub(super) fn may_be_disabled(&self) -> bool {
        self.inner.lock().disabling != Disabling::No
    }

    /// The clients end.
    pub(super) fn end(&self) {
        self.inner.lock().is_over = true;
    }

    fn is_over(&self) -> bool {
        self.inner.lock().is_over
    }

    /// The request with the token of the user.
    fn signed(&self, request: ClientRequest) -> ClientRequest {
        let token = self.inner.lock().token.clone();
        request.header("authorization", format!("Bearer {token}"))
    }
}

/// Writes and acquires, until the run is over.
pub(super) async fn act(mut client: SimClient, task: UserTask) {
    while !task.is_over() {
        client.idle(160).await;
        if client.rng.random_range(0..3) == 0 { acquire(&mut client, &task).await } else { write(&mut client, &task).await }
    }
}

async fn write(client: &mut SimClient, task: &UserTask) {
    let (key, number) = (client.key(), client.rng.random_range(1..=NODES));
    let uri = format!("/v1/nodes{}/n{number}", task.user.own());
    let method = if client.rng.random_range(0..5) == 0 { Method::DELETE } else { Method::PUT };
    let request = ClientRequest::new(method, uri).header("idempotency-key", key.clone()).body(key);
    let request = task.signed(request).disconnect_sometimes(client);
    let Some(reply) = call(client, &request).await else { return };
    match (reply.status, reply.field("code")) {
        (StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND | StatusCode::GONE, _) => {}
        _ => refused(client, "a user's write", &reply),
    }
}

async fn acquire(client: &mut SimClient, task: &UserTask) {
    let (key, wait) = (client.key(), Duration::from_millis(client.rng.random_range(0..600)));
    let lock = lock_in_path(&task.user.lock());
    let uri = format!("/v1/locks/{lock}?wait={}ms&ttl={}ms&owner={}", wait.as_millis(), TTL.as_millis(), client.name);
    let request = ClientRequest::new(Method::POST, uri).header("idempotency-key", key.clone()).wait(wait);
    let reply = call(client, &task.signed(request)).await;
    match reply.as_ref().map(|reply| (reply.status, reply.field("code"))) {
        Some((StatusCode::OK, _)) => client.idle(200).await,
        None | Some((StatusCode::CONFLICT, "lock_held" | "wait_timeout") | (StatusCode::GONE, "grant_gone" | "forgotten")) => {}
        Some((StatusCode::CONFLICT, "limit_mismatch") | (StatusCode::TOO_MANY_REQUESTS, "queue_full"))
            if client.world.has_administrator => {}
        Some(_) => {
            if let Some(reply) = &reply {
                refused(client, "a user's acquire", reply);
            }
        }
    }
    // Whatever the outcome, so that nothing is left. It needs a credential and no right.
    let release = task.signed(ClientRequest::new(Method::DELETE, format!("/v1/grants/{key}")));
    let Some(reply) = call(client, &release).await else { return };
    match reply.status {
        StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAUTHORIZED => {}
        _ => client.unexpected("a user's release", &reply),
    }
}

/// Checks that the contract allows this refusal.
fn refused(client: &SimClient, what: &str, reply: &ClientReply) {
    match (reply.status, reply.field("code")) {
        (StatusCode::FORBIDDEN, "denied") => client.world.coverage.probe(Probe::RightDenied),
        (StatusCode::UNAUTHORIZED, "unauthenticated") => client.world.coverage.probe(Probe::TokenUnknown),
        (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded") => client.world.coverage.probe(Probe::QuotaExceeded),
        _ => client.unexpected(what, reply),
    }
}

/// Calls until the outcome is known. An answer that rights changed too often is reported.
async fn call(client: &mut SimClient, request: &ClientRequest) -> Option<ClientReply> {
    for _ in 0..TRIES {
        let to = client.draw_node(request);
        let before = client.world.enforcing(to);
        let reply = client.call_once_at(to, request).await;
        match reply {
            Some(reply) if reply.status == StatusCode::SERVICE_UNAVAILABLE => {
                if reply.field("code") == "stale_access" {
                    found_stale(client, before, client.world.enforcing(to));
                }
                client.world.coverage.probe(Probe::NotDone);
            }
            Some(reply) if reply.status == StatusCode::GATEWAY_TIMEOUT => client.world.coverage.probe(Probe::OutcomeUnknown),
            Some(reply) => return Some(reply),
            None => client.world.coverage.probe(Probe::OutcomeUnknown),
        }
        client.idle(200).await;
    }
    None
}

/// Reports the answer that rights changed too often, unless the node had not heard that they are enforced. `before`,
/// `after`: what the node knew when the request was sent, and when it was answered.
fn found_stale(client: &SimClient, before: Option<(u64, Revision)>, after: Option<(u64, Revision)>) {
    if let (Some((life, since)), Some((still, _))) = (before, after)
        && life == still
    {
        let until = client.world.oracle.newest();
        client.world.oracle.observe(&Fact::FoundStale { since, until });
    }
}

/// Watches what an administrator writes, until the run is over.
pub(super) async fn watch(mut client: SimClient, task: UserTask) {
    while !task.is_over() {
        client.idle(200).await;
        let request = ClientRequest::new(Method::GET, format!("/v1/watch?path={}&recursive", task.user.shown()));
        let Some(mut stream) = client.open(&task.signed(request)).await else { continue };
        if stream.status != StatusCode::OK {
            continue;
        }
        // On a node whose clock is fast, the bookmarks of a silent stream come so often that it never ends by itself.
        while !task.is_over()
            && let Ok(Some(piece)) = SimRuntime::timeout(SILENT_MAX, stream.next()).await
        {
            trace::bytes(&piece);
            let lines = piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.for_each(|line| watched(&client, &task, line));
        }
    }
}

fn watched(client: &SimClient, task: &UserTask, line: &[u8]) {
    let json: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    match json["type"].as_str().unwrap_or_default() {
        "bookmark" | "credential_expires" | "goaway" => {}
        "error" if json["code"] == "denied" || json["code"] == "unauthenticated" => {
            client.world.coverage.probe(Probe::WatchDenied);
        }
        "error" => {}
        _ => {
            let revision = Revision(json["revision"].as_u64().unwrap_or_default());
            let until = client.world.oracle.newest();
            client.world.oracle.observe(&Fact::Shown { user: task.user, revision, until });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_be_disabled_until_an_answer_says_that_it_is_enabled() {
        let task = UserTask::new(AccessUser::ALL[0]);
        assert!(!task.may_be_disabled());
        task.disabled(true);
        assert!(task.may_be_disabled());
        task.enabled();
        assert!(!task.may_be_disabled());
        task.disabled(false);
        task.enabled();
        task.disabled(true);
        task.enabled();
        assert!(task.may_be_disabled(), "the first request may still arrive");
    }
}

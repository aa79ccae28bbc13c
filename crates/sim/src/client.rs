//! The common part of every client: it calls any node by HTTP, retries with the same key until the outcome is known,
//! and reports to the oracle.

use crate::{
    coverage::Probe,
    facts::Fact,
    stream::Stream,
    trace,
    world::{ADMIN_TOKEN, AnsweredWithin, CallReply, World},
};
use axum::body::Body;
use fairhold_types::{GrantId, NodeId, Revision};
use http::{HeaderMap, Method, Request, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::time::Duration;

/// How much longer than the `wait` of its request a client waits for the answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The timeout that a client sets for the server's own work.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
/// One in this many writes arrives a second time.
const ECHO_ONE_IN: u32 = 10;
/// Half of these copies arrive sooner than the others by this factor.
const SOONER: u32 = 25;
/// The seed of when the connection of a second copy closes, and after how long at most.
const DISCONNECTS: u64 = 0x6861_6e67_2075_7073;
const DISCONNECT_MICROS_MAX: u64 = 40_000;
/// The wall clock when the world began: 2026-01-01, in milliseconds.
pub(crate) const WORLD_BEGAN_MS: u64 = 1_767_225_600_000;

/// The header with the credential. Without another one, a client is an administrator.
const AUTHORIZATION: &str = "authorization";

/// The name of a lock in the path of a call.
pub(crate) fn lock_in_path(lock: &str) -> String {
    lock.replace('/', "%2F")
}

/// A request that can be retried.
#[derive(Debug, Clone)]
pub(crate) struct ClientRequest {
    method: Method,
    pub(crate) uri: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    wait: Duration,
    disconnect_after: Option<Duration>,
    /// A local read: its answer may be older than earlier answers.
    local: bool,
}

impl ClientRequest {
    /// A request without headers and body.
    pub(crate) fn new(method: Method, uri: impl Into<String>) -> ClientRequest {
        ClientRequest {
            method,
            uri: uri.into(),
            headers: Vec::new(),
            body: String::new(),
            wait: Duration::ZERO,
            disconnect_after: None,
            local: false,
        }
    }

    /// Method and path, with `*` for the names of single things: all names that clients make have digits.
    fn route(&self) -> String {
        let path = self.uri.split('?').next().unwrap_or_default();
        let is_name = |segment: &str| segment != "v1" && segment.contains(|letter: char| letter.is_ascii_digit());
        let general = path.split('/').map(|segment| if is_name(segment) { "*" } else { segment });
        format!("{} {}", self.method, general.collect::<Vec<_>>().join("/"))
    }

    /// With a header.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> ClientRequest {
        self.headers.push((name, value.into()));
        self
    }

    /// With a body.
    pub(crate) fn body(mut self, body: impl Into<String>) -> ClientRequest {
        self.body = body.into();
        self
    }

    /// Lets the server wait this long before it answers.
    pub(crate) fn wait(mut self, wait: Duration) -> ClientRequest {
        self.wait = wait;
        self
    }

    /// Makes the client close the connection before its wait is over.
    pub(crate) fn disconnect_after(mut self, patience: Duration) -> ClientRequest {
        self.disconnect_after = Some(patience);
        self
    }

    /// Sometimes makes the client close the connection before it can learn the outcome.
    pub(crate) fn disconnect_sometimes(self, client: &mut SimClient) -> ClientRequest {
        let millis = client.rng.random_range(1..60);
        if client.rng.random_range(0..6) == 0 { self.disconnect_after(Duration::from_millis(millis)) } else { self }
    }

    /// Allows an answer that is older than earlier answers. Only local reads do.
    pub(crate) fn local(mut self) -> ClientRequest {
        self.local = true;
        self
    }

    /// Its idempotency key.
    fn key(&self) -> Option<&str> {
        self.headers.iter().find(|(name, _)| *name == "idempotency-key").map(|(_, key)| key.as_str())
    }

    fn to_http(&self) -> Request<Body> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(&self.uri)
            .header("fairhold-timeout", format!("{}s", SERVER_TIMEOUT.as_secs()));
        request = request.extension(AnsweredWithin(self.wait + SERVER_TIMEOUT));
        if self.headers.iter().all(|(name, _)| *name != AUTHORIZATION) {
            request = request.header(AUTHORIZATION, format!("Bearer {ADMIN_TOKEN}"));
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Body::from(self.body.clone())).expect("the simulator's requests are well-formed")
    }
}

/// An answer.
#[derive(Clone)]
pub(crate) struct ClientReply {
    pub(crate) status: StatusCode,
    pub(crate) revision: Revision,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: serde_json::Value,
    /// When the first attempt was sent, when this attempt was sent, and when its answer arrived.
    pub(crate) first_sent: Duration,
    pub(crate) sent: Duration,
    pub(crate) received: Duration,
}

impl ClientReply {
    /// A number in the JSON body.
    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.json.get(field).and_then(serde_json::Value::as_u64)
    }

    /// A text in the JSON body; empty if it is missing.
    pub(crate) fn field(&self, field: &str) -> &str {
        self.json.get(field).and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// The version in the `ETag`.
    pub(crate) fn version(&self) -> Option<i64> {
        self.headers.get("etag")?.to_str().ok()?.trim_matches('"').parse().ok()
    }
}

/// One client. It has no clock; it uses true time.
pub(crate) struct SimClient {
    pub(crate) world: World,
    pub(crate) name: String,
    pub(crate) rng: SmallRng,
    /// Draws which requests arrive a second time, and when.
    echoes: SmallRng,
    /// Draws when the connection of a second copy closes.
    disconnects: SmallRng,
}

impl SimClient {
    /// A client; the seed decides everything it does.
    pub(crate) fn new(world: World, name: String, seed: u64) -> SimClient {
        let echoes = SmallRng::seed_from_u64(!seed);
        let disconnects = SmallRng::seed_from_u64(seed ^ DISCONNECTS);
        SimClient { world, name, rng: SmallRng::seed_from_u64(seed), echoes, disconnects }
    }

    /// A new idempotency key.
    pub(crate) fn key(&mut self) -> String {
        let random: u128 = self.rng.random();
        let millis = u128::from(WORLD_BEGAN_MS) + trace::since_start().as_millis();
        GrantId::from_ulid(millis << 80 | random >> 48).to_string()
    }

    /// Sleeps for up to this many milliseconds.
    pub(crate) async fn idle(&mut self, most_ms: u64) {
        let millis = self.rng.random_range(1..=most_ms.max(2));
        SimRuntime::sleep(Duration::from_millis(millis)).await;
    }

    /// Calls any node once. `None`: the outcome is unknown.
    pub(crate) async fn call_once(&mut self, request: &ClientRequest) -> Option<ClientReply> {
        let to = self.draw_node(request);
        self.call_once_at(to, request).await
    }

    /// Draws the node for a request, and sometimes sends a second copy to another one.
    pub(crate) fn draw_node(&mut self, request: &ClientRequest) -> NodeId {
        let ids = self.world.ids();
        let to = ids[self.rng.random_range(0..ids.len())];
        if request.method != Method::GET && self.echoes.random_range(0..ECHO_ONE_IN) == 0 {
            drop(SimRuntime::spawn(self.echo(request)));
        }
        to
    }

    /// Delivers a second copy of a request to a random node, much later, as if the network had held it back. No client
    /// waits for the answer: half of the connections end soon, around the time at which the request is committed.
    fn echo(&mut self, request: &ClientRequest) -> impl Future<Output = ()> + use<> {
        let ids = self.world.ids();
        let to = ids[self.echoes.random_range(0..ids.len())];
        let late = Duration::from_millis(self.echoes.random_range(100..self.world.echo_ms_max));
        // Half of the copies arrive while the requested grant may still be held.
        let after = if self.disconnects.random_range(0..2) == 0 { late / SOONER } else { late };
        let (world, request, name) = (self.world.clone(), request.clone(), self.name.clone());
        let will_disconnect = self.disconnects.random_range(0..2) == 0;
        let soon = Duration::from_micros(self.disconnects.random_range(1_000..DISCONNECT_MICROS_MAX));
        let patience = if will_disconnect { soon } else { request.wait + PATIENCE };
        async move {
            SimRuntime::sleep(after).await;
            let is_settled = request.key().is_some_and(|key| world.oracle.has_settled(key));
            let what = format!("{name} {} {} at n{to}, once more", request.method, request.uri);
            trace::event(&what);
            let reply = SimRuntime::timeout(patience, world.call(to, request.to_http())).await.ok().flatten();
            if let Some(reply) = reply {
                trace::event(&format!("{what}: {}", reply.status));
                world.coverage.probe(if is_settled { Probe::EchoOfSettled } else { Probe::Echo });
            }
        }
    }

    /// Calls one node once.
    pub(crate) async fn call_once_at(&self, to: NodeId, request: &ClientRequest) -> Option<ClientReply> {
        let (sent, floor) = (trace::since_start(), self.world.oracle.acknowledged());
        let call = self.world.call(to, request.to_http());
        let patience = request.disconnect_after.unwrap_or(request.wait + PATIENCE);
        let reply = SimRuntime::timeout(patience, call).await;
        if reply.is_err() && request.disconnect_after.is_some() {
            self.world.coverage.fault("client hung up");
        }
        let reply = reply.ok().flatten();
        let what = format!("{} {} {} at n{to}", self.name, request.method, request.uri.split('?').next().unwrap_or_default());
        if request.disconnect_after.is_none() && self.world.calm.since(sent) {
            let received = reply.as_ref().map(|_| trace::since_start());
            let (what, within) = (what.clone(), request.wait + self.world.calm.soon());
            self.world.oracle.observe(&Fact::Called { what, sent, received, within });
        }
        let Some(CallReply { status, headers, body }) = reply else {
            trace::event(&format!("{what}: no answer"));
            self.world.coverage.call(format!("{} no answer", request.route()));
            return None;
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        let json = serde_json::from_str(&text).unwrap_or_default();
        let revision = self.revision_of(&headers);
        let reply = ClientReply { status, revision, text, json, first_sent: sent, sent, received: trace::since_start(), headers };
        trace::event(&format!("{what}: {status} {}", reply.field("code")));
        self.world
            .coverage
            .call(format!("{} {} {}", request.route(), status.as_u16(), reply.field("code")).trim_end().to_owned());
        if status.is_success() {
            // A node that tells of its own removal is no member any more: it heard of that without the revisions before it.
            let tells_own_removal = request.method == Method::DELETE && request.uri == format!("/v1/cluster/members/{to}");
            let floor = if request.local || tells_own_removal { Revision(0) } else { floor };
            self.world.oracle.observe(&Fact::Answered { what, floor, revision });
            if let Some(key) = request.key() {
                self.world.oracle.observe(&Fact::Settled { key: key.to_owned() });
            }
        }
        Some(reply)
    }

    /// Opens a streamed answer at any node.
    pub(crate) async fn open(&mut self, request: &ClientRequest) -> Option<Stream> {
        let ids = self.world.ids();
        let to = ids[self.rng.random_range(0..ids.len())];
        let opened = SimRuntime::timeout(PATIENCE, self.world.open(to, request.to_http())).await.ok().flatten();
        let status = opened.as_ref().map(|stream| stream.status.as_u16().to_string());
        let status = status.unwrap_or_else(|| "no answer".to_owned());
        trace::event(&format!("{} {} {} at n{to}: {status}", self.name, request.method, request.uri));
        self.world.coverage.call(format!("{} {status} of a stream", request.route()));
        opened
    }

    /// The revision that an answer reflects.
    pub(crate) fn revision_of(&self, headers: &HeaderMap) -> Revision {
        let header = headers.get("fairhold-revision").and_then(|value| value.to_str().ok());
        Revision(header.and_then(|text| text.parse().ok()).unwrap_or_default())
    }

    /// Retries until the outcome is known, at most `tries` times. `None`: it is still unknown.
    pub(crate) async fn call_until_known(&mut self, request: &ClientRequest, tries: u32) -> Option<ClientReply> {
        let first_sent = trace::since_start();
        for _ in 0..tries {
            match self.call_once(request).await {
                Some(reply) if reply.status == StatusCode::SERVICE_UNAVAILABLE => {
                    self.world.coverage.probe(Probe::NotDone);
                }
                Some(reply) if reply.status == StatusCode::GATEWAY_TIMEOUT => self.world.coverage.probe(Probe::OutcomeUnknown),
                Some(reply) => return Some(ClientReply { first_sent, ..reply }),
                None => self.world.coverage.probe(Probe::OutcomeUnknown),
            }
            self.idle(300).await;
        }
        None
    }

    /// Reports an answer that the contract does not allow. A full state allows it, in a scenario with a small state.
    pub(crate) fn unexpected(&self, what: &str, reply: &ClientReply) {
        if self.world.state_bytes.is_some() && reply.field("code") == "state_full" {
            return self.world.coverage.probe(Probe::StateFull);
        }
        let ClientReply { status, text, .. } = reply;
        self.world.oracle.violation(format!("{}: {what} was answered with {status} {text}", self.name));
    }
}

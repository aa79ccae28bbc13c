//! The common part of every client: it calls any node by HTTP, retries with the same key until the outcome is known, and
//! reports to the oracle.

use crate::{
    facts::Fact,
    stream::Stream,
    tally::Probe,
    trace,
    world::{AnsweredWithin, CallReply, World},
};
use axum::body::Body;
use fairhold_types::{GrantId, NodeId, Revision};
use http::{HeaderMap, Method, Request, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::time::Duration;

/// A client waits for an answer as long as its request may wait, and this much longer.
const PATIENCE: Duration = Duration::from_secs(4);
/// What a client asks of the server's own work.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
/// One call in so many that changes something arrives once more.
const ECHO_ONE_IN: u32 = 10;
/// So many times sooner than the others half of these come.
const SOONER: u32 = 25;
/// What decides when nobody waits any more for what is delivered once more, and after how long at most.
const HANG_UPS: u64 = 0x6861_6e67_2075_7073;
const HANG_UP_MICROS_MAX: u64 = 40_000;
/// The wall clock when the world began: 2026-01-01, in milliseconds.
pub(crate) const WORLD_BEGAN_MS: u64 = 1_767_225_600_000;

/// A request that can be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    method: Method,
    pub(crate) uri: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    wait: Duration,
    hang_up_after: Option<Duration>,
    /// Its answer may be older than what was told before it was asked.
    local: bool,
}

impl Ask {
    /// A request without headers and body.
    pub(crate) fn new(method: Method, uri: impl Into<String>) -> Ask {
        let (headers, body) = (Vec::new(), String::new());
        Ask { method, uri: uri.into(), headers, body, wait: Duration::ZERO, hang_up_after: None, local: false }
    }

    /// Method and path, without what names one thing: all names of clients have digits.
    fn route(&self) -> String {
        let path = self.uri.split('?').next().unwrap_or_default();
        let is_name = |segment: &str| segment != "v1" && segment.contains(|letter: char| letter.is_ascii_digit());
        let general = path.split('/').map(|segment| if is_name(segment) { "*" } else { segment });
        format!("{} {}", self.method, general.collect::<Vec<_>>().join("/"))
    }

    /// With a header.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Ask {
        self.headers.push((name, value.into()));
        self
    }

    /// With a body.
    pub(crate) fn body(mut self, body: impl Into<String>) -> Ask {
        self.body = body.into();
        self
    }

    /// The server may wait so long before it answers.
    pub(crate) fn wait(mut self, wait: Duration) -> Ask {
        self.wait = wait;
        self
    }

    /// The client does not wait as long as it said.
    pub(crate) fn hang_up_after(mut self, patience: Duration) -> Ask {
        self.hang_up_after = Some(patience);
        self
    }

    /// Now and then the client hangs up so soon that it does not hear of what it did.
    pub(crate) fn hang_up_sometimes(self, client: &mut SimClient) -> Ask {
        let millis = client.chance.random_range(1..60);
        if client.chance.random_range(0..6) == 0 { self.hang_up_after(Duration::from_millis(millis)) } else { self }
    }

    /// Its answer may be older than one that came before it was asked. All others must not.
    pub(crate) fn local(mut self) -> Ask {
        self.local = true;
        self
    }

    /// Its idempotency key.
    fn key(&self) -> Option<&str> {
        self.headers.iter().find(|(name, _)| *name == "idempotency-key").map(|(_, key)| key.as_str())
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(&self.uri)
            .header("fairhold-timeout", format!("{}s", SERVER_TIMEOUT.as_secs()));
        request = request.extension(AnsweredWithin(self.wait + SERVER_TIMEOUT));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Body::from(self.body.clone())).expect("the simulator's requests are well-formed")
    }
}

/// An answer whose outcome is known.
#[derive(Clone)]
pub(crate) struct ClientReply {
    pub(crate) status: StatusCode,
    pub(crate) revision: Revision,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: serde_json::Value,
    /// When the first try was sent, when this one was, and when its answer came.
    pub(crate) asked: Duration,
    pub(crate) sent: Duration,
    pub(crate) came: Duration,
}

impl ClientReply {
    /// A number in the JSON body.
    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.json.get(field).and_then(serde_json::Value::as_u64)
    }

    /// A text in the JSON body.
    pub(crate) fn field(&self, field: &str) -> &str {
        self.json.get(field).and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// The version that an answer names.
    pub(crate) fn version(&self) -> Option<i64> {
        self.headers.get("etag")?.to_str().ok()?.trim_matches('"').parse().ok()
    }
}

/// One client. It has no clock of its own: it lives in true time.
pub(crate) struct SimClient {
    pub(crate) world: World,
    pub(crate) name: String,
    pub(crate) chance: SmallRng,
    /// What is delivered once more, and when.
    echoes: SmallRng,
    /// When nobody waits any more for the answer to what is delivered once more.
    hang_ups: SmallRng,
}

impl SimClient {
    /// A client; the seed decides all that it does.
    pub(crate) fn new(world: World, name: String, seed: u64) -> SimClient {
        let echoes = SmallRng::seed_from_u64(!seed);
        let hang_ups = SmallRng::seed_from_u64(seed ^ HANG_UPS);
        SimClient { world, name, chance: SmallRng::seed_from_u64(seed), echoes, hang_ups }
    }

    /// A new idempotency key.
    pub(crate) fn key(&mut self) -> String {
        let random: u128 = self.chance.random();
        let millis = u128::from(WORLD_BEGAN_MS) + trace::since_start().as_millis();
        GrantId::from_ulid(millis << 80 | random >> 48).to_string()
    }

    /// Does nothing for a while, up to so many milliseconds.
    pub(crate) async fn idle(&mut self, most_ms: u64) {
        let millis = self.chance.random_range(1..=most_ms.max(2));
        SimRuntime::sleep(Duration::from_millis(millis)).await;
    }

    /// Asks any node once. `None`: it may have been done or not.
    pub(crate) async fn once(&mut self, ask: &Ask) -> Option<ClientReply> {
        let ids = self.world.ids();
        let to = ids[self.chance.random_range(0..ids.len())];
        if ask.method != Method::GET && self.echoes.random_range(0..ECHO_ONE_IN) == 0 {
            drop(SimRuntime::spawn(self.echo(ask)));
        }
        self.once_at(to, ask).await
    }

    /// Delivers a second copy of a request to a random node, much later, as if the network had held it back. No client waits
    /// for the answer: half of the connections end soon, around the time at which the request is committed.
    fn echo(&mut self, ask: &Ask) -> impl Future<Output = ()> + use<> {
        let ids = self.world.ids();
        let to = ids[self.echoes.random_range(0..ids.len())];
        let late = Duration::from_millis(self.echoes.random_range(100..self.world.echo_ms_max));
        // Half of them come while what was asked for may be held yet.
        let after = if self.hang_ups.random_range(0..2) == 0 { late / SOONER } else { late };
        let (world, ask, name) = (self.world.clone(), ask.clone(), self.name.clone());
        let hangs_up = self.hang_ups.random_range(0..2) == 0;
        let soon = Duration::from_micros(self.hang_ups.random_range(1_000..HANG_UP_MICROS_MAX));
        let patience = if hangs_up { soon } else { ask.wait + PATIENCE };
        async move {
            SimRuntime::sleep(after).await;
            let is_settled = ask.key().is_some_and(|key| world.oracle.has_settled(key));
            let what = format!("{name} {} {} at n{to}, once more", ask.method, ask.uri);
            trace::event(&what);
            let reply = SimRuntime::timeout(patience, world.call(to, ask.request())).await.ok().flatten();
            if let Some(reply) = reply {
                trace::event(&format!("{what}: {}", reply.status));
                world.tally.probe(if is_settled { Probe::EchoOfSettled } else { Probe::Echo });
            }
        }
    }

    /// Asks one node once.
    pub(crate) async fn once_at(&self, to: NodeId, ask: &Ask) -> Option<ClientReply> {
        let (sent, floor) = (trace::since_start(), self.world.oracle.acknowledged());
        let call = self.world.call(to, ask.request());
        let patience = ask.hang_up_after.unwrap_or(ask.wait + PATIENCE);
        let reply = SimRuntime::timeout(patience, call).await;
        if reply.is_err() && ask.hang_up_after.is_some() {
            self.world.tally.fault("client hung up");
        }
        let reply = reply.ok().flatten();
        let what = format!("{} {} {} at n{to}", self.name, ask.method, ask.uri.split('?').next().unwrap_or_default());
        if ask.hang_up_after.is_none() && self.world.calm.since(sent) {
            let came = reply.as_ref().map(|_| trace::since_start());
            let (what, within) = (what.clone(), ask.wait + self.world.calm.soon());
            self.world.oracle.told(&Fact::Called { what, sent, came, within });
        }
        let Some(CallReply { status, headers, body }) = reply else {
            trace::event(&format!("{what}: no answer"));
            self.world.tally.call(format!("{} no answer", ask.route()));
            return None;
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        let json = serde_json::from_str(&text).unwrap_or_default();
        let revision = self.revision_of(&headers);
        let told = ClientReply { status, revision, text, json, asked: sent, sent, came: trace::since_start(), headers };
        trace::event(&format!("{what}: {status} {}", told.field("code")));
        self.world.tally.call(format!("{} {} {}", ask.route(), status.as_u16(), told.field("code")).trim_end().to_owned());
        if status.is_success() {
            let floor = if ask.local { Revision(0) } else { floor };
            self.world.oracle.told(&Fact::Answered { what, floor, revision });
            if let Some(key) = ask.key() {
                self.world.oracle.told(&Fact::Settled { key: key.to_owned() });
            }
        }
        Some(told)
    }

    /// Asks any node for an answer that goes on.
    pub(crate) async fn open(&mut self, ask: &Ask) -> Option<Stream> {
        let ids = self.world.ids();
        let to = ids[self.chance.random_range(0..ids.len())];
        let opened = SimRuntime::timeout(PATIENCE, self.world.open(to, ask.request())).await.ok().flatten();
        let status = opened.as_ref().map(|stream| stream.status.as_u16().to_string());
        let status = status.unwrap_or_else(|| "no answer".to_owned());
        trace::event(&format!("{} {} {} at n{to}: {status}", self.name, ask.method, ask.uri));
        self.world.tally.call(format!("{} {status} of a stream", ask.route()));
        opened
    }

    /// The revision that an answer reflects.
    pub(crate) fn revision_of(&self, headers: &HeaderMap) -> Revision {
        let header = headers.get("fairhold-revision").and_then(|value| value.to_str().ok());
        Revision(header.and_then(|text| text.parse().ok()).unwrap_or_default())
    }

    /// Asks until the outcome is known, at most so often. `None`: it is still unknown.
    pub(crate) async fn until_known(&mut self, ask: &Ask, tries: u32) -> Option<ClientReply> {
        let asked = trace::since_start();
        for _ in 0..tries {
            match self.once(ask).await {
                Some(told) if told.status == StatusCode::SERVICE_UNAVAILABLE => {
                    self.world.tally.probe(Probe::SurelyNotDone);
                }
                Some(told) if told.status == StatusCode::GATEWAY_TIMEOUT => self.world.tally.probe(Probe::OutcomeUnknown),
                Some(told) => return Some(ClientReply { asked, ..told }),
                None => self.world.tally.probe(Probe::OutcomeUnknown),
            }
            self.idle(300).await;
        }
        None
    }

    /// The contract does not know this answer; but that the state is full, where it is small.
    pub(crate) fn unexpected(&self, what: &str, told: &ClientReply) {
        if self.world.state_bytes.is_some() && told.field("code") == "state_full" {
            return self.world.tally.probe(Probe::StateFull);
        }
        let ClientReply { status, text, .. } = told;
        self.world.oracle.violation(format!("{}: {what} was answered with {status} {text}", self.name));
    }
}

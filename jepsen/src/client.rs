//! One client: it sends one operation at a time, and records each call and its answer.

mod administer;
mod batch;
mod convert;
mod rights;
mod txn;

pub(crate) use batch::Part;
pub(crate) use rights::{ChaosUser, RightsChange};

use crate::{
    history::{Call, Op, OpRights, Outcome, Recorder, ResourceWrite, Running},
    http::{Http, Reply, Request, bearer},
    new_key,
    resource::Resource,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The ttl of a grant or a session.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// How long the server may work on a request.
const WORK: Duration = Duration::from_secs(2);
/// The maximum number of attempts of a release. Each attempt is its own operation.
const RELEASES_MAX: usize = 4;
/// The pause of a client after a failure, so that it does not flood a cluster that is down.
const AFTER_FAILURE: Duration = Duration::from_millis(30);

/// The state that all clients share.
#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) resource: Resource,
    /// Whether the clients must stop.
    pub(crate) over: AtomicBool,
    /// The number of the next process.
    pub(crate) processes: AtomicU64,
    /// The number of the next owner of a grant.
    pub(crate) attempts: AtomicU64,
    /// How many of a thousand holders of fenced locks sleep for longer than their lease.
    pub(crate) sleepers: u32,
}

/// A client.
#[derive(Debug)]
pub(crate) struct ChaosClient {
    pub(crate) shared: Arc<ClientShared>,
    pub(crate) random: SmallRng,
    http: Http,
    process: u64,
    /// The user that makes the calls, if its rights change during the run.
    user: Option<Arc<ChaosUser>>,
}

/// The options of an acquire.
#[derive(Debug, Clone, Default)]
pub(crate) struct AcquireOptions {
    pub(crate) key: String,
    /// An election; its value is generated.
    pub(crate) election: bool,
    pub(crate) shared: bool,
    /// The permits of the grant.
    pub(crate) permits: Option<u32>,
    /// The limit of the lock; `None` if an administrator sets it.
    pub(crate) limit: Option<u32>,
    pub(crate) wait: Duration,
    /// The session that owns the grant.
    pub(crate) session: Option<Opened>,
}

/// A held grant.
#[derive(Debug, Clone)]
pub(crate) struct HeldLock {
    /// The index of its acquire in the history.
    pub(crate) grant: usize,
    pub(crate) key: String,
    pub(crate) token: u64,
    id: String,
    /// Until when its client may believe that it holds it, in microseconds since the start of the run.
    pub(crate) good_until: u64,
    /// The values read at the resource that compares tokens, and at the other one.
    read: (u64, u64),
}

/// An open session.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) id: String,
    pub(crate) number: u64,
}

impl ChaosClient {
    /// A client.
    pub(crate) fn new(http: Http, shared: Arc<ClientShared>, seed: u64) -> ChaosClient {
        let process = shared.processes.fetch_add(1, Ordering::SeqCst);
        ChaosClient { shared, random: SmallRng::seed_from_u64(seed), http, process, user: None }
    }

    /// The same client, for a user: each call shows the newest token of this user.
    pub(crate) fn of_user(self, user: &Arc<ChaosUser>) -> ChaosClient {
        ChaosClient { http: self.http.without_token(), user: Some(Arc::clone(user)), ..self }
    }

    /// Whether it must stop.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::SeqCst)
    }

    fn any_node(&mut self) -> usize {
        let serving = self.http.serving();
        serving[self.random.random_range(0..serving.len())]
    }

    /// Calls a random node once, and records it.
    async fn ask(
        &mut self,
        call: Call,
        key: &str,
        describe: impl FnOnce(&mut Op),
        request: Request,
        learn: impl FnOnce(&Reply, &mut Op),
    ) -> (Running, Reply) {
        let node = self.any_node();
        let (request, rights) = self.as_user(call, request);
        let describe = |op: &mut Op| {
            op.rights = rights;
            describe(op);
        };
        let running = self.shared.recorder.invoke(self.process, node, call, key, describe);
        let reply = self.http.ask(node, &request).await;
        self.shared.recorder.complete(&running, reply.outcome, |op| {
            op.error.clone_from(&reply.error);
            op.revision = reply.revision();
            learn(&reply, op);
        });
        if reply.outcome == Outcome::Unknown {
            self.process = self.shared.processes.fetch_add(1, Ordering::SeqCst);
        }
        if reply.outcome != Outcome::Ok && !matches!(reply.code(), "wait_timeout" | "lock_held" | "version_mismatch") {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        (running, reply)
    }

    /// Lets a request show the token of the user, and says which rights it needs.
    fn as_user(&self, call: Call, request: Request) -> (Request, Option<OpRights>) {
        let Some((user, credential)) = self.user.as_ref().and_then(|user| Some((user, user.credential()?))) else {
            return (request, None);
        };
        let rights = OpRights { user: user.number, credential: Some(credential.number), rights: call.needs().to_vec() };
        (request.header("authorization", bearer(&credential.token)), Some(rights))
    }

    /// Acquires a grant. If the outcome is unknown, releases it.
    pub(crate) async fn acquire(&mut self, wish: &AcquireOptions) -> Option<HeldLock> {
        let id = new_key();
        // The watch shows the owner, so each request has its own.
        let owner = format!("a{}", self.shared.attempts.fetch_add(1, Ordering::SeqCst));
        let collection = if wish.election { "elections" } else { "locks" };
        let mut path = format!("/v1/{collection}/{}?wait={}ms&owner={owner}", wish.key, wish.wait.as_millis());
        match &wish.session {
            Some(session) => path.push_str(&format!("&session={}", session.id)),
            None => path.push_str(&format!("&ttl={}ms", TTL.as_millis())),
        }
        if wish.election {
            path.push_str(&format!("&value={owner}"));
        }
        if wish.shared {
            path.push_str("&mode=shared");
        }
        for (name, number) in [("permits", wish.permits), ("limit", wish.limit)] {
            if let Some(number) = number {
                path.push_str(&format!("&{name}={number}"));
            }
        }
        let describe = |op: &mut Op| {
            (op.shared, op.permits, op.limit) = (wish.shared, wish.permits, wish.limit);
            // A session's grants live as long as the session.
            op.ttl = wish.session.is_none().then_some(micros(TTL));
            op.session = wish.session.as_ref().map(|session| session.number);
            (op.grant, op.value) = (Some(op.index), Some(owner));
        };
        let request = Request::post(path, &id).within(WORK, wish.wait);
        let (running, reply) = self
            .ask(Call::Acquire, &wish.key, describe, request, |reply, op| {
                (op.number, op.token) = (reply.json["number"].as_u64(), reply.json["token"].as_u64());
            })
            .await;
        let good_until = running.start + micros(TTL);
        let mut held = HeldLock { grant: running.index, key: wish.key.clone(), token: 0, id, good_until, read: (0, 0) };
        match (reply.outcome, reply.json["token"].as_u64()) {
            (Outcome::Ok, Some(token)) => {
                held.token = token;
                Some(held)
            }
            (Outcome::Fail, _) => None,
            (Outcome::Ok | Outcome::Unknown, _) => {
                self.release(&held).await;
                None
            }
        }
    }

    /// Renews a grant. Returns whether it succeeded.
    pub(crate) async fn renew(&mut self, held: &mut HeldLock) -> bool {
        self.renew_for(held, TTL).await == Outcome::Ok
    }

    /// Releases a grant. Tries several nodes, or its lock would be blocked for the rest of the lease.
    pub(crate) async fn release(&mut self, held: &HeldLock) {
        for _ in 0..RELEASES_MAX {
            let request = Request::delete(format!("/v1/grants/{}", held.id)).within(WORK, Duration::ZERO);
            let describe = |op: &mut Op| (op.grant, op.token) = (Some(held.grant), Some(held.token).filter(|token| *token > 0));
            let (_, reply) = self.ask(Call::Release, &held.key, describe, request, |_, _| {}).await;
            if reply.outcome == Outcome::Ok {
                return;
            }
        }
    }

    /// Whether its client may still believe that it holds a grant.
    pub(crate) fn believes_in(&self, held: &HeldLock) -> bool {
        self.shared.recorder.now() < held.good_until
    }

    /// Reads the external resource, which learns the token from it.
    pub(crate) fn read_resource(&self, held: &mut HeldLock) {
        held.read = self.shared.resource.read(&held.key, held.token);
    }

    /// Writes the value that it read, plus one.
    pub(crate) fn write_resource(&self, held: &mut HeldLock) {
        let (based_on, unfenced) = held.read;
        let value = based_on + 1;
        let believed = self.believes_in(held);
        let accepted = self.shared.resource.write(&held.key, held.token, value, unfenced);
        let at = self.shared.recorder.now();
        let (key, grant, token) = (held.key.clone(), held.grant, held.token);
        self.shared.recorder.resource(ResourceWrite { at, key, grant, token, based_on, value, accepted, believed });
        if accepted {
            held.read = (value, unfenced + 1);
        }
    }

    /// Writes a node with the grant's token as the fence.
    pub(crate) async fn write_fenced(&mut self, held: &HeldLock) {
        let value = new_key();
        let request = Request::put(format!("/v1/nodes/chaos/{}?parents", held.key), &new_key(), value.clone());
        let request = request.header("fairhold-fence", format!("{}={}", held.key, held.token)).within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| {
            (op.grant, op.token, op.value) = (Some(held.grant), Some(held.token), Some(value));
        };
        self.ask(Call::FencedWrite, &held.key, describe, request, learn_write).await;
    }

    /// Reads a node.
    pub(crate) async fn read(&mut self, key: &str) -> Option<(Option<i64>, String)> {
        let request = Request::get(format!("/v1/nodes/{key}")).within(WORK, Duration::ZERO);
        let (_, reply) = self
            .ask(
                Call::Read,
                key,
                |_| {},
                request,
                |reply, op| {
                    if reply.code() == "no_node" {
                        // The read found no node.
                        (op.outcome, op.error) = (Outcome::Ok, None);
                    }
                    if op.outcome == Outcome::Ok && reply.status == 200 {
                        (op.version, op.value) = (reply.version(), Some(reply.text.clone()));
                    }
                },
            )
            .await;
        (reply.outcome == Outcome::Ok || reply.code() == "no_node").then(|| (reply.version(), reply.text.clone()))
    }

    /// Writes a node, with `version` only if it has that version.
    pub(crate) async fn write(&mut self, key: &str, version: Option<i64>) -> Outcome {
        let value = new_key();
        let request = Request::put(format!("/v1/nodes/{key}?parents"), &new_key(), value.clone()).within(WORK, Duration::ZERO);
        let (call, request) = match version {
            Some(version) => (Call::Cas, request.header("if-match", format!("\"{version}\""))),
            None => (Call::Write, request),
        };
        // `number` is the expected version.
        let describe =
            |op: &mut Op| (op.value, op.number) = (Some(value), version.and_then(|version| u64::try_from(version).ok()));
        self.ask(call, key, describe, request, learn_write).await.1.outcome
    }

    /// Opens a session.
    pub(crate) async fn open(&mut self, key: &str) -> Option<Opened> {
        let request = Request::post(format!("/v1/sessions?ttl={}ms", TTL.as_millis()), &new_key()).within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| op.ttl = Some(micros(TTL));
        let (_, reply) =
            self.ask(Call::Open, key, describe, request, |reply, op| op.number = reply.json["number"].as_u64()).await;
        let (id, number) = (reply.json["id"].as_str()?.to_owned(), reply.json["number"].as_u64()?);
        (reply.outcome == Outcome::Ok).then_some(Opened { id, number })
    }

    /// Sends a keepalive.
    pub(crate) async fn keepalive(&mut self, key: &str, session: &Opened) -> Outcome {
        let request = Request::post(format!("/v1/sessions/{}/keepalive", session.id), &new_key()).within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| (op.number, op.ttl) = (Some(session.number), Some(micros(TTL)));
        self.ask(Call::Keepalive, key, describe, request, |_, _| {}).await.1.outcome
    }

    /// Creates an ephemeral node.
    pub(crate) async fn ephemeral(&mut self, key: &str, session: &Opened) -> Outcome {
        let path = format!("/v1/nodes/chaos/{key}?session={}&parents", session.id);
        let request = Request::put(path, &new_key(), "here").within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| op.number = Some(session.number);
        self.ask(Call::Ephemeral, key, describe, request, learn_write).await.1.outcome
    }

    /// Closes a session.
    pub(crate) async fn close(&mut self, key: &str, session: &Opened) {
        let request = Request::delete(format!("/v1/sessions/{}", session.id)).within(WORK, Duration::ZERO);
        self.ask(Call::Close, key, |op| op.number = Some(session.number), request, |_, _| {}).await;
    }

    /// Proclaims another value as the leader of an election.
    pub(crate) async fn proclaim(&mut self, held: &HeldLock) {
        let value = new_key();
        let path = format!("/v1/elections/{}?grant={}&value={value}", held.key, held.id);
        let request = Request::put(path, &new_key(), "").within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| (op.grant, op.token, op.value) = (Some(held.grant), Some(held.token), Some(value));
        self.ask(Call::Proclaim, &held.key, describe, request, learn_write).await;
    }

    /// Reads the leader of an election.
    pub(crate) async fn leader(&mut self, key: &str) {
        let request = Request::get(format!("/v1/elections/{key}")).within(WORK, Duration::ZERO);
        self.ask(
            Call::Leader,
            key,
            |_| {},
            request,
            |reply, op| {
                if reply.code() == "no_leader" {
                    (op.outcome, op.error) = (Outcome::Ok, None);
                }
                op.token = reply.json["token"].as_u64();
                op.value = reply.json["value"].as_str().map(str::to_owned);
            },
        )
        .await;
    }
}

fn learn_write(reply: &Reply, op: &mut Op) {
    op.version = reply.json["version"].as_i64().or_else(|| reply.version());
    if let Some(revision) = reply.json["revision"].as_u64() {
        op.revision = Some(revision);
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

//! A client's grant, from the client's view: it acquires the grant, renews it, writes with its fence, and releases it.

use crate::{
    client::{ClientReply, ClientRequest, SimClient},
    coverage::Probe,
    facts::{Conversion, Fact},
    trace,
};
use fairhold_types::{FencingToken, LockName, Mode, Revision, SessionNumber, duration, limits::TOMBSTONE_KEPT_FOR};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// The maximum number of attempts of an acquire with one key.
pub(super) const TRIES: u32 = 8;
/// The maximum number of attempts of a release: they last until long after every lease has expired.
const RELEASE_TRIES: u32 = 40;
/// The minimum time for which an ended grant is remembered, by the fastest clocks.
pub(super) const REMEMBERED_MIN: Duration = Duration::from_secs(TOMBSTONE_KEPT_FOR.as_secs() / 5);
/// The limit that clients of a semaphore pass.
pub(super) const LIMIT: u32 = 3;

/// One acquisition.
pub(super) struct Acquisition {
    pub(super) lock: LockName,
    pub(super) mode: Mode,
    /// The permits of a semaphore; otherwise 1.
    pub(super) permits: u32,
    pub(super) key: String,
    pub(super) ttl: Duration,
    pub(super) request: ClientRequest,
}

/// A grant that its client believes it holds.
pub(super) struct HeldGrant {
    pub(super) lock: LockName,
    pub(super) mode: Mode,
    permits: u32,
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) session: SessionNumber,
    pub(super) token: FencingToken,
    /// The current ttl.
    pub(super) ttl: Duration,
    /// The time in which its client may believe that it holds the lock: from, until.
    believed: (Duration, Duration),
}

/// A lock of that name.
pub(super) fn lock(name: &str) -> LockName {
    LockName::parse(name).expect("it is a lock's name")
}

impl Acquisition {
    /// An acquire at a route. `more`: additional parameters.
    pub(super) fn new(
        client: &mut SimClient,
        route: &str,
        held: (&str, Mode),
        ttl: Duration,
        wait: Duration,
        more: &str,
    ) -> Acquisition {
        let key = client.key();
        let (wait_ms, ttl_ms) = (wait.as_millis(), ttl.as_millis());
        let uri = format!("{route}?wait={wait_ms}ms&ttl={ttl_ms}ms&owner={}{more}", client.name);
        let request = ClientRequest::new(Method::POST, uri).header("idempotency-key", key.clone()).wait(wait);
        Acquisition { lock: lock(held.0), mode: held.1, permits: 1, key, ttl, request }
    }

    /// Sometimes makes the client disconnect before its wait is over.
    pub(super) fn disconnect_early_sometimes(self, client: &mut SimClient) -> Acquisition {
        let hurry = Duration::from_millis(client.rng.random_range(50..1_500));
        let request = if client.rng.random_range(0..5) == 0 { self.request.disconnect_after(hurry) } else { self.request };
        Acquisition { request, ..self }
    }

    /// Acquires, with retries until the outcome is known. Returns the grant if it is held.
    pub(super) async fn acquire(&self, client: &mut SimClient) -> Option<HeldGrant> {
        let reply = client.call_until_known(&self.request, TRIES).await?;
        if reply.status != StatusCode::OK {
            refused(client, &self.lock, &reply);
            return None;
        }
        HeldGrant::from_reply(client, self, &reply)
    }
}

/// Checks that the contract allows this refusal of an acquire.
pub(super) fn refused(client: &SimClient, lock: &LockName, reply: &ClientReply) {
    match (reply.status, reply.field("code")) {
        (StatusCode::CONFLICT, "lock_held" | "wait_timeout") => {}
        (StatusCode::GONE, "grant_gone" | "forgotten") => client.world.coverage.probe(Probe::GrantGone),
        // An administrator sets other limits than the clients pass.
        (StatusCode::CONFLICT, "limit_mismatch") if client.world.has_administrator && is_semaphore(lock) => {
            client.world.coverage.probe(Probe::LimitMismatch);
        }
        (StatusCode::TOO_MANY_REQUESTS, "queue_full") if client.world.has_administrator => {
            client.world.coverage.probe(Probe::QueueFull);
        }
        (_, _) => client.unexpected("an acquire", reply),
    }
}

fn is_semaphore(lock: &LockName) -> bool {
    lock.as_str().starts_with("pool")
}

impl HeldGrant {
    /// The grant in an answer to an acquire.
    pub(super) fn from_reply(client: &SimClient, acquisition: &Acquisition, reply: &ClientReply) -> Option<HeldGrant> {
        let facts = (reply.number("token"), reply.number("number"), reply.number("session"));
        let (Some(token), Some(number), Some(session)) = facts else {
            client.unexpected("an acquire", reply);
            return None;
        };
        let (token, session) = (FencingToken(token), SessionNumber(session));
        let oracle = &client.world.oracle;
        oracle.observe(&Fact::Held { lock: acquisition.lock.clone(), number, token });
        if number != token.0 {
            client.world.coverage.probe(Probe::HandedOver);
        }
        if client.world.calm.since(reply.sent) {
            let (lock, sent, received, within) = (acquisition.lock.clone(), reply.sent, reply.received, client.world.calm.soon());
            oracle.observe(&Fact::AcquireAnswered { lock, token, sent, received, within });
        }
        // A grant lives for at least its ttl, counted from the first request.
        oracle.observe(&Fact::Renewed { session, sent: reply.first_sent, ttl: acquisition.ttl });
        let believed = (reply.received, reply.first_sent + acquisition.ttl);
        let (lock, mode, id, ttl) = (acquisition.lock.clone(), acquisition.mode, acquisition.key.clone(), acquisition.ttl);
        let permits = acquisition.permits;
        Some(HeldGrant { lock, mode, permits, id, number, session, token, ttl, believed })
    }

    /// The grant in an answer to a poll, which does not extend the lease.
    pub(super) fn from_look(client: &SimClient, acquisition: &Acquisition, reply: &ClientReply) -> Option<HeldGrant> {
        let found = ClientReply { first_sent: Duration::ZERO, ..reply.clone() };
        HeldGrant::from_reply(client, acquisition, &found)
    }

    /// Its public name.
    pub(super) fn target(&self) -> String {
        format!("#{}", self.number)
    }

    /// The same grant, in another of its locks.
    pub(super) fn in_lock(&self, lock: LockName, mode: Mode) -> HeldGrant {
        let id = self.id.clone();
        let HeldGrant { permits, number, session, token, ttl, believed, .. } = *self;
        HeldGrant { lock, mode, permits, id, number, session, token, ttl, believed }
    }

    /// Renews it. Returns whether its client still believes that it holds it.
    pub(super) async fn renew(&mut self, client: &mut SimClient) -> bool {
        let reply = client.call_once(&ClientRequest::new(Method::POST, format!("/v1/grants/{}/renew", self.id))).await;
        reply.is_none_or(|reply| self.renewed(client, &reply, self.ttl))
    }

    /// Renews it with another ttl, with retries until the outcome is known.
    pub(super) async fn renew_for(&mut self, client: &mut SimClient, ttl: Duration) -> bool {
        let key = client.key();
        let uri = format!("/v1/grants/{}/renew?ttl={}ms", self.id, ttl.as_millis());
        let (sent, change) = (trace::since_start(), Conversion::Retimed(ttl));
        client.world.oracle.observe(&Fact::Changing { target: self.target(), key: key.clone(), change });
        client.world.oracle.observe(&Fact::Retiming { session: self.session, sent, ttl });
        // From now on the shorter ttl may be in force.
        self.believed.1 = self.believed.1.min(sent + ttl);
        let request = ClientRequest::new(Method::POST, uri).header("idempotency-key", key).disconnect_sometimes(client);
        let Some(reply) = client.call_until_known(&request, TRIES).await else { return false };
        let renewed = self.renewed(client, &reply, ttl);
        if reply.status == StatusCode::OK {
            if ttl != self.ttl {
                client.world.coverage.probe(Probe::Retimed);
            }
            self.ttl = ttl;
        }
        renewed
    }

    fn renewed(&mut self, client: &SimClient, reply: &ClientReply, ttl: Duration) -> bool {
        match reply.status {
            StatusCode::OK => {
                if reply.field("ttl") != duration::format(ttl) || reply.field("id") != self.id {
                    client.unexpected(&format!("a renewal of {} for {ttl:?}", self.id), reply);
                }
                client.world.oracle.observe(&Fact::Renewed { session: self.session, sent: reply.sent, ttl });
                self.believed.1 = reply.sent + ttl;
                true
            }
            StatusCode::GONE => false,
            // The servers have forgotten it.
            StatusCode::NOT_FOUND if trace::since_start() + self.ttl >= self.believed.1 + REMEMBERED_MIN => false,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => true,
            _ => {
                client.unexpected("a renewal", reply);
                false
            }
        }
    }

    /// Reports the belief until then. From `from` on the grant has this mode and token.
    pub(super) fn changed(&mut self, client: &SimClient, until: Duration, from: Duration, now: (Mode, FencingToken)) {
        self.report_belief(client, until);
        (self.mode, self.token) = now;
        self.believed.0 = from;
    }

    fn report_belief(&self, client: &SimClient, until: Duration) {
        let (lock, mode, token) = (self.lock.clone(), self.mode, self.token);
        let (from, until) = (self.believed.0, self.believed.1.min(until));
        if from >= until {
            return;
        }
        client.world.oracle.observe(&if is_semaphore(&lock) {
            Fact::Permits { lock, token, permits: self.permits, limit: LIMIT, from, until }
        } else {
            Fact::Believed { lock, mode, token, from, until }
        });
    }

    /// Reports that its client is about to release it and no longer believes in it.
    pub(super) fn report_release(&self, client: &SimClient) {
        client.world.oracle.observe(&Fact::Closing { session: self.session });
        self.report_belief(client, trace::since_start());
    }

    /// Renews it a few times, writes with its fence, and sometimes sleeps for longer than the lease. Then lets go.
    pub(super) async fn work(&mut self, client: &mut SimClient) {
        for _ in 0..client.rng.random_range(1..4) {
            if !self.renew(client).await {
                break;
            }
            match client.rng.random_range(0..4) {
                0 => self.write(client).await,
                1 => self.check_fence(client).await,
                _ => {}
            }
            if client.rng.random_range(0..12) == 0 {
                client.world.coverage.fault("client paused");
                SimRuntime::sleep(self.ttl * 2).await;
                // The client does not know that its lease has expired: the fence must refuse the write.
                self.write(client).await;
            } else {
                client.idle(700).await;
            }
        }
        self.report_release(client);
    }

    /// Writes with its fence in a header.
    pub(super) async fn write(&self, client: &mut SimClient) {
        let value = client.key();
        let path = format!("/ledger-{}", self.lock);
        let fence = format!("{}={};grant={}", self.lock, self.token, self.id);
        let request = ClientRequest::new(Method::PUT, format!("/v1/nodes{path}")).header("fairhold-fence", fence);
        let request = request.header("idempotency-key", value.clone()).body(value.clone()).disconnect_sometimes(client);
        let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
        match reply.status {
            StatusCode::OK | StatusCode::CREATED => {
                let revision = Revision(reply.number("revision").unwrap_or_default());
                client.world.oracle.observe(&self.fenced(revision));
                if let Some(version) = reply.version() {
                    client.world.oracle.observe(&Fact::Wrote { path, version, value, revision });
                }
            }
            StatusCode::PRECONDITION_FAILED => client.world.coverage.probe(Probe::FenceStale),
            _ => client.unexpected("a write with a fence", &reply),
        }
    }

    /// The fact that a write with its token was accepted.
    pub(super) fn fenced(&self, revision: Revision) -> Fact {
        // The holders of a semaphore have different tokens, and write in any order.
        let exclusive = self.mode == Mode::Exclusive && !is_semaphore(&self.lock);
        Fact::Fenced { lock: self.lock.clone(), token: self.token, exclusive, revision }
    }

    async fn check_fence(&self, client: &mut SimClient) {
        let uri = format!("/v1/locks/{}/fence?token={}", self.lock, self.token);
        let Some(reply) = client.call_once(&ClientRequest::new(Method::GET, uri)).await else { return };
        match (reply.status, reply.field("code")) {
            (StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
            (StatusCode::CONFLICT, "stale_token") => client.world.coverage.probe(Probe::FenceStale),
            _ => client.unexpected("a check of a fence", &reply),
        }
    }
}

/// Releases a grant by its id, whatever the outcome of its acquire, so that nothing is left.
pub(super) async fn release(client: &mut SimClient, id: &str) {
    let request = ClientRequest::new(Method::DELETE, format!("/v1/grants/{id}"));
    match client.call_until_known(&request, RELEASE_TRIES).await {
        Some(reply) if reply.status == StatusCode::NO_CONTENT => {
            client.world.oracle.observe(&Fact::Released { id: id.to_owned() });
        }
        Some(reply) => client.unexpected("a release", &reply),
        None => client.world.coverage.call("release given up".to_owned()),
    }
}

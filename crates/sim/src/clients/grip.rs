//! A client's grant, from the client's view: it acquires the grant, renews it, writes with its fence, and releases it.

use crate::{
    client::{Ask, ClientReply, SimClient},
    facts::{Conversion, Fact},
    tally::Probe,
    trace,
};
use fairhold_types::{FencingToken, LockName, Mode, Revision, SessionNumber, duration, limits::REMEMBERED_FOR};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// How often an acquire is asked again before its key is given up.
pub(super) const TRIES: u32 = 8;
/// How often a release is tried: until long after every lease is over.
const RELEASE_TRIES: u32 = 40;
/// For how long an ended grant is remembered at least, where the servers' clocks run fastest.
pub(super) const REMEMBERED_MIN: Duration = Duration::from_secs(REMEMBERED_FOR.as_secs() / 5);
/// How many permits a semaphore has, as its clients say.
pub(super) const LIMIT: u32 = 3;

/// One acquisition.
pub(super) struct GripWish {
    pub(super) lock: LockName,
    pub(super) mode: Mode,
    /// How many permits, of a semaphore.
    pub(super) permits: u32,
    pub(super) key: String,
    pub(super) ttl: Duration,
    pub(super) ask: Ask,
}

/// A grant that is held, as far as its client knows.
pub(super) struct Grip {
    pub(super) lock: LockName,
    pub(super) mode: Mode,
    permits: u32,
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) session: SessionNumber,
    pub(super) token: FencingToken,
    /// The lease's time that is in force.
    pub(super) ttl: Duration,
    /// From when, and until when, its client may believe that it holds.
    believed: (Duration, Duration),
}

/// A lock of that name.
pub(super) fn lock(name: &str) -> LockName {
    LockName::parse(name).expect("it is a lock's name")
}

impl GripWish {
    /// Asks for a lock at a route, with these parameters besides the time to live and the owner.
    pub(super) fn new(
        client: &mut SimClient,
        route: &str,
        held: (&str, Mode),
        ttl: Duration,
        wait: Duration,
        more: &str,
    ) -> GripWish {
        let key = client.key();
        let (wait_ms, ttl_ms) = (wait.as_millis(), ttl.as_millis());
        let uri = format!("{route}?wait={wait_ms}ms&ttl={ttl_ms}ms&owner={}{more}", client.name);
        let ask = Ask::new(Method::POST, uri).header("idempotency-key", key.clone()).wait(wait);
        GripWish { lock: lock(held.0), mode: held.1, permits: 1, key, ttl, ask }
    }

    /// Now and then the client does not wait as long as it said.
    pub(super) fn in_a_hurry_sometimes(self, client: &mut SimClient) -> GripWish {
        let hurry = Duration::from_millis(client.chance.random_range(50..1_500));
        let ask = if client.chance.random_range(0..5) == 0 { self.ask.hang_up_after(hurry) } else { self.ask };
        GripWish { ask, ..self }
    }

    /// Asks until the outcome is known; the grip where it is held.
    pub(super) async fn take(&self, client: &mut SimClient) -> Option<Grip> {
        let told = client.until_known(&self.ask, TRIES).await?;
        if told.status != StatusCode::OK {
            refused(client, &self.lock, &told);
            return None;
        }
        Grip::of(client, self, &told)
    }
}

/// An acquire was refused in a way that the contract knows.
pub(super) fn refused(client: &SimClient, lock: &LockName, told: &ClientReply) {
    match (told.status, told.field("code")) {
        (StatusCode::CONFLICT, "lock_held" | "wait_timeout") => {}
        (StatusCode::GONE, "grant_gone" | "forgotten") => client.world.tally.probe(Probe::GrantGone),
        // An administrator sets other limits than those that clients name.
        (StatusCode::CONFLICT, "limit_mismatch") if client.world.has_administrator && is_semaphore(lock) => {
            client.world.tally.probe(Probe::LimitMismatch);
        }
        (StatusCode::TOO_MANY_REQUESTS, "queue_full") if client.world.has_administrator => {
            client.world.tally.probe(Probe::QueueFull);
        }
        (_, _) => client.unexpected("an acquire", told),
    }
}

fn is_semaphore(lock: &LockName) -> bool {
    lock.as_str().starts_with("pool")
}

impl Grip {
    /// What an answer to an acquire says that is held.
    pub(super) fn of(client: &SimClient, wish: &GripWish, told: &ClientReply) -> Option<Grip> {
        let facts = (told.number("token"), told.number("number"), told.number("session"));
        let (Some(token), Some(number), Some(session)) = facts else {
            client.unexpected("an acquire", told);
            return None;
        };
        let (token, session) = (FencingToken(token), SessionNumber(session));
        let oracle = &client.world.oracle;
        oracle.told(&Fact::Held { lock: wish.lock.clone(), number, token });
        if number != token.0 {
            client.world.tally.probe(Probe::HandedOver);
        }
        if client.world.calm.since(told.sent) {
            let (lock, sent, came, within) = (wish.lock.clone(), told.sent, told.came, client.world.calm.soon());
            oracle.told(&Fact::Handed { lock, token, sent, came, within });
        }
        // A grant lives for its time from the moment at which it was first asked for, at least.
        oracle.told(&Fact::Renewed { session, sent: told.asked, ttl: wish.ttl });
        let believed = (told.came, told.asked + wish.ttl);
        let (lock, mode, id, ttl) = (wish.lock.clone(), wish.mode, wish.key.clone(), wish.ttl);
        let permits = wish.permits;
        Some(Grip { lock, mode, permits, id, number, session, token, ttl, believed })
    }

    /// What an answer to a look says that is held, which promises nothing new.
    pub(super) fn found(client: &SimClient, wish: &GripWish, told: &ClientReply) -> Option<Grip> {
        let found = ClientReply { asked: Duration::ZERO, ..told.clone() };
        Grip::of(client, wish, &found)
    }

    /// By which name others know it.
    pub(super) fn whose(&self) -> String {
        format!("#{}", self.number)
    }

    /// The same grant in another of its locks.
    pub(super) fn beside(&self, lock: LockName, mode: Mode) -> Grip {
        let id = self.id.clone();
        let Grip { permits, number, session, token, ttl, believed, .. } = *self;
        Grip { lock, mode, permits, id, number, session, token, ttl, believed }
    }

    /// Renews it. Says whether it is still held, as far as is known.
    pub(super) async fn renew(&mut self, client: &mut SimClient) -> bool {
        let told = client.once(&Ask::new(Method::POST, format!("/v1/grants/{}/renew", self.id))).await;
        told.is_none_or(|told| self.renewed(client, &told, self.ttl))
    }

    /// Renews it with another time, until that is known.
    pub(super) async fn renew_for(&mut self, client: &mut SimClient, ttl: Duration) -> bool {
        let key = client.key();
        let uri = format!("/v1/grants/{}/renew?ttl={}ms", self.id, ttl.as_millis());
        let (sent, change) = (trace::since_start(), Conversion::Retimed(ttl));
        client.world.oracle.told(&Fact::Changing { whose: self.whose(), key: key.clone(), change });
        client.world.oracle.told(&Fact::Retiming { session: self.session, sent, ttl });
        // From now on it may be the shorter one.
        self.believed.1 = self.believed.1.min(sent + ttl);
        let ask = Ask::new(Method::POST, uri).header("idempotency-key", key).hang_up_sometimes(client);
        let Some(told) = client.until_known(&ask, TRIES).await else { return false };
        let renewed = self.renewed(client, &told, ttl);
        if told.status == StatusCode::OK {
            if ttl != self.ttl {
                client.world.tally.probe(Probe::Retimed);
            }
            self.ttl = ttl;
        }
        renewed
    }

    fn renewed(&mut self, client: &SimClient, told: &ClientReply, ttl: Duration) -> bool {
        match told.status {
            StatusCode::OK => {
                if told.field("ttl") != duration::format(ttl) || told.field("id") != self.id {
                    client.unexpected(&format!("a renewal of {} for {ttl:?}", self.id), told);
                }
                client.world.oracle.told(&Fact::Renewed { session: self.session, sent: told.sent, ttl });
                self.believed.1 = told.sent + ttl;
                true
            }
            StatusCode::GONE => false,
            // Nobody remembers it any more.
            StatusCode::NOT_FOUND if trace::since_start() + self.ttl >= self.believed.1 + REMEMBERED_MIN => false,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => true,
            _ => {
                client.unexpected("a renewal", told);
                false
            }
        }
    }

    /// What its client believed until then is told; from then on it may hold in another mode, with another token.
    pub(super) fn changed(&mut self, client: &SimClient, until: Duration, from: Duration, now: (Mode, FencingToken)) {
        self.tell_belief(client, until);
        (self.mode, self.token) = now;
        self.believed.0 = from;
    }

    fn tell_belief(&self, client: &SimClient, until: Duration) {
        let (lock, mode, token) = (self.lock.clone(), self.mode, self.token);
        let (from, until) = (self.believed.0, self.believed.1.min(until));
        if from >= until {
            return;
        }
        client.world.oracle.told(&if is_semaphore(&lock) {
            Fact::Permits { lock, token, permits: self.permits, limit: LIMIT, from, until }
        } else {
            Fact::Believed { lock, mode, token, from, until }
        });
    }

    /// Its client is about to give it back, and does not believe in it any more.
    pub(super) fn let_go(&self, client: &SimClient) {
        client.world.oracle.told(&Fact::LettingGo { session: self.session });
        self.tell_belief(client, trace::since_start());
    }

    /// Renews it a few times, writes with its fence, and now and then stops for longer than the lease. Then lets go.
    pub(super) async fn work(&mut self, client: &mut SimClient) {
        for _ in 0..client.chance.random_range(1..4) {
            if !self.renew(client).await {
                break;
            }
            match client.chance.random_range(0..4) {
                0 => self.write(client).await,
                1 => self.look_at_fence(client).await,
                _ => {}
            }
            if client.chance.random_range(0..12) == 0 {
                client.world.tally.fault("client paused");
                SimRuntime::sleep(self.ttl * 2).await;
                // It does not know what it has missed: the fence must.
                self.write(client).await;
            } else {
                client.idle(700).await;
            }
        }
        self.let_go(client);
    }

    /// Writes with its fence, in a header.
    pub(super) async fn write(&self, client: &mut SimClient) {
        let value = client.key();
        let path = format!("/ledger-{}", self.lock);
        let fence = format!("{}={};grant={}", self.lock, self.token, self.id);
        let ask = Ask::new(Method::PUT, format!("/v1/nodes{path}")).header("fairhold-fence", fence);
        let ask = ask.header("idempotency-key", value.clone()).body(value.clone()).hang_up_sometimes(client);
        let Some(told) = client.until_known(&ask, TRIES).await else { return };
        match told.status {
            StatusCode::OK | StatusCode::CREATED => {
                let revision = Revision(told.number("revision").unwrap_or_default());
                client.world.oracle.told(&self.fenced(revision));
                if let Some(version) = told.version() {
                    client.world.oracle.told(&Fact::Wrote { path, version, value, revision });
                }
            }
            StatusCode::PRECONDITION_FAILED => client.world.tally.probe(Probe::FenceStale),
            _ => client.unexpected("a write with a fence", &told),
        }
    }

    /// A write with its token was accepted.
    pub(super) fn fenced(&self, revision: Revision) -> Fact {
        // The holders of a semaphore each have their own token, and write in any order.
        let alone = self.mode == Mode::Exclusive && !is_semaphore(&self.lock);
        Fact::Fenced { lock: self.lock.clone(), token: self.token, alone, revision }
    }

    async fn look_at_fence(&self, client: &mut SimClient) {
        let uri = format!("/v1/locks/{}/fence?token={}", self.lock, self.token);
        let Some(told) = client.once(&Ask::new(Method::GET, uri)).await else { return };
        match (told.status, told.field("code")) {
            (StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
            (StatusCode::CONFLICT, "stale_token") => client.world.tally.probe(Probe::FenceStale),
            _ => client.unexpected("a look at a fence", &told),
        }
    }
}

/// Gives a grant back by its id, whatever came of it, so that nothing of it is left.
pub(super) async fn give_back(client: &mut SimClient, id: &str) {
    let ask = Ask::new(Method::DELETE, format!("/v1/grants/{id}"));
    match client.until_known(&ask, RELEASE_TRIES).await {
        Some(told) if told.status == StatusCode::NO_CONTENT => {
            client.world.oracle.told(&Fact::GaveBack { id: id.to_owned() });
        }
        Some(told) => client.unexpected("a release", &told),
        None => client.world.tally.call("release given up".to_owned()),
    }
}

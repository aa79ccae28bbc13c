//! A client that takes locks without a session: it asks, waits, renews, writes with its fence, pauses, gives back.

use super::Trade;
use crate::{
    client::{Ask, Client, Told},
    oracle::Fact,
    tally::Probe,
    trace,
};
use fairhold_types::{FencingToken, LockName, Mode, Revision, SessionNumber};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// A lease's time.
const TTL: Duration = Duration::from_secs(2);
/// How often an acquire is asked again before its key is given up.
const TRIES: u32 = 8;
/// How often a release is tried: until long after every lease is over.
const RELEASE_TRIES: u32 = 40;

/// One acquisition.
struct Wish {
    lock: LockName,
    mode: Mode,
    key: String,
    ask: Ask,
}

/// A grant that is held, as far as its client knows.
struct Grip {
    lock: LockName,
    mode: Mode,
    id: String,
    session: SessionNumber,
    token: FencingToken,
    /// From when, and until when, its client may believe that it holds.
    believed: Option<(Duration, Duration)>,
}

pub(super) async fn work(trade: Trade, mut client: Client, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let wish = wish(trade, &mut client);
        match client.until_known(&wish.ask, TRIES).await {
            Some(told) if told.status == StatusCode::OK => hold(&mut client, &wish, &told).await,
            Some(told) => refused(&client, &told),
            None => {}
        }
        // Whatever came of it: the key is given back, so that nothing of it is left.
        give_back(&mut client, &wish.key).await;
    }
}

fn wish(trade: Trade, client: &mut Client) -> Wish {
    let key = client.key();
    let wait = Duration::from_millis(client.chance.random_range(0..4_000));
    let number: u32 = client.chance.random_range(1..=2);
    let (name, mode, more) = match trade {
        Trade::Reader if client.chance.random_range(0..3) > 0 => {
            (format!("book-{number}"), Mode::Shared, "&mode=shared".to_owned())
        }
        Trade::Reader => (format!("book-{number}"), Mode::Exclusive, String::new()),
        Trade::Permits => {
            let permits: u32 = client.chance.random_range(1..=2);
            (format!("pool-{number}"), Mode::Exclusive, format!("&limit=3&permits={permits}"))
        }
        Trade::Locker | Trade::Owner | Trade::Writer | Trade::Watcher => {
            let priority: i32 = client.chance.random_range(0..=1);
            (format!("door-{number}"), Mode::Exclusive, format!("&priority={priority}"))
        }
    };
    let uri = format!("/v1/locks/{name}?wait={}ms&ttl={}ms&owner={}{more}", wait.as_millis(), TTL.as_millis(), client.name);
    let ask = Ask::new(Method::POST, uri).header("idempotency-key", key.clone()).wait(wait);
    let hurry = Duration::from_millis(client.chance.random_range(50..1_500));
    let ask = if client.chance.random_range(0..5) == 0 { ask.hang_up_after(hurry) } else { ask };
    Wish { lock: LockName::parse(&name).expect("it is a lock's name"), mode, key, ask }
}

fn refused(client: &Client, told: &Told) {
    match (told.status, told.field("code")) {
        (StatusCode::CONFLICT, "lock_held" | "wait_timeout") => {}
        (StatusCode::GONE, "grant_gone" | "forgotten") => client.world.tally.probe(Probe::GrantGone),
        (_, _) => client.unexpected("an acquire", told),
    }
}

async fn hold(client: &mut Client, wish: &Wish, told: &Told) {
    let (Some(token), Some(number), Some(session)) = (told.number("token"), told.number("number"), told.number("session")) else {
        return client.unexpected("an acquire", told);
    };
    let token = FencingToken(token);
    client.world.oracle.told(&Fact::Held { lock: wish.lock.clone(), number, token });
    if number != token.0 {
        client.world.tally.probe(Probe::HandedOver);
    }
    let (lock, mode, id) = (wish.lock.clone(), wish.mode, wish.key.clone());
    let mut grip = Grip { lock, mode, id, session: SessionNumber(session), token, believed: None };
    for _ in 0..client.chance.random_range(1..4) {
        if !renew(client, &mut grip).await {
            break;
        }
        match client.chance.random_range(0..4) {
            0 => write_with_fence(client, &grip).await,
            1 => look_at_fence(client, &grip).await,
            _ => {}
        }
        if client.chance.random_range(0..12) == 0 {
            client.world.tally.fault("client paused");
            SimRuntime::sleep(TTL * 2).await;
            // It does not know what it has missed: the fence must.
            write_with_fence(client, &grip).await;
        } else {
            client.idle(700).await;
        }
    }
    client.world.oracle.told(&Fact::LettingGo { session: grip.session });
    let now = trace::since_start();
    if let Some((from, until)) = grip.believed {
        let (lock, mode, token) = (grip.lock, grip.mode, grip.token);
        // Permits of a semaphore do not exclude one another.
        if !lock.as_str().starts_with("pool") {
            client.world.oracle.told(&Fact::Believed { lock, mode, token, from, until: until.min(now) });
        }
    }
}

/// Says whether it is still held.
async fn renew(client: &mut Client, grip: &mut Grip) -> bool {
    let uri = format!("/v1/grants/{}/renew?ttl={}ms", grip.id, TTL.as_millis());
    match client.once(&Ask::new(Method::POST, uri)).await {
        Some(told) if told.status == StatusCode::OK => {
            client.world.oracle.told(&Fact::Renewed { session: grip.session, sent: told.sent, ttl: TTL });
            let from = grip.believed.map_or(told.came, |(from, _)| from);
            grip.believed = Some((from, told.sent + TTL));
            true
        }
        Some(told) if told.status == StatusCode::GONE => false,
        Some(told) if told.status == StatusCode::SERVICE_UNAVAILABLE || told.status == StatusCode::GATEWAY_TIMEOUT => true,
        Some(told) => {
            client.unexpected("a renewal", &told);
            false
        }
        None => true,
    }
}

async fn write_with_fence(client: &mut Client, grip: &Grip) {
    let value = client.key();
    let path = format!("/ledger-{}", grip.lock);
    let fence = format!("{}={};grant={}", grip.lock, grip.token, grip.id);
    let ask = Ask::new(Method::PUT, format!("/v1/nodes{path}")).header("fairhold-fence", fence);
    let ask = ask.header("idempotency-key", value.clone()).body(value.clone()).hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match told.status {
        StatusCode::OK | StatusCode::CREATED => {
            let revision = Revision(told.number("revision").unwrap_or_default());
            let (lock, token) = (grip.lock.clone(), grip.token);
            let oracle = &client.world.oracle;
            // Those who hold together have tokens of their own, and write in any order.
            let alone = grip.mode == Mode::Exclusive && !lock.as_str().starts_with("pool");
            oracle.told(&Fact::Fenced { lock, token, alone, revision });
            if let Some(version) = told.version() {
                oracle.told(&Fact::Wrote { path, version, value, revision });
            }
        }
        StatusCode::PRECONDITION_FAILED => client.world.tally.probe(Probe::FenceStale),
        _ => client.unexpected("a write with a fence", &told),
    }
}

async fn look_at_fence(client: &mut Client, grip: &Grip) {
    let uri = format!("/v1/locks/{}/fence?token={}", grip.lock, grip.token);
    let Some(told) = client.once(&Ask::new(Method::GET, uri)).await else { return };
    match (told.status, told.field("code")) {
        (StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
        (StatusCode::CONFLICT, "stale_token") => client.world.tally.probe(Probe::FenceStale),
        _ => client.unexpected("a look at a fence", &told),
    }
}

async fn give_back(client: &mut Client, id: &str) {
    let ask = Ask::new(Method::DELETE, format!("/v1/grants/{id}"));
    match client.until_known(&ask, RELEASE_TRIES).await {
        Some(told) if told.status == StatusCode::NO_CONTENT => {}
        Some(told) => client.unexpected("a release", &told),
        None => client.world.tally.call("release given up".to_owned()),
    }
}

//! A client with a session: it keeps the session alive, owns an ephemeral node and a lock, and closes the session or vanishes.

use super::grip;
use crate::{
    client::{Ask, ClientReply, SimClient},
    facts::Fact,
    trace,
};
use fairhold_types::{FencingToken, LockName, Mode, SessionNumber};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3);
const TRIES: u32 = 8;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for round in 0..rounds {
        client.idle(500).await;
        let key = client.key();
        let body = format!("{{\"ttl\":\"{}ms\",\"name\":\"{}\"}}", TTL.as_millis(), client.name);
        let ask =
            Ask::new(Method::POST, "/v1/sessions").header("idempotency-key", key).header("content-type", "application/json");
        let Some(told) = client.until_known(&ask.body(body), TRIES).await else { continue };
        let (id, number) = (told.field("id").to_owned(), told.number("number").map(SessionNumber));
        if let Some(session) = number {
            client.world.oracle.told(&Fact::Renewed { session, sent: told.asked, ttl: TTL });
        }
        match (told.status, number) {
            (StatusCode::CREATED, Some(number)) => {
                let mut session = OwnedSession { id, number, renewed_until: told.asked + TTL, held: None };
                session.live(&mut client, round).await;
                session.tell_belief(&client);
            }
            (StatusCode::GONE | StatusCode::NOT_FOUND, _) => {}
            (_, _) => client.unexpected("a new session", &told),
        }
    }
}

/// A session that is open, as far as its client knows.
struct OwnedSession {
    id: String,
    number: SessionNumber,
    renewed_until: Duration,
    /// The lock that it holds, with its token, from when on.
    held: Option<(LockName, FencingToken, Duration)>,
}

impl OwnedSession {
    /// Keeps it alive for a while. Ends it, or leaves it to its end.
    async fn live(&mut self, client: &mut SimClient, round: u32) {
        self.be_present(client, round).await;
        let mut asked_for_lock = false;
        for _ in 0..client.chance.random_range(2..8) {
            let keepalive = Ask::new(Method::POST, format!("/v1/sessions/{}/keepalive", self.id));
            match client.once(&keepalive).await {
                Some(told) if told.status == StatusCode::OK => {
                    client.world.oracle.told(&Fact::Renewed { session: self.number, sent: told.sent, ttl: TTL });
                    self.renewed_until = told.sent + TTL;
                }
                Some(told) if matches!(told.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {}
                Some(told) if matches!(told.status, StatusCode::GONE | StatusCode::NOT_FOUND) => {
                    self.renewed_until = self.renewed_until.min(told.came);
                    return;
                }
                Some(told) => return client.unexpected("a keepalive", &told),
                None => {}
            }
            if !asked_for_lock && client.chance.random_range(0..2) == 0 {
                asked_for_lock = true;
                self.lock(client).await;
            }
            if client.chance.random_range(0..4) == 0 {
                // It renews at the last moment.
                SimRuntime::sleep(TTL * 3 / 4).await;
            }
            client.idle(900).await;
        }
        if client.chance.random_range(0..3) == 0 {
            client.world.tally.fault("client vanished");
            trace::event(&format!("{} vanishes", client.name));
            return;
        }
        client.world.oracle.told(&Fact::LettingGo { session: self.number });
        self.renewed_until = self.renewed_until.min(trace::since_start());
        let close = Ask::new(Method::DELETE, format!("/v1/sessions/{}", self.id));
        match client.until_known(&close, TRIES).await {
            Some(told) if matches!(told.status, StatusCode::NO_CONTENT | StatusCode::GONE | StatusCode::NOT_FOUND) => {}
            Some(told) => client.unexpected("the end of a session", &told),
            None => {}
        }
    }

    /// Makes an ephemeral node. That it goes with its session is the state's to judge.
    async fn be_present(&self, client: &mut SimClient, round: u32) {
        let path = format!("/v1/nodes/present-{}-{round}?session={}", client.name, self.id);
        let key = client.key();
        let told = client.once(&Ask::new(Method::PUT, path).header("idempotency-key", key).body("here")).await;
        match told.as_ref().map(|told| (told.status, told.field("code"))) {
            Some((StatusCode::CREATED | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _)) | None => {}
            Some((StatusCode::GONE, "session_expired") | (StatusCode::NOT_FOUND, "session_not_found")) => {}
            Some(_) => told.iter().for_each(|told| client.unexpected("an ephemeral node", told)),
        }
    }

    /// Takes a lock by the session and leaves it to the session's end, now and then with a lock delay.
    async fn lock(&mut self, client: &mut SimClient) {
        let delay = if client.chance.random_range(0..3) == 0 { "&lock_delay=1s" } else { "" };
        let key = client.key();
        let uri = format!("/v1/locks/door-{}?session={}&wait=500ms{delay}", client.chance.random_range(1..=2), self.id);
        let ask = Ask::new(Method::POST, uri).header("idempotency-key", key).wait(Duration::from_millis(500));
        match client.once(&ask).await {
            Some(told) if told.status == StatusCode::OK => {
                let held = told.number("token").zip(told.number("number")).zip(LockName::parse(told.field("lock")).ok());
                if let Some(((token, number), lock)) = held {
                    let token = FencingToken(token);
                    client.world.oracle.told(&Fact::Held { lock: lock.clone(), number, token });
                    self.held = Some((lock, token, told.came));
                }
            }
            Some(told) => refused(client, &told),
            // Unknown: it ends with the session.
            None => {}
        }
    }

    /// Until when its client believed, or will believe, that it holds the lock.
    fn tell_belief(&self, client: &SimClient) {
        let Some((lock, token, from)) = self.held.clone() else { return };
        let (mode, until) = (Mode::Exclusive, self.renewed_until);
        if from < until {
            client.world.oracle.told(&Fact::Believed { lock, mode, token, from, until });
        }
    }
}

/// An acquire of a session was not granted: in a way that the contract knows.
fn refused(client: &SimClient, told: &ClientReply) {
    match (told.status, told.field("code")) {
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
        (StatusCode::NOT_FOUND, "session_not_found") | (StatusCode::GONE, "session_expired") => {}
        (_, _) => grip::refused(client, &grip::lock("door"), told),
    }
}

//! A client with a session: it keeps the session alive, owns an ephemeral node and a lock, and closes the session or
//! vanishes.

use super::held_grant;
use crate::{
    client::{ClientReply, ClientRequest, SimClient},
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
        let request = ClientRequest::new(Method::POST, "/v1/sessions")
            .header("idempotency-key", key)
            .header("content-type", "application/json");
        let Some(reply) = client.call_until_known(&request.body(body), TRIES).await else { continue };
        let (id, number) = (reply.field("id").to_owned(), reply.number("number").map(SessionNumber));
        if let Some(session) = number {
            client.world.oracle.observe(&Fact::Renewed { session, sent: reply.first_sent, ttl: TTL });
        }
        match (reply.status, number) {
            (StatusCode::CREATED, Some(number)) => {
                let mut session = OwnedSession { id, number, renewed_until: reply.first_sent + TTL, held: None };
                session.live(&mut client, round).await;
                session.report_belief(&client);
            }
            (StatusCode::GONE | StatusCode::NOT_FOUND, _) => {}
            (_, _) => client.unexpected("a new session", &reply),
        }
    }
}

/// A session that its client believes to be open.
struct OwnedSession {
    id: String,
    number: SessionNumber,
    renewed_until: Duration,
    /// The lock that it holds, its token, and since when.
    held: Option<(LockName, FencingToken, Duration)>,
}

impl OwnedSession {
    /// Keeps it alive for a while. Then closes it, or lets it expire.
    async fn live(&mut self, client: &mut SimClient, round: u32) {
        self.create_ephemeral(client, round).await;
        let mut asked_for_lock = false;
        for _ in 0..client.rng.random_range(2..8) {
            let keepalive = ClientRequest::new(Method::POST, format!("/v1/sessions/{}/keepalive", self.id));
            match client.call_once(&keepalive).await {
                Some(reply) if reply.status == StatusCode::OK => {
                    client.world.oracle.observe(&Fact::Renewed { session: self.number, sent: reply.sent, ttl: TTL });
                    self.renewed_until = reply.sent + TTL;
                }
                Some(reply) if matches!(reply.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {}
                Some(reply) if matches!(reply.status, StatusCode::GONE | StatusCode::NOT_FOUND) => {
                    self.renewed_until = self.renewed_until.min(reply.received);
                    return;
                }
                Some(reply) => return client.unexpected("a keepalive", &reply),
                None => {}
            }
            if !asked_for_lock && client.rng.random_range(0..2) == 0 {
                asked_for_lock = true;
                self.lock(client).await;
            }
            if client.rng.random_range(0..4) == 0 {
                // It renews at the last moment.
                SimRuntime::sleep(TTL * 3 / 4).await;
            }
            client.idle(900).await;
        }
        if client.rng.random_range(0..3) == 0 {
            client.world.coverage.fault("client vanished");
            trace::event(&format!("{} vanishes", client.name));
            return;
        }
        client.world.oracle.observe(&Fact::Closing { session: self.number });
        self.renewed_until = self.renewed_until.min(trace::since_start());
        let close = ClientRequest::new(Method::DELETE, format!("/v1/sessions/{}", self.id));
        match client.call_until_known(&close, TRIES).await {
            Some(reply) if matches!(reply.status, StatusCode::NO_CONTENT | StatusCode::GONE | StatusCode::NOT_FOUND) => {}
            Some(reply) => client.unexpected("the end of a session", &reply),
            None => {}
        }
    }

    /// Creates an ephemeral node. The check of the state finds a node that outlives its session.
    async fn create_ephemeral(&self, client: &mut SimClient, round: u32) {
        let path = format!("/v1/nodes/present-{}-{round}?session={}", client.name, self.id);
        let key = client.key();
        let reply = client.call_once(&ClientRequest::new(Method::PUT, path).header("idempotency-key", key).body("here")).await;
        match reply.as_ref().map(|reply| (reply.status, reply.field("code"))) {
            Some((StatusCode::CREATED | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _)) | None => {}
            Some((StatusCode::GONE, "session_expired") | (StatusCode::NOT_FOUND, "session_not_found")) => {}
            Some(_) => reply.iter().for_each(|reply| client.unexpected("an ephemeral node", reply)),
        }
    }

    /// Acquires a lock with the session, which holds it until its end, sometimes with a lock delay.
    async fn lock(&mut self, client: &mut SimClient) {
        let delay = if client.rng.random_range(0..3) == 0 { "&lock_delay=1s" } else { "" };
        let key = client.key();
        let uri = format!("/v1/locks/door-{}?session={}&wait=500ms{delay}", client.rng.random_range(1..=2), self.id);
        let request = ClientRequest::new(Method::POST, uri).header("idempotency-key", key).wait(Duration::from_millis(500));
        match client.call_once(&request).await {
            Some(reply) if reply.status == StatusCode::OK => {
                let held = reply.number("token").zip(reply.number("number")).zip(LockName::parse(reply.field("lock")).ok());
                if let Some(((token, number), lock)) = held {
                    let token = FencingToken(token);
                    client.world.oracle.observe(&Fact::Held { lock: lock.clone(), number, token });
                    self.held = Some((lock, token, reply.received));
                }
            }
            Some(reply) => refused(client, &reply),
            // The outcome is unknown: a grant ends with the session.
            None => {}
        }
    }

    /// Reports how long its client believes that it holds the lock.
    fn report_belief(&self, client: &SimClient) {
        let Some((lock, token, from)) = self.held.clone() else { return };
        let (mode, until) = (Mode::Exclusive, self.renewed_until);
        if from < until {
            client.world.oracle.observe(&Fact::Believed { lock, mode, token, from, until });
        }
    }
}

/// Checks that the contract allows this refusal of an acquire by a session.
fn refused(client: &SimClient, reply: &ClientReply) {
    match (reply.status, reply.field("code")) {
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
        (StatusCode::NOT_FOUND, "session_not_found") | (StatusCode::GONE, "session_expired") => {}
        (_, _) => held_grant::refused(client, &held_grant::lock("door"), reply),
    }
}

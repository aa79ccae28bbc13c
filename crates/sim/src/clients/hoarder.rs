//! A client that takes hundreds of locks and ephemeral nodes with one session, and then ends the session: a burst of
//! work that must not delay others.

use super::held_grant::TRIES;
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
};
use fairhold_types::SessionNumber;
use http::{Method, StatusCode};
use rand::RngExt;
use serde_json::{Value, json};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(8);
/// The calls of one batch, and the nodes of one transaction.
const AT_ONCE: usize = 150;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(3_000).await;
        let open = json!({"ttl": format!("{}ms", TTL.as_millis()), "name": client.name}).to_string();
        let open = json_post(&mut client, "/v1/sessions", open);
        let Some(reply) = client.call_until_known(&open, TRIES).await else { continue };
        let (StatusCode::CREATED, Some(number)) = (reply.status, reply.number("number")) else {
            // An earlier attempt opened it, but its answer was lost. The session has expired since.
            if reply.field("code") != "session_expired" {
                client.unexpected("a new session", &reply);
            }
            continue;
        };
        let session = reply.field("id").to_owned();
        let mut all = true;
        for _ in 0..client.rng.random_range(1..4) {
            all &= hoard(&mut client, &session).await;
        }
        client.world.oracle.observe(&Fact::Closing { session: SessionNumber(number) });
        let close = ClientRequest::new(Method::DELETE, format!("/v1/sessions/{session}"));
        match client.call_until_known(&close, TRIES).await {
            Some(reply) if reply.status == StatusCode::NO_CONTENT && all => {
                client.world.coverage.probe(Probe::HoardedSessionEnded)
            }
            Some(reply) if matches!(reply.status, StatusCode::NO_CONTENT | StatusCode::GONE | StatusCode::NOT_FOUND) => {}
            Some(reply) => client.unexpected("the end of a session", &reply),
            None => {}
        }
    }
}

fn json_post(client: &mut SimClient, uri: &str, body: String) -> ClientRequest {
    let request = ClientRequest::new(Method::POST, uri).header("idempotency-key", client.key());
    request.header("content-type", "application/json").body(body)
}

/// Acquires many locks and creates as many nodes. Returns whether everything succeeded.
async fn hoard(client: &mut SimClient, session: &str) -> bool {
    let acquire = |_| {
        let id = client.key();
        json!({"acquire": {"id": id, "lock": format!("hoard-{id}"), "session": session}})
    };
    let calls: Vec<Value> = (0..AT_ONCE).map(acquire).collect();
    let batch = json_post(client, "/v1/batch", json!({"calls": calls}).to_string()).local();
    let Some(reply) = client.call_until_known(&batch, TRIES).await else { return false };
    let answers = reply.json["answers"].as_array().filter(|_| reply.status == StatusCode::OK);
    let Some(answers) = answers else {
        client.unexpected("a batch", &reply);
        return false;
    };
    let locked = answers.iter().all(|answer| answer["status"] == 200);
    let name = client.key();
    let create = |number: usize| json!({"create": {"path": format!("/hoard-{name}-{number}"), "session": session}});
    let nodes: Vec<Value> = (0..AT_ONCE).map(create).collect();
    let request = json_post(client, "/v1/txn", json!({"then": nodes}).to_string());
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return false };
    match (reply.status, reply.field("code")) {
        (StatusCode::OK, _) => locked,
        (StatusCode::GONE, "session_expired" | "forgotten") | (StatusCode::NOT_FOUND, "session_not_found") => false,
        _ => {
            client.unexpected("ephemeral nodes", &reply);
            false
        }
    }
}

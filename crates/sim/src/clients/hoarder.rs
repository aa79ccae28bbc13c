//! A client that takes hundreds of locks and ephemeral nodes with one session, and then ends the session: much work at once,
//! which must not delay others.

use super::grip::TRIES;
use crate::{
    client::{Ask, SimClient},
    facts::Fact,
    tally::Probe,
};
use fairhold_types::SessionNumber;
use http::{Method, StatusCode};
use rand::RngExt;
use serde_json::{Value, json};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(8);
/// Calls of one batch, and nodes of one transaction.
const AT_ONCE: usize = 150;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(3_000).await;
        let open = json!({"ttl": format!("{}ms", TTL.as_millis()), "name": client.name}).to_string();
        let open = json_post(&mut client, "/v1/sessions", open);
        let Some(told) = client.until_known(&open, TRIES).await else { continue };
        let (StatusCode::CREATED, Some(number)) = (told.status, told.number("number")) else {
            // An earlier try opened it, but its answer was lost. The session has expired since.
            if told.field("code") != "session_expired" {
                client.unexpected("a new session", &told);
            }
            continue;
        };
        let session = told.field("id").to_owned();
        let mut all = true;
        for _ in 0..client.chance.random_range(1..4) {
            all &= hoard(&mut client, &session).await;
        }
        client.world.oracle.told(&Fact::LettingGo { session: SessionNumber(number) });
        let close = Ask::new(Method::DELETE, format!("/v1/sessions/{session}"));
        match client.until_known(&close, TRIES).await {
            Some(told) if told.status == StatusCode::NO_CONTENT && all => client.world.tally.probe(Probe::HoardEnded),
            Some(told) if matches!(told.status, StatusCode::NO_CONTENT | StatusCode::GONE | StatusCode::NOT_FOUND) => {}
            Some(told) => client.unexpected("the end of a session", &told),
            None => {}
        }
    }
}

fn json_post(client: &mut SimClient, uri: &str, body: String) -> Ask {
    let ask = Ask::new(Method::POST, uri).header("idempotency-key", client.key());
    ask.header("content-type", "application/json").body(body)
}

/// Takes some hundred locks and makes as many nodes; whether all of it was done.
async fn hoard(client: &mut SimClient, session: &str) -> bool {
    let acquire = |_| {
        let id = client.key();
        json!({"acquire": {"id": id, "lock": format!("hoard-{id}"), "session": session}})
    };
    let calls: Vec<Value> = (0..AT_ONCE).map(acquire).collect();
    let batch = json_post(client, "/v1/batch", json!({"calls": calls}).to_string()).local();
    let Some(told) = client.until_known(&batch, TRIES).await else { return false };
    let answers = told.json["answers"].as_array().filter(|_| told.status == StatusCode::OK);
    let Some(answers) = answers else {
        client.unexpected("a batch", &told);
        return false;
    };
    let locked = answers.iter().all(|answer| answer["status"] == 200);
    let name = client.key();
    let create = |number: usize| json!({"create": {"path": format!("/hoard-{name}-{number}"), "session": session}});
    let nodes: Vec<Value> = (0..AT_ONCE).map(create).collect();
    let ask = json_post(client, "/v1/txn", json!({"then": nodes}).to_string());
    let Some(told) = client.until_known(&ask, TRIES).await else { return false };
    match (told.status, told.field("code")) {
        (StatusCode::OK, _) => locked,
        (StatusCode::GONE, "session_expired" | "forgotten") | (StatusCode::NOT_FOUND, "session_not_found") => false,
        _ => {
            client.unexpected("ephemeral nodes", &told);
            false
        }
    }
}

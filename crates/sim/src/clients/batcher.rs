//! A client that makes many calls in one request. Calls with the same id must take effect in their order.

use super::grip::{GripWish, TRIES, give_back};
use crate::{
    client::{Ask, SimClient},
    facts::Fact,
    tally::Probe,
};
use fairhold_types::{Mode, SessionNumber};
use http::{Method, StatusCode};
use rand::RngExt;
use serde_json::{Value, json};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(4);

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let ask = Ask::new(Method::POST, "/v1/sessions").header("idempotency-key", client.key());
        let body = json!({"ttl": format!("{}ms", TTL.as_millis()), "name": client.name}).to_string();
        let Some(told) = client.until_known(&ask.header("content-type", "application/json").body(body), TRIES).await else {
            continue;
        };
        let (StatusCode::CREATED, Some(number)) = (told.status, told.number("number")) else {
            // An earlier try opened it, but its answer was lost. The session has expired since.
            if told.field("code") != "session_expired" {
                client.unexpected("a new session", &told);
            }
            continue;
        };
        let session = told.field("id").to_owned();
        let wish = GripWish::new(&mut client, "/v1/locks/crate", ("crate", Mode::Shared), TTL, Duration::ZERO, "&mode=shared");
        let grip = wish.take(&mut client).await;
        grip.into_iter().for_each(|grip| grip.let_go(&client));
        for _ in 0..client.chance.random_range(1..4) {
            batch(&mut client, &session, &wish.key).await;
            client.idle(400).await;
        }
        client.world.oracle.told(&Fact::LettingGo { session: SessionNumber(number) });
        let close = Ask::new(Method::DELETE, format!("/v1/sessions/{session}"));
        match client.until_known(&close, TRIES).await {
            Some(told) if matches!(told.status, StatusCode::NO_CONTENT | StatusCode::GONE | StatusCode::NOT_FOUND) => {}
            Some(told) => client.unexpected("the end of a session", &told),
            None => {}
        }
        give_back(&mut client, &wish.key).await;
    }
}

/// Makes one batch of calls on four ids: acquire then release, release then acquire, acquire alone, and renew.
async fn batch(client: &mut SimClient, session: &str, renewed: &str) {
    let ids = [client.key(), client.key(), client.key()];
    let queue = client.chance.random_range(0..2) == 0;
    let acquire = |id: &str, door: u32| {
        let lock = format!("door-{door}");
        json!({"acquire": {"id": id, "lock": lock, "session": session, "queue": queue, "owner": "batch"}})
    };
    let release = |id: &str| json!({"release": {"id": id, "session": session}});
    let mut calls = vec![
        acquire(&ids[0], client.chance.random_range(1..=2)),
        release(&ids[1]),
        acquire(&ids[2], client.chance.random_range(1..=2)),
        json!({"renew": {"id": renewed}}),
        release(&ids[0]),
        acquire(&ids[1], client.chance.random_range(1..=2)),
    ];
    if client.chance.random_range(0..4) == 0 {
        calls.push(json!({"release": {"id": renewed}}));
        calls.push(json!({"renew": {"id": renewed}}));
    }
    let body = json!({"calls": calls}).to_string();
    // If every call is refused, the answer says nothing about freshness. `answered` judges it when one call took effect.
    let ask = Ask::new(Method::POST, "/v1/batch").header("content-type", "application/json").body(body).local();
    let ask = ask.hang_up_sometimes(client);
    let Some(answers) = answered(client, &ask, calls.len()).await else { return };
    for (call, answer) in calls.iter().zip(&answers) {
        judge(client, call, answer);
    }
    client.world.tally.probe(Probe::BatchWithOneIdTwice);
    let status = |index: usize| answers[index]["status"].as_u64();
    // To remember the release of an unknown id needs room, so it may be refused.
    if status(1) == Some(204) && !matches!(status(5), Some(410 | 404 | 429)) {
        client.world.oracle.violation(format!("{}: an id that was given back was taken: {}", client.name, answers[5]));
    }
    if status(4) != Some(204) && matches!(status(0), Some(200 | 202)) {
        client.world.oracle.violation(format!("{}: a grant was not given back: {}", client.name, answers[4]));
    }
    if calls.len() > 6 && status(7) == Some(200) {
        client.world.oracle.violation(format!("{}: a grant that was given back was renewed: {}", client.name, answers[7]));
    }
    for (id, _) in [(&ids[0], 4), (&ids[1], 1)].into_iter().filter(|(_, release)| status(*release) == Some(204)) {
        client.world.oracle.told(&Fact::GaveBack { id: id.clone() });
    }
}

/// Sends the batch until no call in it is answered with a server error.
async fn answered(client: &mut SimClient, ask: &Ask, calls: usize) -> Option<Vec<Value>> {
    for _ in 0..TRIES {
        let floor = client.world.oracle.acknowledged();
        let told = client.until_known(ask, TRIES).await?;
        let answers = told.json["answers"].as_array().filter(|answers| answers.len() == calls);
        let Some(answers) = answers.filter(|_| told.status == StatusCode::OK) else {
            client.unexpected("a batch", &told);
            return None;
        };
        if answers.iter().all(|answer| answer["status"].as_u64().is_some_and(|status| status < 500)) {
            let (what, revision) = (format!("a batch of {}", client.name), told.revision);
            client.world.oracle.told(&Fact::Answered { what, floor, revision });
            return Some(answers.clone());
        }
        client.idle(300).await;
    }
    None
}

/// Checks that each answer is one that the same call gets outside a batch.
fn judge(client: &SimClient, call: &Value, answer: &Value) {
    let (status, code) = (answer["status"].as_u64().unwrap_or_default(), answer["body"]["code"].as_str().unwrap_or_default());
    let state_full = client.world.state_bytes.is_some() && code == "state_full";
    let known = match (call.get("acquire").is_some(), call.get("release").is_some()) {
        (true, _) => {
            let refused = matches!(
                (status, code),
                (409, "lock_held" | "would_deadlock")
                    | (410, "grant_gone" | "forgotten" | "session_expired")
                    | (404, "session_not_found")
            );
            let full = code == "queue_full" && client.world.has_administrator;
            matches!(status, 200 | 202) || refused || full || state_full
        }
        (false, true) => status == 204 || state_full,
        (false, false) => matches!((status, code), (200, _) | (410, "grant_gone")) || (status, code) == (404, "grant_not_found"),
    };
    if !known {
        client.world.oracle.violation(format!("{}: {call} in a batch was answered with {answer}", client.name));
    }
}

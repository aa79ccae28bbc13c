//! A client that makes many calls in one request. Calls with the same id must take effect in their order.

use super::held_grant::{Acquisition, TRIES, release};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
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
        let request = ClientRequest::new(Method::POST, "/v1/sessions").header("idempotency-key", client.key());
        let body = json!({"ttl": format!("{}ms", TTL.as_millis()), "name": client.name}).to_string();
        let Some(reply) = client.call_until_known(&request.header("content-type", "application/json").body(body), TRIES).await
        else {
            continue;
        };
        let (StatusCode::CREATED, Some(number)) = (reply.status, reply.number("number")) else {
            // An earlier attempt opened it, but its answer was lost. The session has expired since.
            if reply.field("code") != "session_expired" {
                client.unexpected("a new session", &reply);
            }
            continue;
        };
        let session = reply.field("id").to_owned();
        let acquisition =
            Acquisition::new(&mut client, "/v1/locks/crate", ("crate", Mode::Shared), TTL, Duration::ZERO, "&mode=shared");
        let grant = acquisition.acquire(&mut client).await;
        grant.into_iter().for_each(|grant| grant.report_release(&client));
        for _ in 0..client.rng.random_range(1..4) {
            batch(&mut client, &session, &acquisition.key).await;
            client.idle(400).await;
        }
        client.world.oracle.observe(&Fact::Closing { session: SessionNumber(number) });
        let close = ClientRequest::new(Method::DELETE, format!("/v1/sessions/{session}"));
        match client.call_until_known(&close, TRIES).await {
            Some(reply) if matches!(reply.status, StatusCode::NO_CONTENT | StatusCode::GONE | StatusCode::NOT_FOUND) => {}
            Some(reply) => client.unexpected("the end of a session", &reply),
            None => {}
        }
        release(&mut client, &acquisition.key).await;
    }
}

/// Makes one batch of calls on four ids: acquire then release, release then acquire, acquire alone, and renew.
async fn batch(client: &mut SimClient, session: &str, renewed: &str) {
    let ids = [client.key(), client.key(), client.key()];
    let queue = client.rng.random_range(0..2) == 0;
    let acquire = |id: &str, door: u32| {
        let lock = format!("door-{door}");
        json!({"acquire": {"id": id, "lock": lock, "session": session, "queue": queue, "owner": "batch"}})
    };
    let release = |id: &str| json!({"release": {"id": id, "session": session}});
    let mut calls = vec![
        acquire(&ids[0], client.rng.random_range(1..=2)),
        release(&ids[1]),
        acquire(&ids[2], client.rng.random_range(1..=2)),
        json!({"renew": {"id": renewed}}),
        release(&ids[0]),
        acquire(&ids[1], client.rng.random_range(1..=2)),
    ];
    if client.rng.random_range(0..4) == 0 {
        calls.push(json!({"release": {"id": renewed}}));
        calls.push(json!({"renew": {"id": renewed}}));
    }
    let body = json!({"calls": calls}).to_string();
    // If every call is refused, the answer says nothing about freshness. `answered` judges it when one call took
    // effect.
    let request = ClientRequest::new(Method::POST, "/v1/batch").header("content-type", "application/json").body(body).local();
    let request = request.disconnect_sometimes(client);
    let Some(answers) = answered(client, &request, calls.len()).await else { return };
    for (call, answer) in calls.iter().zip(&answers) {
        judge(client, call, answer);
    }
    client.world.coverage.probe(Probe::BatchWithOneIdTwice);
    let status = |index: usize| answers[index]["status"].as_u64();
    // Remembering the release of an unknown id needs space, so it may be refused.
    if status(1) == Some(204) && !matches!(status(5), Some(410 | 404 | 429)) {
        client.world.oracle.violation(format!("{}: a released id was acquired: {}", client.name, answers[5]));
    }
    if status(4) != Some(204) && matches!(status(0), Some(200 | 202)) {
        client.world.oracle.violation(format!("{}: a grant was not released: {}", client.name, answers[4]));
    }
    if calls.len() > 6 && status(7) == Some(200) {
        client.world.oracle.violation(format!("{}: a released grant was renewed: {}", client.name, answers[7]));
    }
    for (id, _) in [(&ids[0], 4), (&ids[1], 1)].into_iter().filter(|(_, release)| status(*release) == Some(204)) {
        client.world.oracle.observe(&Fact::Released { id: id.clone() });
    }
}

/// Sends the batch until no call in it is answered with a server error.
async fn answered(client: &mut SimClient, request: &ClientRequest, calls: usize) -> Option<Vec<Value>> {
    for _ in 0..TRIES {
        let floor = client.world.oracle.acknowledged();
        let reply = client.call_until_known(request, TRIES).await?;
        let answers = reply.json["answers"].as_array().filter(|answers| answers.len() == calls);
        let Some(answers) = answers.filter(|_| reply.status == StatusCode::OK) else {
            client.unexpected("a batch", &reply);
            return None;
        };
        if answers.iter().all(|answer| answer["status"].as_u64().is_some_and(|status| status < 500)) {
            // If the server refused every call, the answer shows no state: it names how far that server itself is.
            if answers.iter().any(|answer| answer["status"].as_u64().is_some_and(|status| status < 300)) {
                let (what, revision) = (format!("a batch of {}", client.name), reply.revision);
                client.world.oracle.observe(&Fact::Answered { what, floor, revision });
            }
            return Some(answers.clone());
        }
        client.idle(300).await;
    }
    None
}

/// Checks that each call gets an answer that it could also get outside a batch.
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

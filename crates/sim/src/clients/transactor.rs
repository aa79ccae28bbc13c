//! A client that holds two locks and writes under both in one transaction: all writes at one revision, or the `else`
//! branch.

use super::held_grant::{Acquisition, HeldGrant, TRIES, release};
use crate::{
    client::{ClientReply, ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
};
use fairhold_types::{Mode, Revision};
use http::{Method, StatusCode};
use rand::RngExt;
use serde_json::{Value, json};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_millis(1_500);

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let door = format!("door-{}", client.rng.random_range(1..=2));
        let book = format!("book-{}", client.rng.random_range(1..=2));
        let first = Acquisition::new(&mut client, &format!("/v1/locks/{door}"), (&door, Mode::Exclusive), TTL, WAIT, "");
        let shared = (book.as_str(), Mode::Shared);
        let second = Acquisition::new(&mut client, &format!("/v1/locks/{book}"), shared, TTL, WAIT, "&mode=shared");
        if let Some(mut one) = first.acquire(&mut client).await {
            if let Some(mut two) = second.acquire(&mut client).await {
                hold(&mut client, &mut one, &mut two).await;
                two.report_release(&client);
            }
            one.report_release(&client);
        }
        release(&mut client, &second.key).await;
        release(&mut client, &first.key).await;
    }
}

async fn hold(client: &mut SimClient, one: &mut HeldGrant, two: &mut HeldGrant) {
    for _ in 0..client.rng.random_range(1..4) {
        transact(client, [one, two]).await;
        if !one.renew(client).await || !two.renew(client).await {
            // The fences must refuse it.
            return transact(client, [one, two]).await;
        }
        client.idle(500).await;
    }
}

async fn transact(client: &mut SimClient, held: [&HeldGrant; 2]) {
    let value = client.key();
    let paths = held.map(|grant| format!("/chain-{}", grant.lock));
    let fence = |grant: &HeldGrant| json!({"fence": {"lock": grant.lock, "token": grant.token.0, "grant": grant.id}});
    let put = |path: &str| json!({"put": {"path": path, "value": value}});
    let log = json!({"create": {"path": "/chain", "sequential": true, "name": "log-", "value": value, "parents": true}});
    let mut body = json!({"if": held.map(fence), "then": [put(&paths[0]), log, put(&paths[1])]});
    if client.rng.random_range(0..2) == 0 {
        body["else"] = json!([put("/chain-broken")]);
    }
    let request = ClientRequest::new(Method::POST, "/v1/txn").header("idempotency-key", value.clone());
    let request = request.header("content-type", "application/json").body(body.to_string()).disconnect_sometimes(client);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match (reply.status, reply.field("code"), reply.json["succeeded"].as_bool()) {
        (StatusCode::OK, _, Some(true)) => {
            client.world.coverage.probe(Probe::Transacted);
            let revision = Revision(reply.number("revision").unwrap_or_default());
            held.iter().for_each(|grant| client.world.oracle.observe(&grant.fenced(revision)));
            wrote(client, &reply, &[(0, &paths[0]), (2, &paths[1])], &value);
        }
        (StatusCode::OK, _, Some(false)) => {
            client.world.coverage.probe(Probe::TransactedElse);
            wrote(client, &reply, &[(0, "/chain-broken")], &value);
        }
        (StatusCode::PRECONDITION_FAILED, "stale_token", _) => client.world.coverage.probe(Probe::FenceStale),
        _ => client.unexpected("a transaction", &reply),
    }
}

/// Reports these results of a transaction as writes of that value.
fn wrote(client: &SimClient, reply: &ClientReply, results: &[(usize, &str)], value: &str) {
    let revision = Revision(reply.number("revision").unwrap_or_default());
    for (index, path) in results {
        let put: &Value = &reply.json["results"][*index]["put"];
        match (put["path"].as_str(), put["version"].as_i64()) {
            (Some(reply), Some(version)) if reply == *path => {
                let (path, value) = (reply.to_owned(), value.to_owned());
                client.world.oracle.observe(&Fact::Wrote { path, version, value, revision });
            }
            _ => client.unexpected("a transaction", reply),
        }
    }
}

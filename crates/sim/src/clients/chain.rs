//! A client that holds two locks and writes under both in one transaction: everything at one revision, or the `else` branch.

use super::grip::{Grip, GripWish, TRIES, give_back};
use crate::{
    client::{Ask, ClientReply, SimClient},
    facts::Fact,
    tally::Probe,
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
        let door = format!("door-{}", client.chance.random_range(1..=2));
        let book = format!("book-{}", client.chance.random_range(1..=2));
        let first = GripWish::new(&mut client, &format!("/v1/locks/{door}"), (&door, Mode::Exclusive), TTL, WAIT, "");
        let shared = (book.as_str(), Mode::Shared);
        let second = GripWish::new(&mut client, &format!("/v1/locks/{book}"), shared, TTL, WAIT, "&mode=shared");
        if let Some(mut one) = first.take(&mut client).await {
            if let Some(mut two) = second.take(&mut client).await {
                hold(&mut client, &mut one, &mut two).await;
                two.let_go(&client);
            }
            one.let_go(&client);
        }
        give_back(&mut client, &second.key).await;
        give_back(&mut client, &first.key).await;
    }
}

async fn hold(client: &mut SimClient, one: &mut Grip, two: &mut Grip) {
    for _ in 0..client.chance.random_range(1..4) {
        transact(client, [one, two]).await;
        if !one.renew(client).await || !two.renew(client).await {
            // Its fences must know.
            return transact(client, [one, two]).await;
        }
        client.idle(500).await;
    }
}

async fn transact(client: &mut SimClient, held: [&Grip; 2]) {
    let value = client.key();
    let paths = held.map(|grip| format!("/chain-{}", grip.lock));
    let fence = |grip: &Grip| json!({"fence": {"lock": grip.lock, "token": grip.token.0, "grant": grip.id}});
    let put = |path: &str| json!({"put": {"path": path, "value": value}});
    let log = json!({"create": {"path": "/chain", "sequential": true, "name": "log-", "value": value, "parents": true}});
    let mut body = json!({"if": held.map(fence), "then": [put(&paths[0]), log, put(&paths[1])]});
    if client.chance.random_range(0..2) == 0 {
        body["else"] = json!([put("/chain-broken")]);
    }
    let ask = Ask::new(Method::POST, "/v1/txn").header("idempotency-key", value.clone());
    let ask = ask.header("content-type", "application/json").body(body.to_string()).hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match (told.status, told.field("code"), told.json["succeeded"].as_bool()) {
        (StatusCode::OK, _, Some(true)) => {
            client.world.tally.probe(Probe::Transacted);
            let revision = Revision(told.number("revision").unwrap_or_default());
            held.iter().for_each(|grip| client.world.oracle.told(&grip.fenced(revision)));
            wrote(client, &told, &[(0, &paths[0]), (2, &paths[1])], &value);
        }
        (StatusCode::OK, _, Some(false)) => {
            client.world.tally.probe(Probe::TransactedElse);
            wrote(client, &told, &[(0, "/chain-broken")], &value);
        }
        (StatusCode::PRECONDITION_FAILED, "stale_token", _) => client.world.tally.probe(Probe::FenceStale),
        _ => client.unexpected("a transaction", &told),
    }
}

/// These results of a transaction are writes of that value.
fn wrote(client: &SimClient, told: &ClientReply, results: &[(usize, &str)], value: &str) {
    let revision = Revision(told.number("revision").unwrap_or_default());
    for (index, path) in results {
        let put: &Value = &told.json["results"][*index]["put"];
        match (put["path"].as_str(), put["version"].as_i64()) {
            (Some(told), Some(version)) if told == *path => {
                let (path, value) = (told.to_owned(), value.to_owned());
                client.world.oracle.told(&Fact::Wrote { path, version, value, revision });
            }
            _ => client.unexpected("a transaction", told),
        }
    }
}

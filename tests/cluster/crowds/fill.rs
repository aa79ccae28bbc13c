//! Creates very many items of each kind, as fast as possible: batches and transactions, several in flight.

use crate::{
    batches::{batch, statuses},
    client::{Call, Client, Session, new_key},
    harness::all,
};
use fairhold_types::limits::{BATCH_CALLS_MAX, TRANSACTION_STEPS_MAX};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Requests in flight.
const IN_FLIGHT: usize = 6;

/// Sends calls for pieces of `0..count`, at most `piece` each.
async fn in_pieces(
    client: &Client,
    count: usize,
    piece: usize,
    call: impl Fn(std::ops::Range<usize>) -> Call + Send + Sync + 'static,
) {
    let (call, next) = (Arc::new(call), Arc::new(AtomicUsize::new(0)));
    let tasks = (0..IN_FLIGHT).map(|_| {
        let (client, call, next) = (client.clone(), call.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let from = next.fetch_add(piece, Relaxed);
                if from >= count {
                    return;
                }
                let answer = client.send(&call(from..count.min(from + piece))).await.expect_status(200);
                let all_well = || statuses(&answer).iter().all(|status| matches!(status, 200 | 202));
                assert!(answer.json["answers"].is_null() || all_well(), "{answer:?}");
            }
        })
    });
    all(tasks.collect()).await;
}

/// Acquires locks in a session, each described by its number; waits for those that are not free.
pub(super) async fn acquire(
    client: &Client,
    session: &Session,
    count: usize,
    fields: impl Fn(usize) -> Value + Send + Sync + 'static,
) {
    let session = session.id.clone();
    let acquire = move |number| {
        let mut acquire = fields(number);
        acquire["id"] = json!(new_key());
        acquire["session"] = json!(session);
        acquire["queue"] = json!(true);
        json!({ "acquire": acquire })
    };
    in_pieces(client, count, BATCH_CALLS_MAX, move |piece| batch(&piece.map(&acquire).collect::<Vec<_>>())).await;
}

/// Creates `count` ephemeral nodes of a session below one parent.
pub(super) async fn create_ephemerals(client: &Client, session: &Session, parent: &'static str, count: usize) {
    let session = session.id.clone();
    client.write(&Call::put(&format!("/v1/nodes/{parent}"), "")).await;
    in_pieces(client, count, TRANSACTION_STEPS_MAX, move |piece| {
        let create = |number| json!({"create": {"path": format!("/{parent}/{number}"), "session": session}});
        Call::post("/v1/txn").json(&json!({"then": piece.map(create).collect::<Vec<_>>()}))
    })
    .await;
}

/// A cycle that the owner `r` would close by waiting for `lock`, behind `waiters` unrelated waiters: `r` holds `x`,
/// `p` holds `lock` and waits for `z`, `q` holds `z` and waits for `x`.
pub(super) async fn cycle(client: &Client, session: &Session, lock: &'static str, waiters: usize) {
    let (x, z) = (format!("{lock}-x"), format!("{lock}-z"));
    for (owner, of) in [("r", x.as_str()), ("p", lock), ("q", z.as_str()), ("p", z.as_str()), ("q", x.as_str())] {
        let (owner, of) = (format!("{owner}-{lock}"), of.to_owned());
        acquire(client, session, 1, move |_| json!({"lock": of, "owner": owner})).await;
    }
    acquire(client, session, waiters, move |number| json!({"lock": lock, "owner": format!("{lock}-{number}")})).await;
}

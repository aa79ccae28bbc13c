//! A client writes a pair of nodes in one transaction, under two fences, and reads the pair.

use super::{ChaosClient, HeldLock, WORK};
use crate::{
    history::{Call, FenceEvent, Op, Outcome, pair},
    http::{Reply, Request},
    new_key,
};
use serde_json::{Value, json};
use std::time::Duration;

impl ChaosClient {
    /// Writes both nodes if both tokens are current; otherwise writes a third node.
    pub(crate) async fn transact(&mut self, key: &str, held: [&HeldLock; 2]) -> Outcome {
        let value = new_key();
        let fences = held.map(|held| FenceEvent { lock: held.key.clone(), grant: held.grant, token: held.token });
        let put = |path: String| json!({"put": {"path": format!("/{path}"), "value": value, "parents": true}});
        let fence = |fence: &FenceEvent| json!({"fence": {"lock": fence.lock, "token": fence.token}});
        let body = json!({
            "if": fences.each_ref().map(fence),
            "then": pair(key).map(put),
            "else": [put(format!("{key}/late"))],
        });
        let request = Request::post("/v1/txn", &new_key()).json(&body).within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| (op.fences, op.value) = (fences.to_vec(), Some(value.clone()));
        self.ask(Call::Txn, key, describe, request, learn_txn).await.1.outcome
    }

    /// Reads the versions of both nodes at one revision.
    pub(crate) async fn read_pair(&mut self, key: &str) {
        let request = Request::get(format!("/v1/nodes/{key}?children&meta")).within(WORK, Duration::ZERO);
        self.ask(Call::ReadPair, key, |_| {}, request, learn_pair).await;
    }
}

fn learn_txn(reply: &Reply, op: &mut Op) {
    op.succeeded = reply.json["succeeded"].as_bool();
    if let Some(revision) = reply.json["revision"].as_u64() {
        op.revision = Some(revision);
    }
    let version = |index: usize| reply.json["results"][index]["put"]["version"].as_i64();
    if op.succeeded == Some(true) {
        // `number` is the version of the right node.
        (op.version, op.number) = (version(0), version(1).and_then(|version| u64::try_from(version).ok()));
    }
}

fn learn_pair(reply: &Reply, op: &mut Op) {
    if reply.code() == "no_node" {
        // The read found no pair.
        (op.outcome, op.error) = (Outcome::Ok, None);
    }
    let [left, right] = pair(&op.key).map(|path| version_of(&reply.json, &path));
    (op.version, op.number) = (left, right.and_then(|version| u64::try_from(version).ok()));
}

fn version_of(list: &Value, path: &str) -> Option<i64> {
    let is_it = |item: &&Value| item["path"].as_str().and_then(|at| at.strip_prefix('/')) == Some(path);
    list["items"].as_array()?.iter().find(is_it).and_then(|item| item["version"].as_i64())
}

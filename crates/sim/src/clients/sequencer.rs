//! A client of the tree: it creates sequential nodes, lists them, and removes them.

use super::held_grant::{REMEMBERED_MIN, TRIES};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
    trace,
};
use http::{Method, StatusCode};
use rand::RngExt;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let parent = format!("/bed-{}", client.rng.random_range(1..=2));
        let is_ttl_node = client.rng.random_range(0..3) == 0;
        let Some(node) = create(&mut client, &parent, is_ttl_node).await else { continue };
        if is_ttl_node {
            continue;
        }
        if client.rng.random_range(0..2) == 0 {
            expect_listed(&mut client, &parent, &node, true).await;
        }
        if client.rng.random_range(0..4) > 0 && delete(&mut client, &node).await {
            expect_listed(&mut client, &parent, &node, false).await;
        }
    }
}

/// Creates a node with the key of the request as its value. The leader removes a TTL node.
async fn create(client: &mut SimClient, parent: &str, is_ttl_node: bool) -> Option<String> {
    let (key, ttl) = (client.key(), if is_ttl_node { "&ttl=500ms" } else { "" });
    client.world.oracle.observe(&Fact::CreatingSequential { value: key.clone() });
    let request = ClientRequest::new(Method::POST, format!("/v1/nodes{parent}?sequential&parents&name=plant-{ttl}"));
    let request = request.header("idempotency-key", key.clone()).body(key).disconnect_sometimes(client);
    let reply = client.call_until_known(&request, TRIES).await?;
    if reply.status == StatusCode::CREATED {
        client.world.coverage.probe(Probe::SequentialCreated);
        return Some(reply.field("path").to_owned());
    }
    client.unexpected("a sequential node", &reply);
    None
}

async fn delete(client: &mut SimClient, node: &str) -> bool {
    let key = client.key();
    let request = ClientRequest::new(Method::DELETE, format!("/v1/nodes{node}"))
        .header("idempotency-key", key)
        .disconnect_sometimes(client);
    let begun = trace::since_start();
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return false };
    match reply.status {
        StatusCode::NO_CONTENT => client.world.coverage.probe(Probe::SequentialDeleted),
        // The server has forgotten the key of the first attempt.
        StatusCode::NOT_FOUND if trace::since_start() >= begun + REMEMBERED_MIN => {}
        _ => client.unexpected("the deletion of a node", &reply),
    }
    true
}

/// Checks a list: no other client deletes this node, and no other node gets its number.
async fn expect_listed(client: &mut SimClient, parent: &str, node: &str, is_listed: bool) {
    let Some(reply) = client.call_once(&ClientRequest::new(Method::GET, format!("/v1/nodes{parent}?children&limit=1000"))).await
    else {
        return;
    };
    if matches!(reply.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) {
        return;
    }
    let names: Vec<&str> = reply.json["items"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let name = node.rsplit('/').next().unwrap_or_default();
    if reply.status != StatusCode::OK || !names.is_sorted() || names.contains(&name) != is_listed {
        client.unexpected(&format!("a list in which {name} {}", if is_listed { "is listed" } else { "is missing" }), &reply);
    }
}

//! A client that works in the tree: it creates sequential nodes, lists them, and removes them.

use super::grip::{REMEMBERED_MIN, TRIES};
use crate::{
    client::{Ask, SimClient},
    facts::Fact,
    tally::Probe,
    trace,
};
use http::{Method, StatusCode};
use rand::RngExt;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let bed = format!("/bed-{}", client.chance.random_range(1..=2));
        let fades = client.chance.random_range(0..3) == 0;
        let Some(plant) = sow(&mut client, &bed, fades).await else { continue };
        if fades {
            continue;
        }
        if client.chance.random_range(0..2) == 0 {
            expect(&mut client, &bed, &plant, true).await;
        }
        if client.chance.random_range(0..4) > 0 && pull(&mut client, &plant).await {
            expect(&mut client, &bed, &plant, false).await;
        }
    }
}

/// Makes a node whose value is the key of the request; the leader removes one that fades.
async fn sow(client: &mut SimClient, bed: &str, fades: bool) -> Option<String> {
    let (key, ttl) = (client.key(), if fades { "&ttl=500ms" } else { "" });
    client.world.oracle.told(&Fact::Sowing { value: key.clone() });
    let ask = Ask::new(Method::POST, format!("/v1/nodes{bed}?sequential&parents&name=plant-{ttl}"));
    let ask = ask.header("idempotency-key", key.clone()).body(key).hang_up_sometimes(client);
    let told = client.until_known(&ask, TRIES).await?;
    if told.status == StatusCode::CREATED {
        client.world.tally.probe(Probe::Sown);
        return Some(told.field("path").to_owned());
    }
    client.unexpected("a node with a number", &told);
    None
}

async fn pull(client: &mut SimClient, plant: &str) -> bool {
    let key = client.key();
    let ask = Ask::new(Method::DELETE, format!("/v1/nodes{plant}")).header("idempotency-key", key).hang_up_sometimes(client);
    let begun = trace::since_start();
    let Some(told) = client.until_known(&ask, TRIES).await else { return false };
    match told.status {
        StatusCode::NO_CONTENT => client.world.tally.probe(Probe::Pulled),
        // The key of the first try is forgotten.
        StatusCode::NOT_FOUND if trace::since_start() >= begun + REMEMBERED_MIN => {}
        _ => client.unexpected("the removal of a node", &told),
    }
    true
}

/// Nobody else removes this node, and no node gets the same number again.
async fn expect(client: &mut SimClient, bed: &str, plant: &str, is_there: bool) {
    let Some(told) = client.once(&Ask::new(Method::GET, format!("/v1/nodes{bed}?children&limit=1000"))).await else { return };
    if matches!(told.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) {
        return;
    }
    let names: Vec<&str> = told.json["items"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let name = plant.rsplit('/').next().unwrap_or_default();
    if told.status != StatusCode::OK || !names.is_sorted() || names.contains(&name) != is_there {
        client.unexpected(&format!("a list in which {name} {}", if is_there { "stands" } else { "is missing" }), &told);
    }
}

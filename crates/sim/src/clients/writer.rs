//! A client that writes and reads nodes, and reports what it wrote and read.

use crate::{
    client::{Ask, SimClient},
    facts::Fact,
    tally::Probe,
};
use fairhold_types::Revision;
use http::{Method, StatusCode};
use rand::RngExt;

const TRIES: u32 = 8;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds * 4 {
        client.idle(250).await;
        let path = format!("/register-{}", client.chance.random_range(1..=3));
        match client.chance.random_range(0..4) {
            0 | 1 => write(&mut client, path).await,
            2 => read(&mut client, path, false).await,
            _ => read(&mut client, path, true).await,
        }
    }
}

async fn write(client: &mut SimClient, path: String) {
    let value = client.key();
    let ask = Ask::new(Method::PUT, format!("/v1/nodes{path}")).header("idempotency-key", value.clone()).body(value.clone());
    let ask = ask.hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match (told.status, told.version()) {
        (StatusCode::OK | StatusCode::CREATED, Some(version)) => {
            let revision = Revision(told.number("revision").unwrap_or_default());
            client.world.oracle.told(&Fact::Wrote { path, version, value, revision });
        }
        (StatusCode::GONE, _) => client.world.tally.probe(Probe::GrantGone),
        (_, _) => client.unexpected("a write", &told),
    }
}

async fn read(client: &mut SimClient, path: String, local: bool) {
    let uri = format!("/v1/nodes{path}{}", if local { "?consistency=local" } else { "" });
    let ask = Ask::new(Method::GET, uri);
    let ask = if local { ask.local() } else { ask };
    let Some(told) = client.once(&ask).await else { return };
    match (told.status, told.version()) {
        (StatusCode::OK, Some(version)) => {
            client.world.oracle.told(&Fact::Read { path, version, value: told.text, revision: told.revision });
        }
        (StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
        (_, _) => client.unexpected("a read", &told),
    }
}

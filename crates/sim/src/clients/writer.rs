//! A client that writes and reads nodes, and reports what it wrote and read.

use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
};
use fairhold_types::Revision;
use http::{Method, StatusCode};
use rand::RngExt;

const TRIES: u32 = 8;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds * 4 {
        client.idle(250).await;
        let path = format!("/register-{}", client.rng.random_range(1..=3));
        match client.rng.random_range(0..4) {
            0 | 1 => write(&mut client, path).await,
            2 => read(&mut client, path, false).await,
            _ => read(&mut client, path, true).await,
        }
    }
}

async fn write(client: &mut SimClient, path: String) {
    let value = client.key();
    let request =
        ClientRequest::new(Method::PUT, format!("/v1/nodes{path}")).header("idempotency-key", value.clone()).body(value.clone());
    let request = request.disconnect_sometimes(client);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match (reply.status, reply.version()) {
        (StatusCode::OK | StatusCode::CREATED, Some(version)) => {
            let revision = Revision(reply.number("revision").unwrap_or_default());
            client.world.oracle.observe(&Fact::Wrote { path, version, value, revision });
        }
        (StatusCode::GONE, _) => client.world.coverage.probe(Probe::GrantGone),
        (_, _) => client.unexpected("a write", &reply),
    }
}

async fn read(client: &mut SimClient, path: String, local: bool) {
    let uri = format!("/v1/nodes{path}{}", if local { "?consistency=local" } else { "" });
    let request = ClientRequest::new(Method::GET, uri);
    let request = if local { request.local() } else { request };
    let Some(reply) = client.call_once(&request).await else { return };
    match (reply.status, reply.version()) {
        (StatusCode::OK, Some(version)) => {
            client.world.oracle.observe(&Fact::Read { path, version, value: reply.text, revision: reply.revision });
        }
        (StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
        (_, _) => client.unexpected("a read", &reply),
    }
}

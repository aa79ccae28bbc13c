//! A candidate: it enters an election, proclaims new values while it leads, resigns, and looks up the leader.

use super::held_grant::{Acquisition, HeldGrant, TRIES, release};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
};
use fairhold_types::{FencingToken, Mode};
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(2);

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let name = format!("chief-{}", client.rng.random_range(1..=2));
        read_leader(&mut client, &name).await;
        let value = client.key();
        let wait = Duration::from_millis(client.rng.random_range(0..4_000));
        let (route, more) = (format!("/v1/elections/{name}"), format!("&value={value}"));
        let acquisition = Acquisition::new(&mut client, &route, (&name, Mode::Exclusive), TTL, wait, &more);
        let acquisition = acquisition.disconnect_early_sometimes(&mut client);
        if let Some(mut grant) = acquisition.acquire(&mut client).await {
            lead(&mut client, &mut grant).await;
            grant.report_release(&client);
        }
        release(&mut client, &acquisition.key).await;
    }
}

async fn lead(client: &mut SimClient, grant: &mut HeldGrant) {
    for _ in 0..client.rng.random_range(1..5) {
        let continues = match client.rng.random_range(0..4) {
            0 | 1 => proclaim(client, grant).await,
            2 => {
                read_leader(client, grant.lock.as_str()).await;
                true
            }
            _ => {
                grant.write(client).await;
                true
            }
        };
        if !continues || !grant.renew(client).await {
            return;
        }
        client.idle(600).await;
    }
}

/// Returns whether it still believes that it leads.
async fn proclaim(client: &mut SimClient, grant: &HeldGrant) -> bool {
    let value = client.key();
    let uri = format!("/v1/elections/{}?grant={}&value={value}", grant.lock, grant.id);
    let request = ClientRequest::new(Method::PUT, uri).header("idempotency-key", value.clone()).disconnect_sometimes(client);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return true };
    match (reply.status, reply.field("code"), reply.number("version")) {
        (StatusCode::OK, _, Some(version)) => {
            client.world.coverage.probe(Probe::Proclaimed);
            let (election, token) = (grant.lock.clone(), grant.token);
            client.world.oracle.observe(&Fact::Led { election, token, version, value });
            true
        }
        (StatusCode::CONFLICT, "not_leader", _) => false,
        _ => {
            client.unexpected("a proclamation", &reply);
            false
        }
    }
}

async fn read_leader(client: &mut SimClient, name: &str) {
    let Some(reply) = client.call_once(&ClientRequest::new(Method::GET, format!("/v1/elections/{name}"))).await else { return };
    match (reply.status, reply.field("code"), reply.number("token").zip(reply.number("version"))) {
        (StatusCode::OK, _, Some((token, version))) => {
            let (election, token, value) = (super::held_grant::lock(name), FencingToken(token), reply.field("value").to_owned());
            client.world.oracle.observe(&Fact::Led { election, token, version, value });
        }
        (StatusCode::NOT_FOUND, "no_leader", _) => {}
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _, _) => {}
        _ => client.unexpected("a read of an election", &reply),
    }
}

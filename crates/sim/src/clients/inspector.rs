//! A client that only reads locks, queues, histories and sessions, at any node. Its
//! answers must never go back in time.

use crate::client::{ClientRequest, SimClient};
use fairhold_types::Revision;
use http::{Method, StatusCode};
use rand::RngExt;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    let mut seen = Revision(0);
    for _ in 0..rounds * 4 {
        client.idle(300).await;
        let kind = ["door", "book", "pool"][client.rng.random_range(0..3_usize)];
        let lock = format!("/v1/locks/{kind}-{}", client.rng.random_range(1..=2));
        let path = match client.rng.random_range(0..6) {
            0 => lock,
            1 => format!("{lock}/queue"),
            2 => format!("{lock}/history"),
            3 => "/v1/locks".to_owned(),
            4 => "/v1/sessions".to_owned(),
            _ => "/v1/nodes/locks?children".to_owned(),
        };
        let separator = if path.contains('?') { '&' } else { '?' };
        let request = match client.rng.random_range(0..3) {
            0 => ClientRequest::new(Method::GET, path),
            _ => {
                let local = ClientRequest::new(Method::GET, format!("{path}{separator}consistency=local")).local();
                local.header("fairhold-min-revision", seen.0.to_string())
            }
        };
        let Some(reply) = client.call_once(&request).await else { continue };
        match reply.status {
            StatusCode::OK if reply.revision >= seen => seen = reply.revision,
            StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {}
            _ => client.unexpected(&format!("a read of {} from revision {seen} on", request.uri), &reply),
        }
    }
}

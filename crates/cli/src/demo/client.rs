//! One client of the demo: queues, holds for a moment, releases, for ever. What a careful client does over HTTP stands
//! here.

use super::{
    board::{Board, DemoGrant},
    names::LOCKS,
};
use crate::local_http::http_client;
use rand::RngExt;
use reqwest::{Client, Method, StatusCode};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// How long one request waits in the queue; then the client asks again.
const WAIT: Duration = Duration::from_secs(60);
/// How long an answer may take, longer than the wait. A node that died is noticed at once; this is for one that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a grant lives if its client dies. Well above the time for which it is held, so that nothing has to be
/// renewed.
const TTL: Duration = Duration::from_secs(10);
/// How long a client holds, in milliseconds.
const HOLD_MILLIS: std::ops::Range<u64> = 1_000..3_000;
/// The pause before a request that failed is sent to the next node.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What an answer says of the grant.
#[derive(Debug, Deserialize)]
struct DemoGrip {
    id: String,
    token: Option<u64>,
}

/// What to do after an answer.
#[derive(Debug)]
enum Next {
    /// It holds.
    Hold(DemoGrip),
    /// This wish is over: the next one gets a new key.
    Afresh,
    /// The same wish again, at another node.
    Elsewhere,
}

/// Queues for one lock after the other.
pub(super) async fn queue_for_ever(name: &'static str, urls: Arc<[String]>, board: Arc<Board>) {
    let client = http_client(ANSWER_TIMEOUT);
    let mut node = rand::rng().random_range(0..urls.len());
    loop {
        let lock = LOCKS[rand::rng().random_range(0..LOCKS.len())];
        // Made once for each request: a node that gets it again knows that it is the same.
        let key = ulid::Ulid::generate().to_string();
        let asked = Instant::now();
        let held = loop {
            match acquire(&client, &urls[node], lock, name, &key).await {
                Next::Hold(held) => break Some(held),
                Next::Afresh => break None,
                Next::Elsewhere => {
                    sleep(RETRY_PAUSE).await;
                    node = (node + 1) % urls.len();
                }
            }
        };
        let Some(held) = held else { continue };
        let at = Instant::now();
        board.granted(lock, DemoGrant { owner: name, token: held.token.unwrap_or_default(), at }, asked);
        sleep(hold_time()).await;
        board.released(lock, Instant::now());
        while !release(&client, &urls[node], &held.id).await {
            sleep(RETRY_PAUSE).await;
            node = (node + 1) % urls.len();
        }
        node = rand::rng().random_range(0..urls.len());
    }
}

fn hold_time() -> Duration {
    Duration::from_millis(rand::rng().random_range(HOLD_MILLIS))
}

async fn acquire(client: &Client, url: &str, lock: &str, owner: &str, key: &str) -> Next {
    let seconds = |duration: Duration| format!("{}s", duration.as_secs());
    let request = client.request(Method::POST, format!("{url}/v1/locks/{lock}")).header("Idempotency-Key", key);
    let request = request.query(&[("wait", seconds(WAIT)), ("ttl", seconds(TTL)), ("owner", owner.to_owned())]);
    let Ok(answer) = request.send().await else { return Next::Elsewhere };
    match answer.status() {
        StatusCode::OK => answer.json().await.map_or(Next::Elsewhere, Next::Hold),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Next::Elsewhere,
        // The wait is over, or the grant is: either way nothing is held under this key.
        _ => {
            sleep(RETRY_PAUSE).await;
            Next::Afresh
        }
    }
}

/// Whether it is sure that the grant is over. Releasing twice is harmless.
async fn release(client: &Client, url: &str, id: &str) -> bool {
    let answer = client.request(Method::DELETE, format!("{url}/v1/grants/{id}")).send().await;
    answer.is_ok_and(|answer| answer.status().is_success() || answer.status().is_client_error())
}

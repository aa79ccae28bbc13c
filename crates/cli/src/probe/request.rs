//! The requests of a probe. None of them takes longer than the limit of the client, and no answer is longer than that of a
//! node.

use crate::local_http::{ANSWER_BYTES_MAX, body_of, cause};
use fairhold_health::answer::{ClockOffset, ClusterDetails, NodeDigest, ProbedEndpoint, ProbedNode, Unanswered};
use fairhold_types::{
    Code, NodeId,
    dto::{Alarms, Cluster, Readiness},
    duration,
    time::WallMillis,
};
use futures_util::future::join_all;
use reqwest::{Client, StatusCode};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::{net::TcpStream, time::timeout};

/// The metric with the time at which a node's process started, in seconds.
const STARTED: &str = "fairhold_process_start_time_seconds ";

/// What to request from each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Only its view of the cluster.
    Cluster,
    /// Its readiness and its start time too.
    All,
}

/// Asks these nodes concurrently.
pub(super) async fn nodes(client: &Client, urls: &[String], given: bool, depth: Depth) -> Vec<ProbedEndpoint> {
    let ask = |url: &String| {
        let url = url.clone();
        async move { ProbedEndpoint { answer: node(client, &url, depth).await, url, given } }
    };
    join_all(urls.iter().map(ask)).await
}

async fn node(client: &Client, url: &str, depth: Depth) -> Result<ProbedNode, Unanswered> {
    let cluster: Cluster = get(client, format!("{url}/v1/cluster")).await?;
    if depth == Depth::Cluster {
        return Ok(ProbedNode { cluster, readiness: None, alarms: None, clock: None, started_at: None });
    }
    // The connection is open now, so the times around this request cover one round trip and the readiness check.
    let before = now();
    let started = Instant::now();
    let readiness: Option<Readiness> = get(client, format!("{url}/readyz?verbose")).await.ok();
    let after = WallMillis(before.0.saturating_add(duration::millis(started.elapsed())));
    let shown = readiness.as_ref().and_then(|readiness| WallMillis::from_rfc3339(readiness.host.time.as_deref()?));
    let clock = shown.map(|shown| ClockOffset::between(before, shown, after));
    let alarms: Option<Alarms> = get(client, format!("{url}/v1/cluster/alarms")).await.ok();
    let metrics = text(client, format!("{url}/metrics")).await;
    Ok(ProbedNode { cluster, readiness, alarms, clock, started_at: metrics.as_deref().and_then(started_at) })
}

/// Asks one node about the whole cluster.
pub(super) async fn details(client: &Client, url: &str) -> ClusterDetails {
    let (members, timing, upgrade) = tokio::join!(
        get(client, format!("{url}/v1/cluster/members")),
        get(client, format!("{url}/v1/cluster/timing")),
        get(client, format!("{url}/v1/cluster/upgrade")),
    );
    ClusterDetails { members: members.ok(), timing: timing.ok(), upgrade: upgrade.ok() }
}

/// A digest of the state of this node, and where that state is, as far as one answer tells.
pub(super) async fn digest(client: &Client, node: NodeId, url: &str) -> Option<NodeDigest> {
    let answer: Cluster = get(client, format!("{url}/v1/cluster?digest")).await.ok()?;
    let (digest, revision) = (answer.digest?, answer.digest_revision?);
    // A state that has changed since then is not at that log entry.
    let applied = answer.applied_index.filter(|_| answer.revision == revision);
    (answer.id == node).then_some(NodeDigest { node, applied, revision, digest })
}

/// Whether a member's peer port accepts connections. Sends nothing.
pub(super) async fn peer_port(address: String, limit: Duration) -> (String, Result<(), String>) {
    let connected = match timeout(limit, TcpStream::connect(&address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    };
    (address, connected)
}

/// A JSON body, whatever the status: a node that is not ready answers with one too.
async fn get<T: DeserializeOwned>(client: &Client, url: String) -> Result<T, Unanswered> {
    let answer = client.get(url).send().await.map_err(|error| Unanswered::Unreachable(cause(&error)))?;
    let status = answer.status();
    let body = body_of(answer, ANSWER_BYTES_MAX).await.map_err(Unanswered::Unreachable)?;
    serde_json::from_slice(&body).map_err(|_| unexpected(status, &body))
}

/// What a node answers instead, such as one that waits until its cluster admits it.
fn unexpected(status: StatusCode, body: &[u8]) -> Unanswered {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    // A proxy has none of these codes.
    let code = Code::deserialize(&problem["code"]).ok();
    match (problem["detail"].as_str(), code) {
        (Some(detail), Some(Code::Denied)) => Unanswered::Denied(detail.to_owned()),
        (Some(detail), Some(Code::Unauthenticated)) => Unanswered::Unauthenticated(detail.to_owned()),
        (Some(detail), Some(_)) if status == StatusCode::SERVICE_UNAVAILABLE => Unanswered::CannotServe(detail.to_owned()),
        (Some(detail), _) => Unanswered::Unreachable(format!("it answers with status {status}: {detail}")),
        (None, _) => Unanswered::Unreachable(format!("it answers with status {status}, but not like a fairhold node")),
    }
}

async fn text(client: &Client, url: String) -> Option<String> {
    let answer = client.get(url).send().await.ok()?;
    String::from_utf8(body_of(answer, ANSWER_BYTES_MAX).await.ok()?).ok()
}

/// The start time in the metrics of a node.
fn started_at(metrics: &str) -> Option<WallMillis> {
    let seconds = metrics.lines().find_map(|line| line.strip_prefix(STARTED))?;
    let since = Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok()?;
    Some(WallMillis(duration::millis(since)))
}

/// This machine's wall clock.
pub(super) fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(duration::millis(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_a_node_that_does_not_serve() {
        let answer = |status: u16, body: &str| unexpected(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        let denied = answer(403, r#"{"code":"denied","detail":"it needs status on cluster"}"#);
        assert_eq!(denied, Unanswered::Denied("it needs status on cluster".to_owned()));
        let unknown = answer(401, r#"{"code":"unauthenticated","detail":"the credential is not valid"}"#);
        assert_eq!(unknown, Unanswered::Unauthenticated("the credential is not valid".to_owned()));
        let waiting = answer(503, r#"{"code":"no_quorum","detail":"the disk is full"}"#);
        assert_eq!(waiting, Unanswered::CannotServe("the disk is full".to_owned()));
        let proxy = answer(503, r#"{"code":"upstream_down","detail":"no backend"}"#);
        let why = "it answers with status 503 Service Unavailable: no backend".to_owned();
        assert_eq!(proxy, Unanswered::Unreachable(why));
        let absent = answer(404, r#"{"code":"not_found","detail":"there is nothing here"}"#);
        let why = "it answers with status 404 Not Found: there is nothing here".to_owned();
        assert_eq!(absent, Unanswered::Unreachable(why));
        let foreign = answer(403, "<html>");
        assert!(foreign.refusal().is_none() && foreign.reason().contains("not like a fairhold node"), "{foreign:?}");
    }

    #[test]
    fn the_start_of_a_process_is_read_from_its_metrics() {
        let name = "fairhold_process_start_time_seconds";
        let metrics = format!("# HELP {name} When it started.\n# TYPE {name} gauge\n{name} 1763700840.5\nother 7\n");
        assert_eq!(started_at(&metrics), Some(WallMillis(1_763_700_840_500)));
        for metrics in ["", "fairhold_process_start_time_seconds x\n", "fairhold_process_start_time_seconds -1\n"] {
            assert_eq!(started_at(metrics), None, "{metrics}");
        }
    }
}

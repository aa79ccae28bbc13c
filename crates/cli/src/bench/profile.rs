//! Splits the mean time of a cycle (an acquire and a release) into parts. The client and the leader's histograms measure
//! nested intervals. A part is one interval minus the next inside it, so the parts add up to the whole.

use super::{
    measure::round,
    target::Target,
    wire::{Wire, WireAnswer},
};
use crate::remote::{Api, ApiRequest, Failure};
use fairhold_types::dto;
use serde_json::{Value, json};

/// The requests of one cycle. Each is one command.
const REQUESTS: f64 = 2.0;
/// The routes of a cycle's requests.
const ROUTES: [&str; 2] = ["/v1/locks/{name}", "/v1/grants/{id}"];

/// A connection to the leader, and its histograms before the run.
#[derive(Debug)]
pub(super) struct Profile {
    wire: Wire,
    before: Page,
}

/// The histograms on a page of the leader's metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Page {
    http: Times,
    proposal: Times,
    commit: Times,
    sync: Times,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    sum: f64,
    count: f64,
}

impl Profile {
    /// Reads the leader's metrics, and directs all load to the leader.
    pub(super) async fn begin(target: &mut Target) -> Result<Profile, Failure> {
        let cluster: dto::Cluster = Api::new(&target.connect)?.call(&ApiRequest::get("/v1/cluster")).await?.read()?;
        let leader = cluster.leader_url.ok_or_else(|| Failure::Unavailable("there is no leader now".to_owned()))?;
        target.use_only(&leader)?;
        let mut wire = target.wire(0);
        let before = Page::get(&mut wire).await?;
        Ok(Profile { wire, before })
    }

    /// The parts of a cycle whose mean is `whole` milliseconds, from socket to socket.
    pub(super) async fn end(mut self, whole: f64) -> Result<Value, Failure> {
        let after = Page::get(&mut self.wire).await?;
        Ok(parts(whole, &self.before, &after))
    }
}

fn parts(whole: f64, before: &Page, after: &Page) -> Value {
    // Each command of a cycle waits for a whole log entry and disk write, even if others share it: each mean counts once
    // for each request.
    let cycle = |part: fn(&Page) -> Times| {
        let before = part(before);
        let after = part(after);
        REQUESTS * 1_000.0 * (after.sum - before.sum) / (after.count - before.count).max(1.0)
    };
    let http = cycle(|page| page.http);
    let proposal = cycle(|page| page.proposal);
    let commit = cycle(|page| page.commit);
    let sync = cycle(|page| page.sync);
    let part = |name: &str, ms: f64| json!({"part": name, "ms": round(ms)});
    json!([
        part("client, kernel and both ends of the socket", whole - http),
        part("HTTP, JSON and the node's own work", http - proposal),
        part("batching, up to the append, and the way back to the request", proposal - commit),
        part("replication to a majority, and apply", commit - sync),
        part("write and sync of the leader's log", sync),
    ])
}

impl Page {
    async fn get(wire: &mut Wire) -> Result<Page, Failure> {
        let answer = wire.send("GET", "/metrics", "", &[]).await.and_then(WireAnswer::success).map_err(Failure::Unavailable)?;
        Ok(Page::read(&String::from_utf8_lossy(&answer.body)))
    }

    fn read(page: &str) -> Page {
        let value = |series: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
        };
        let times = |name: &str, labels: &str| Times {
            sum: value(&format!("fairhold_{name}_sum{labels}")),
            count: value(&format!("fairhold_{name}_count{labels}")),
        };
        let routes = ROUTES.map(|route| times("http_request_seconds", &format!("{{route=\"{route}\"}}")));
        Page {
            http: Times { sum: routes.iter().map(|of| of.sum).sum(), count: routes.iter().map(|of| of.count).sum() },
            proposal: times("raft_proposal_seconds", ""),
            commit: times("raft_commit_seconds", ""),
            sync: times("storage_sync_seconds", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let times = |sum, count| Times { sum, count };
        let page = |by: f64| Page {
            http: times(by * 0.8, by * 400.0),
            proposal: times(by * 0.6, by * 400.0),
            commit: times(by * 0.5, by * 400.0),
            sync: times(by * 0.2, by * 400.0),
        };
        let parts = parts(5.0, &page(1.0), &page(2.0));
        let each: Vec<f64> = parts.as_array().unwrap().iter().map(|part| part["ms"].as_f64().unwrap()).collect();
        assert_eq!(each, [1.0, 1.0, 0.5, 1.5, 1.0]);
    }

    #[test]
    fn a_metrics_page_is_read_by_its_series() {
        let page = "fairhold_http_request_seconds_sum{route=\"/v1/locks/{name}\"} 1.5\n\
                    fairhold_http_request_seconds_count{route=\"/v1/locks/{name}\"} 3\n\
                    fairhold_http_request_seconds_sum{route=\"/v1/grants/{id}\"} 0.5\n\
                    fairhold_http_request_seconds_count{route=\"/v1/grants/{id}\"} 1\nfairhold_raft_commit_seconds_sum 7.0\n";
        let read = Page::read(page);
        assert_eq!((read.http.sum, read.http.count, read.commit.sum, read.sync.count), (2.0, 4.0, 7.0, 0.0));
    }
}

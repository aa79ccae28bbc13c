//! Probes a whole cluster: asks every given endpoint, and every member that one of them lists.
//!
//! A node that was down or cut off may list members that were replaced meanwhile. So a probe also asks the members that
//! it learns from members.

pub(crate) mod digests;
mod request;

use fairhold_health::{
    answer::ClusterDetails,
    cluster_probe::{ClusterProbe, normalized_url},
};
use fairhold_types::limits::{LEARNERS_MAX, VOTERS_MAX};
use futures_util::future::join_all;
use request::Depth;
use reqwest::Client;
use std::time::Duration;

/// The most rounds of requests after the given endpoints, each to the members that the round before has named.
const ROUNDS_MAX: usize = 3;
/// The most members that a probe asks without being told to: those of the largest cluster, and as many that they have
/// replaced. A server that is no node may list any number.
pub(crate) const LEARNED_MAX: usize = 2 * (VOTERS_MAX as usize + LEARNERS_MAX as usize);

/// Requests only each node's view of the cluster: cheap enough for once a second.
pub(crate) async fn brief(client: &Client, urls: &[String]) -> ClusterProbe {
    request_all(client, urls, None).await
}

/// Requests everything. No connection to a peer port takes longer than `limit`.
pub(crate) async fn full(client: &Client, urls: &[String], limit: Duration) -> ClusterProbe {
    request_all(client, urls, Some(limit)).await
}

async fn request_all(client: &Client, urls: &[String], all_within: Option<Duration>) -> ClusterProbe {
    let depth = if all_within.is_some() { Depth::All } else { Depth::Cluster };
    let begun_at = request::now();
    let mut given: Vec<String> = Vec::new();
    for url in urls.iter().map(|url| normalized_url(url)) {
        if !given.contains(&url) {
            given.push(url);
        }
    }
    let endpoints = request::nodes(client, &given, true, depth).await;
    let mut seen = ClusterProbe { endpoints, begun_at, ..ClusterProbe::default() };
    for _ in 0..ROUNDS_MAX {
        let mut missing = seen.unasked();
        missing.truncate((given.len() + LEARNED_MAX).saturating_sub(seen.endpoints.len()));
        if missing.is_empty() {
            break;
        }
        seen.endpoints.extend(request::nodes(client, &missing, false, depth).await);
    }
    if let Some(limit) = all_within {
        let peers = seen.members().into_values().take(LEARNED_MAX).map(|(_, peer)| request::peer_port(peer, limit));
        let best = seen.best_urls().into_iter().next();
        let details = async {
            match best {
                Some(url) => request::details(client, &url).await,
                None => ClusterDetails::default(),
            }
        };
        let (peers, details) = tokio::join!(join_all(peers), details);
        seen.peers = peers.into_iter().collect();
        seen.details = details;
    }
    seen
}

#[cfg(test)]
pub(crate) mod nodes_for_tests;
#[cfg(test)]
#[path = "probe/probe_tests.rs"]
mod tests;

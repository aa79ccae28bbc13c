//! Asks the nodes for digests of their states, until all of them are at the same log entry.

use super::request;
use fairhold_health::{answer::NodeDigest, cluster_probe::ClusterProbe};
use fairhold_types::NodeId;
use futures_util::future::join_all;
use reqwest::Client;
use std::{collections::BTreeMap, time::Duration};

/// The most rounds of requests: to compute a digest, a node reads its whole state.
const ROUNDS_MAX: usize = 6;
/// Pause between two rounds. A node that applies nothing in between is certainly at the log entry that it names.
const PAUSE: Duration = Duration::from_millis(500);

/// The digests of the nodes that have answered.
pub(crate) async fn collect(client: &Client, seen: &ClusterProbe) -> Vec<NodeDigest> {
    let nodes: Vec<(NodeId, String)> = seen.nodes().into_iter().map(|(id, (at, _))| (id, at.url.clone())).collect();
    let mut found: Vec<NodeDigest> = Vec::new();
    let mut before: BTreeMap<NodeId, NodeDigest> = BTreeMap::new();
    for round in 0..ROUNDS_MAX {
        if round > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let answers = join_all(nodes.iter().map(|(id, url)| request::digest(client, *id, url))).await;
        let mut entries: Vec<u64> = Vec::new();
        for answer in answers.into_iter().flatten() {
            let is_still = before.insert(answer.node, answer.clone()).is_some_and(|last| last == answer);
            let applied = answer.applied.filter(|_| is_still);
            entries.extend(applied);
            found.push(NodeDigest { applied, ..answer });
        }
        let are_all_still = entries.len() == nodes.len();
        entries.dedup();
        if are_all_still && entries.len() <= 1 {
            break;
        }
    }
    found
}

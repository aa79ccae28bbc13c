//! Rules about what protects the ports of a node.

use crate::{
    doctor::finding::{Finding, warn},
    probe::NodeAnswer,
};
use fairhold_types::NodeId;

/// Whether other machines can reach a port of a node that is not protected.
pub(super) fn exposed(id: NodeId, answer: &NodeAnswer) -> Option<Finding> {
    let exposures = &answer.cluster.insecure;
    if exposures.is_empty() {
        return None;
    }
    let what: Vec<&str> = exposures.iter().map(|exposure| meaning(exposure)).collect();
    Some(warn(
        "insecure",
        format!("node {id} runs with --insecure: {}", what.join(", ")),
        "give it certificates (fairhold cert; --cert for clients, --peer-ca for nodes), then start it without --insecure",
    ))
}

/// A newer node may name something that this program does not know.
fn meaning(exposure: &str) -> &str {
    match exposure {
        "plain_clients" => "clients use plain text",
        "plain_peers" => "connections between nodes have no TLS",
        "open_peers" => "other nodes need not authenticate",
        other => other,
    }
}

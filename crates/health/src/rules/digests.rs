//! Whether the nodes have the same state. Nodes that have applied the same log entries must have.

use crate::{
    answer::NodeDigest,
    cluster_probe::ClusterProbe,
    divergence::describe,
    finding::{Finding, fail, ok, warn},
    text::named,
};
use fairhold_types::{NodeId, Revision};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

const CHECK: &str = "digest";

/// A place in the history at which states can be compared. A log entry tells more than a revision: states that differ may
/// count revisions differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Revision(Revision),
    Applied(u64),
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Revision(revision) => write!(f, "revision {}", revision.0),
            Point::Applied(index) => write!(f, "log entry {index}"),
        }
    }
}

/// The different states at one point, each with its nodes.
type States<'a> = BTreeMap<(Revision, &'a str), BTreeSet<NodeId>>;

/// Compares the states of the nodes, if their digests were asked for.
pub(super) fn digests(seen: &ClusterProbe) -> Option<Finding> {
    let points = points(seen.digests.as_deref()?);
    if let Some((point, states)) = points.iter().rev().find(|(_, states)| states.len() > 1) {
        return Some(differ(seen, *point, states));
    }
    let compared = points.iter().filter_map(|(point, states)| Some((states.values().next()?, *point)));
    let (compared, point) = compared.max_by_key(|(nodes, point)| (nodes.len(), *point)).unzip();
    let compared = compared.cloned().unwrap_or_default();
    let nodes: Vec<NodeId> = seen.nodes().into_keys().collect();
    let missing: Vec<NodeId> = nodes.iter().copied().filter(|id| !compared.contains(id)).collect();
    Some(match point {
        Some(point) if missing.is_empty() => ok(CHECK, format!("{}: the same state at {point}", named(&nodes))),
        Some(_) | None => warn(
            CHECK,
            format!("the state of {} could not be compared with that of the others", named(&missing)),
            "run doctor --digest again while little is written, so that all nodes are at the same log entry; if the state is \
             large, also with a longer --timeout",
        ),
    })
}

/// The states at each point at which they can be compared. A node with two states at one point is no evidence against
/// another node.
fn points(digests: &[NodeDigest]) -> BTreeMap<Point, States<'_>> {
    let mut points: BTreeMap<Point, States<'_>> = BTreeMap::new();
    for NodeDigest { node, applied, revision, digest } in digests {
        for point in [Some(Point::Revision(*revision)), applied.map(Point::Applied)].into_iter().flatten() {
            points.entry(point).or_default().entry((*revision, digest.as_str())).or_default().insert(*node);
        }
    }
    points.retain(|_, states| {
        let all: BTreeSet<NodeId> = states.values().flatten().copied().collect();
        all.len() == states.values().map(BTreeSet::len).sum::<usize>()
    });
    points
}

fn differ(seen: &ClusterProbe, point: Point, states: &States<'_>) -> Finding {
    let states: Vec<BTreeSet<NodeId>> = states.values().cloned().collect();
    let (text, advice) = describe(&point.to_string(), &states, &seen.voters(), seen.leader().map(|(leader, ..)| leader));
    fail(CHECK, text, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(node: NodeId, applied: Option<u64>, revision: u64, digest: &str) -> NodeDigest {
        NodeDigest { node, applied, revision: Revision(revision), digest: digest.to_owned() }
    }

    /// The nodes of each state, at each point with more than one.
    fn differences(digests: &[NodeDigest]) -> Vec<(String, Vec<Vec<NodeId>>)> {
        let points = points(digests);
        let differing = points.into_iter().filter(|(_, states)| states.len() > 1);
        let listed = |nodes: &BTreeSet<NodeId>| nodes.iter().copied().collect::<Vec<NodeId>>();
        differing.map(|(point, states)| (point.to_string(), states.values().map(listed).collect())).collect()
    }

    #[test]
    fn only_nodes_at_one_place_in_the_history_are_compared() {
        let none: [(String, Vec<Vec<NodeId>>); 0] = [];
        assert_eq!(differences(&[at(1, Some(13), 10, "a"), at(2, Some(14), 11, "b")]), none, "node 2 is ahead");
        assert_eq!(differences(&[at(1, None, 10, "a"), at(2, Some(14), 10, "a")]), none);
        let by_entry = [at(1, Some(13), 10, "a"), at(2, Some(13), 10, "a"), at(3, Some(13), 9, "b")];
        assert_eq!(differences(&by_entry), [("log entry 13".to_owned(), vec![vec![3], vec![1, 2]])]);
        let by_revision = [at(1, None, 10, "a"), at(2, None, 10, "b")];
        assert_eq!(differences(&by_revision), [("revision 10".to_owned(), vec![vec![1], vec![2]])]);
        let changes = [at(1, Some(13), 10, "a"), at(1, Some(13), 10, "b"), at(2, Some(13), 10, "a")];
        assert_eq!(differences(&changes), none, "node 1 itself has two states there");
    }
}

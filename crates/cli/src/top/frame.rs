//! The last result of the poller, and the pages that show it.

use fairhold_health::cluster_probe::ProbedMember;
use serde_json::Value;
use std::time::Instant;

/// A page of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum TopPage {
    /// The nodes, the locks, and the queue of the chosen lock.
    #[default]
    Locks,
    /// The queue and the history of this lock.
    Lock(String),
    /// Who waits for whom.
    Waits,
    /// The newest events.
    Events,
    /// The members, and the solutions of all problems.
    Cluster,
    /// The keys.
    Help,
}

/// The last result.
#[derive(Debug, Clone, Default)]
pub(super) struct TopFrame {
    /// The cluster in one sentence; empty before the first result.
    pub(super) summary: String,
    /// The members, with their own answers, then the nodes that are joining.
    pub(super) nodes: Vec<ProbedMember>,
    /// The overview of the node that answered; null if its program has none, or the user may not see it.
    pub(super) overview: Value,
    /// The locks of the list.
    pub(super) locks: Vec<Value>,
    /// The page that the poll was for. What follows is for this page alone.
    pub(super) page: TopPage,
    /// The lock whose queue is shown.
    pub(super) queue_of: Option<String>,
    /// That queue, holders first.
    pub(super) queue: Vec<Value>,
    /// How long its recent holders have usually held it; null if nobody has held it before.
    pub(super) usual_of_queue: Value,
    /// The lock's history, the tree of waits or the events.
    pub(super) rows: Vec<Value>,
    /// Whether `rows` has everything.
    pub(super) is_complete: bool,
    /// The time of everything but the nodes; none before the first answer.
    pub(super) seen: Option<Instant>,
    /// Why the last attempt failed.
    pub(super) error: Option<String>,
}

impl TopFrame {
    /// The name of the lock in this row of the list.
    pub(super) fn lock_at(&self, row: usize) -> Option<&str> {
        self.locks.get(row)?["lock"].as_str()
    }

    /// How long recent holders have usually held a lock, if the answers say so. The overview has the longest holds.
    pub(super) fn usual_hold<'a>(&'a self, lock: &'a Value) -> Option<&'a str> {
        let in_overview = || {
            let holds = self.overview["held_longest"].as_array()?;
            holds.iter().find(|hold| hold["lock"] == lock["lock"])?["usual"].as_str()
        };
        lock["usual_hold"].as_str().or_else(in_overview)
    }

    /// What needs attention; empty if the node's program does not say.
    pub(super) fn problems(&self) -> &[Value] {
        self.overview["problems"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The URL of the node that gave the overview, if it is still a member.
    pub(super) fn url(&self) -> Option<&str> {
        let id = self.overview["id"].as_u64()?;
        self.nodes.iter().find(|node| node.id == id).map(|node| node.url.as_str())
    }
}

//! The state that the demo shows: the status of each node, and the queues of the locks.

use fairhold_client::{Client, Method, StatusCode};
use fairhold_types::{NodeId, dto};
use futures_util::future::join_all;
use std::{collections::BTreeMap, time::Duration};

/// The timeout for reading the queue of a lock.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);

/// The pids of the nodes; none for a node that is down.
pub(crate) type Pids = BTreeMap<NodeId, Option<u32>>;

/// The state of the cluster at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct DemoFrame {
    /// All nodes, by number.
    pub(super) nodes: Vec<DemoNode>,
    /// The locks; `None` if no node reported the queue.
    pub(super) locks: Vec<(&'static str, Option<DemoQueue>)>,
}

/// One node.
#[derive(Debug, Clone)]
pub(super) struct DemoNode {
    /// Its number.
    pub(super) id: NodeId,
    /// Its URL for clients.
    pub(super) url: String,
    /// Its own report; `None` if it is down.
    pub(super) status: Option<NodeStatus>,
}

/// What a node reports about itself.
#[derive(Debug, Clone)]
pub(super) struct NodeStatus {
    /// Its role.
    pub(super) role: String,
    /// Its term.
    pub(super) term: u64,
}

/// The queue of one lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DemoQueue {
    /// The holder.
    pub(super) holder: Option<DemoHolder>,
    /// The waiters in order, each with the owner of the grant that it waits for.
    pub(super) waiting: Vec<(String, Option<String>)>,
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoHolder {
    /// Its name.
    pub(super) owner: String,
    /// Its token.
    pub(super) token: u64,
}

impl DemoFrame {
    /// Requests the status of all nodes concurrently.
    pub(super) async fn take(client: &Client, urls: &[(NodeId, String)], locks: &[&'static str]) -> DemoFrame {
        let cluster = client.cluster();
        let statuses = urls.iter().map(|(id, url)| async {
            let status = cluster.status_of(url, false).await.ok();
            let status = status.map(|status| NodeStatus { role: status.role, term: status.term });
            DemoNode { id: *id, url: url.clone(), status }
        });
        let nodes = join_all(statuses).await;
        // The leader has the newest state. Without a leader, any node that is up shows its own.
        let leader = leader(&nodes);
        let up = || nodes.iter().filter(|node| node.status.is_some());
        let source = up().find(|node| Some(node.id) == leader).or_else(|| up().next());
        let queues = locks.iter().map(|lock| async move {
            let Some(node) = source else { return (*lock, None) };
            (*lock, queue(client, &node.url, lock).await.map(DemoQueue::from))
        });
        let locks = join_all(queues).await;
        DemoFrame { nodes, locks }
    }

    /// The leader of the highest term.
    pub(super) fn leader(&self) -> Option<NodeId> {
        leader(&self.nodes)
    }
}

fn leader(nodes: &[DemoNode]) -> Option<NodeId> {
    let leading = |node: &DemoNode| node.status.as_ref().filter(|status| status.role == "leader").map(|status| status.term);
    nodes.iter().filter_map(|node| Some((leading(node)?, node.id))).max().map(|(_, id)| id)
}

/// Reads the queue of a lock from one node's own state: this works without a leader too.
async fn queue(client: &Client, url: &str, lock: &str) -> Option<dto::Queue> {
    let call = client.call(Method::GET, format!("/v1/locks/{lock}/queue")).query("consistency", "local");
    let reply = call.endpoints([url]).timeout(QUEUE_TIMEOUT).send().await.ok()?;
    if reply.status == StatusCode::OK { serde_json::from_slice(&reply.body).ok() } else { None }
}

impl From<dto::Queue> for DemoQueue {
    fn from(queue: dto::Queue) -> DemoQueue {
        let mut shown = DemoQueue::default();
        for entry in queue.items {
            match entry.token {
                Some(token) if shown.holder.is_none() => {
                    shown.holder = Some(DemoHolder { owner: entry.owner, token: token.0 });
                }
                Some(_) | None => shown.waiting.push((entry.owner, entry.waits_for.map(|waits_for| waits_for.owner))),
            }
        }
        shown
    }
}

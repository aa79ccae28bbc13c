//! One look at the cluster: what each node says of itself, and what a living one says of the locks.

use fairhold_types::NodeId;
use futures_util::future::join_all;
use reqwest::Client;
use serde::{Deserialize, de::DeserializeOwned};

/// What was seen.
#[derive(Debug, Clone, Default)]
pub(super) struct DemoFrame {
    /// All nodes, by number.
    pub(super) nodes: Vec<NodeLook>,
    /// The locks; `None` where no node said anything of it.
    pub(super) locks: Vec<(&'static str, Option<LockLook>)>,
}

/// One node.
#[derive(Debug, Clone)]
pub(super) struct NodeLook {
    /// Its number.
    pub(super) id: NodeId,
    /// Where it is.
    pub(super) url: String,
    /// What it says; `None` where it is down.
    pub(super) says: Option<ClusterAnswer>,
}

/// What a node says of itself.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ClusterAnswer {
    /// Its role.
    pub(super) role: String,
    /// Its term.
    pub(super) term: u64,
}

/// One lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LockLook {
    /// Who holds it.
    pub(super) holder: Option<DemoHolder>,
    /// The waiters, in order, and what each waits for.
    pub(super) waiting: Vec<(String, Option<String>)>,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoHolder {
    pub(super) owner: String,
    /// Its token.
    pub(super) token: u64,
}

#[derive(Debug, Deserialize)]
struct QueueAnswer {
    items: Vec<DemoQueueEntry>,
}

#[derive(Debug, Deserialize)]
struct DemoQueueEntry {
    owner: String,
    token: Option<u64>,
    waits_for: Option<WaitsFor>,
}

#[derive(Debug, Deserialize)]
struct WaitsFor {
    owner: String,
}

impl DemoFrame {
    /// Asks every node at once.
    pub(super) async fn take(client: &Client, urls: &[(NodeId, String)], locks: &[&'static str]) -> DemoFrame {
        let asked = urls.iter().map(|(id, url)| async move {
            let says = get::<ClusterAnswer>(client, format!("{url}/v1/cluster")).await;
            NodeLook { id: *id, url: url.clone(), says }
        });
        let nodes = join_all(asked).await;
        // A local read, so that the view goes on while there is no leader; the leader's, where there is one, is the
        // newest.
        let leader = leading(&nodes);
        let newest = nodes.iter().find(|node| Some(node.id) == leader && node.says.is_some());
        let source = newest.or_else(|| nodes.iter().find(|node| node.says.is_some()));
        let queues = locks.iter().map(|lock| async move {
            let Some(node) = source else { return (*lock, None) };
            let url = format!("{}/v1/locks/{lock}/queue?consistency=local", node.url);
            (*lock, get::<QueueAnswer>(client, url).await.map(LockLook::from))
        });
        let locks = join_all(queues).await;
        DemoFrame { nodes, locks }
    }

    /// Who leads, going by the highest term that any node knows.
    pub(super) fn leader(&self) -> Option<NodeId> {
        leading(&self.nodes)
    }
}

fn leading(nodes: &[NodeLook]) -> Option<NodeId> {
    let leaders =
        nodes.iter().filter_map(|node| node.says.as_ref().filter(|says| says.role == "leader").map(|says| (says.term, node.id)));
    leaders.max().map(|(_, id)| id)
}

impl From<QueueAnswer> for LockLook {
    fn from(queue: QueueAnswer) -> LockLook {
        let mut look = LockLook::default();
        for entry in queue.items {
            match entry.token {
                Some(token) if look.holder.is_none() => look.holder = Some(DemoHolder { owner: entry.owner, token }),
                Some(_) | None => look.waiting.push((entry.owner, entry.waits_for.map(|waits_for| waits_for.owner))),
            }
        }
        look
    }
}

async fn get<T: DeserializeOwned>(client: &Client, url: String) -> Option<T> {
    let answer = client.get(url).send().await.ok()?;
    if !answer.status().is_success() {
        return None;
    }
    answer.json().await.ok()
}

/// Which process is which node; none where it is down.
pub(crate) type Pids = std::collections::BTreeMap<NodeId, Option<u32>>;

//! Nodes that answer `GET /v1/cluster` with what a test says, and nothing else.

use fairhold_types::{NodeId, dto::Cluster};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A node.
#[derive(Debug)]
pub(crate) struct TestNode {
    pub(crate) url: String,
    /// Its answer; none: it closes every connection.
    answer: Arc<Mutex<Option<Cluster>>>,
}

impl TestNode {
    /// A node that does not answer yet.
    pub(crate) async fn start() -> TestNode {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer: Arc<Mutex<Option<Cluster>>> = Arc::default();
        let served = Arc::clone(&answer);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let answer = served.lock().clone();
                tokio::spawn(async move { serve(connection, answer).await });
            }
        });
        TestNode { url, answer }
    }

    /// From now on, it answers so.
    pub(crate) fn answers(&self, answer: Option<Cluster>) {
        *self.answer.lock() = answer;
    }
}

async fn serve(mut connection: TcpStream, answer: Option<Cluster>) {
    let Some(answer) = answer else { return };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let is_cluster = head.starts_with(b"GET /v1/cluster ");
    let status = if is_cluster { "200 OK" } else { "404 Not Found" };
    let body = if is_cluster { serde_json::to_string(&answer).unwrap() } else { "{}".to_owned() };
    let cluster = answer.cluster.unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 {status}\r\nfairhold-cluster: {cluster}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(answer.as_bytes()).await.ok();
}

/// The view of a node of cluster 7. Its members have the ids and URLs of `members`.
pub(crate) fn view(id: NodeId, leader: NodeId, term: u64, members: &[(NodeId, &TestNode)]) -> Cluster {
    let role = |id: NodeId| if id == leader { "leader" } else { "follower" };
    let members: Vec<_> = members
        .iter()
        .map(|(id, node)| json!({ "id": id, "url": node.url, "peer": format!("n{id}:7271"), "role": role(*id) }))
        .collect();
    let view = json!({
        "cluster": "00000000000000000000000000000007", "id": id, "role": role(id), "term": term, "leader": leader,
        "version": "0.2.0", "cluster_version": 2, "revision": 9, "grants": 0, "wakeups": 0, "members": members,
    });
    serde_json::from_value(view).unwrap()
}

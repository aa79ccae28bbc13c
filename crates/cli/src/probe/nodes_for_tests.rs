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
    answer: Arc<Mutex<Option<TestAnswer>>>,
}

/// What a node answers to `GET /v1/cluster`.
#[derive(Debug, Clone)]
struct TestAnswer {
    status: &'static str,
    cluster: String,
    body: String,
}

impl TestNode {
    /// A node that does not answer yet.
    pub(crate) async fn start() -> TestNode {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer: Arc<Mutex<Option<TestAnswer>>> = Arc::default();
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
    pub(crate) fn answers(&self, view: Option<Cluster>) {
        *self.answer.lock() = view.map(|view| {
            let body = serde_json::to_string(&view).unwrap();
            TestAnswer { status: "200 OK", cluster: view.cluster.unwrap_or_default(), body }
        });
    }

    /// From now on, it says that its caller lacks a right.
    pub(crate) fn denies(&self, detail: &str) {
        let body = json!({ "code": "denied", "detail": detail }).to_string();
        *self.answer.lock() = Some(TestAnswer { status: "403 Forbidden", cluster: String::new(), body });
    }
}

async fn serve(mut connection: TcpStream, answer: Option<TestAnswer>) {
    let Some(TestAnswer { status, cluster, body }) = answer else { return };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let is_cluster = head.starts_with(b"GET /v1/cluster ");
    let (status, body) = if is_cluster { (status, body) } else { ("404 Not Found", "{}".to_owned()) };
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

//! The client ignores the answer of a server that is not a node of its cluster.

use crate::{
    SECOND,
    server::{Action, RecordedRequest, Server, held, renewed},
};
use fairhold_client::{Client, Error};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;

/// Answers of foreign servers to any request: (status, headers, body).
const FOREIGN_ANSWERS: [(u16, &str, &str); 8] = [
    (200, "content-type: text/html\r\n", "<html>please log in to use this network</html>"),
    (200, "", ""),
    (204, "", ""),
    (302, "location: http://login.example/\r\n", ""),
    (404, "content-type: text/html\r\n", "<html><h1>404 Not Found</h1></html>"),
    (403, "content-type: application/json\r\n", r#"{"code":"denied","detail":"not for you"}"#),
    (502, "", "bad gateway"),
    // A node of another cluster, which does not know the grant.
    (410, "fairhold-cluster: ffffffffffffffffffffffffffffffff\r\n", r#"{"code":"grant_gone","detail":"d","reason":"expired"}"#),
];

async fn foreign_server((status, headers, body): (u16, &'static str, &'static str)) -> Server {
    Server::start(move |_, _| Action::Foreign(status, headers, body.to_owned())).await
}

/// A node that carries out every request.
fn node(request: &RecordedRequest, ttl: &'static str) -> Action {
    match &request.line {
        line if line.starts_with("POST /v1/locks") => held(request),
        line if line.starts_with("POST /v1/sessions ") => {
            let id = "0123456789abcdef0123456789abcdef";
            Action::Answer(201, "", json!({"id": id, "number": 40, "ttl": ttl, "expires_in": ttl}))
        }
        line if line.contains("/renew ") || line.contains("/keepalive ") || line.contains("/batch ") => renewed(request, ttl),
        line if line.starts_with("PUT") => Action::Answer(201, "", json!({"path": "/x", "version": 0, "revision": 7})),
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Hang,
    }
}

fn client_of(servers: &[&Server]) -> Client {
    let builder = Client::builder().discover(false).timeout(10 * SECOND);
    servers.iter().fold(builder, |builder, server| builder.endpoint(&server.url)).build().expect("a client")
}

/// A client that knows its own cluster, because it did not try the foreign server first.
async fn knows_its_cluster(node: &Server, foreign: &Server) -> Client {
    loop {
        let client = client_of(&[node, foreign]);
        let before = foreign.recorded("").len();
        // If it is tried first, a node of another cluster counts as the client's own.
        let put = client.nodes().put("/x", "1").await;
        if put.is_ok() && foreign.recorded("").len() == before {
            return client;
        }
    }
}

#[tokio::test]
async fn a_foreign_server_among_the_endpoints_fails_no_call() {
    for answer in FOREIGN_ANSWERS {
        let (foreign, node) = (foreign_server(answer).await, Server::start(|request, _| node(request, "30s")).await);
        let client = knows_its_cluster(&node, &foreign).await;
        for turn in 0..12 {
            let done = async {
                let guard = client.lock("a").await?;
                client.nodes().put("/x", "1").await?;
                guard.release().await?;
                client.session().await.map(drop)
            };
            done.await.unwrap_or_else(|error: Error| panic!("turn {turn} beside {answer:?}: {error}"));
        }
        client.settled().await;
        assert!(!foreign.recorded("").is_empty(), "{answer:?} was never tried");
        let locks: std::collections::BTreeSet<_> =
            node.recorded("POST /v1/locks").into_iter().map(|request| request.key).collect();
        let given_back = node.recorded("DELETE /v1/grants").len();
        assert_eq!((locks.len(), given_back), (12, 12), "with {answer:?}, the node granted and released each lock");
    }
}

#[tokio::test]
async fn a_foreign_server_neither_keeps_a_guard_alive_nor_ends_it() {
    join_all(FOREIGN_ANSWERS.map(async |answer| {
        let (foreign, node) = (foreign_server(answer).await, Server::start(|request, _| node(request, "1s")).await);
        let client = knows_its_cluster(&node, &foreign).await;
        let session = client.session().ttl(SECOND).await.unwrap();
        let guard = client.lock("a").ttl(SECOND).await.unwrap();
        let lost = tokio::time::timeout(3 * SECOND, async { tokio::join!(guard.lost(), session.lost()) }).await;
        assert!(lost.is_err() && guard.is_held() && session.is_alive(), "beside {answer:?}: {lost:?}");
        guard.forget();
    }))
    .await;
}

#[tokio::test]
async fn if_only_foreign_servers_answer_a_guard_is_lost_in_time_and_the_error_names_them() {
    join_all(FOREIGN_ANSWERS.map(async |answer| {
        // The node is gone, and a foreign server has its address.
        let server = Server::start(move |request, _| match request.line.starts_with("POST /v1/locks") {
            true => held(request),
            false => Action::Foreign(answer.0, answer.1, answer.2.to_owned()),
        })
        .await;
        let client = client_of(&[&server]);
        let guard = client.lock("a").ttl(SECOND).await.unwrap();
        let lost = tokio::time::timeout(2 * SECOND, guard.lost()).await;
        assert!(lost.is_ok(), "{answer:?} kept it alive");
        let client = Client::builder().endpoint(&server.url).discover(false).timeout(SECOND / 2);
        let client = client.build().unwrap();
        drop(client.lock("a").try_now().await.unwrap());
        let error = client.nodes().get("/x").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{answer:?}: {error:?}");
        let reason = format!("{} is not a node of this cluster", server.url);
        assert!(error.to_string().contains(&reason), "{error}");
        let error = client.nodes().put("/x", "1").await.unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "a proxy may have passed it on: {error:?}");
    }))
    .await;
}

#[tokio::test]
async fn a_client_that_names_its_cluster_accepts_no_other_one() {
    let mine = Server::start(|request, _| node(request, "30s")).await;
    let (status, headers) = (201, "fairhold-cluster: ffffffffffffffffffffffffffffffff\r\n");
    let body = json!({"path": "/x", "version": 0, "revision": 7}).to_string();
    let other = Server::start(move |_, _| Action::Foreign(status, headers, body.clone())).await;
    for turn in 0..8 {
        let builder = Client::builder().endpoint(&other.url).endpoint(&mine.url).discover(false).timeout(SECOND * 5);
        let client = builder.cluster_id("0123456789abcdef0123456789abcdef".parse().unwrap()).build().unwrap();
        client.nodes().put("/x", "1").await.unwrap();
        assert_eq!(mine.recorded("PUT").len(), turn + 1);
    }
    let client = Client::builder().endpoint(&other.url).discover(false).build().unwrap();
    assert_eq!(client.cluster_id(), None);
    client.nodes().put("/x", "1").await.unwrap();
    assert_eq!(client.cluster_id().unwrap().to_hex(), "f".repeat(32), "the first cluster that answers");
}

#[tokio::test]
async fn a_node_without_a_cluster_does_nothing() {
    let body = r#"{"code":"no_quorum","detail":"the cluster has not formed yet"}"#;
    let unformed = Server::start(move |_, _| Action::Foreign(503, "fairhold-request-id: 1-abc-1\r\n", body.to_owned())).await;
    let client = Client::builder().endpoint(&unformed.url).discover(false).timeout(SECOND / 2).build().unwrap();
    let error = client.nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("not formed yet"), "{error:?}");
}

#[tokio::test]
async fn contact_reports_the_silence_and_its_cause_while_the_client_waits_for_a_lock() {
    let (foreign, nobody) = (foreign_server(FOREIGN_ANSWERS[4]).await, "http://127.0.0.1:1");
    let client = Client::builder().endpoint(&foreign.url).discover(false).build().unwrap();
    let waits = tokio::spawn(client.lock("a").into_future());
    foreign.wait_for_requests("POST /v1/locks", 2).await;
    let contact = client.contact();
    assert!(contact.failure.unwrap().contains("is not a node of this cluster"), "{:?}", contact.silent_for);
    waits.abort();
    let client = Client::builder().endpoint(nobody).discover(false).timeout(SECOND / 5).build().unwrap();
    client.nodes().get("/x").await.unwrap_err();
    let contact = client.contact();
    assert!(contact.silent_for >= Duration::from_millis(150) && contact.failure.unwrap().contains("refused"));
}

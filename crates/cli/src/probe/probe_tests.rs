//! Probes of invented nodes.

use super::{
    nodes_for_tests::{TestNode, view},
    *,
};
use crate::local_http::http_client;
use fairhold_health::answer::Unanswered;
use fairhold_types::NodeId;
use std::{collections::BTreeSet, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_url_may_omit_the_scheme() {
    for url in ["http://a:7171", "http://a:7171/", "a:7171", " a:7171"] {
        assert_eq!(normalized_url(url), "http://a:7171", "{url}");
    }
}

#[tokio::test]
async fn members_that_replaced_all_given_ones_are_found_through_an_outdated_list() {
    let (one, two, three) = (TestNode::start().await, TestNode::start().await, TestNode::start().await);
    // Node 1 was cut off, and still lists node 2. Node 2 was cut off later, and lists node 3.
    one.answers(Some(view(1, 1, 3, &[(1, &one), (2, &two)])));
    two.answers(Some(view(2, 2, 4, &[(2, &two), (3, &three)])));
    three.answers(Some(view(3, 3, 5, &[(3, &three)])));
    let seen = brief(&http_client(LIMIT), std::slice::from_ref(&one.url)).await;
    assert_eq!(seen.members().into_keys().collect::<Vec<_>>(), [3]);
    assert_eq!(seen.summary(), "1 of 1 nodes answer, node 3 leads in term 5, 0 more may fail");
    assert_eq!(seen.best_urls()[0], three.url);
}

#[tokio::test]
async fn learners_do_not_count_towards_the_failures_that_the_cluster_survives() {
    let nodes = [TestNode::start().await, TestNode::start().await, TestNode::start().await, TestNode::start().await];
    let members: Vec<(NodeId, &TestNode)> = (1..).zip(&nodes).collect();
    for (id, node) in &members {
        let mut view = view(*id, 1, 3, &members);
        view.members[3].role = "learner".to_owned();
        node.answers(Some(view));
    }
    nodes[2].answers(None);
    let seen = brief(&http_client(LIMIT), std::slice::from_ref(&nodes[0].url)).await;
    assert_eq!(seen.voters(), BTreeSet::from([1, 2, 3]));
    assert_eq!(seen.summary(), "3 of 4 nodes answer, node 1 leads in term 3, 0 more may fail");
    let rows = seen.member_rows();
    assert_eq!(rows.iter().map(|row| row.role.is_ok()).collect::<Vec<_>>(), [true, true, false, true]);
}

/// Answers the first request without end, until the client closes the connection.
async fn answer_without_end(listener: TcpListener) {
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut head = [0; 1024];
    assert!(connection.read(&mut head).await.unwrap() > 0);
    connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.unwrap();
    let spaces = vec![b' '; 64 * 1024];
    while connection.write_all(&spaces).await.is_ok() {}
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(answer_without_end(listener));
    let seen = brief(&http_client(LIMIT), &[url]).await;
    let too_long = Unanswered::Unreachable("its answer is too long for a fairhold node".to_owned());
    assert_eq!(seen.endpoints[0].answer.as_ref().unwrap_err(), &too_long);
    server.await.unwrap();
}

#[tokio::test]
async fn a_list_of_thousands_of_members_is_not_asked_to_its_end() {
    let node = TestNode::start().await;
    let members: Vec<(NodeId, &TestNode)> = (1..=2_000).map(|id| (id, &node)).collect();
    let mut listed = view(1, 1, 3, &members);
    for member in &mut listed.members {
        member.url = format!("{}/{}", node.url, member.id);
    }
    node.answers(Some(listed));
    let seen = brief(&http_client(LIMIT), std::slice::from_ref(&node.url)).await;
    assert_eq!(seen.endpoints.len(), 1 + LEARNED_MAX);
}

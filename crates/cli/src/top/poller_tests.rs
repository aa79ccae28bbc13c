//! Polls of invented nodes.

use super::*;
use crate::{
    probe::nodes_for_tests::{TestNode, view},
    remote::{ConnectArgs, TlsArgs},
};
use fairhold_types::{MemberRole, NodeId};

/// A poller that was given this node.
fn poller(given: &TestNode) -> Poller {
    let connect = ConnectArgs {
        endpoint: vec![given.url.clone()],
        cluster_id: None,
        timeout: Duration::from_secs(10),
        auth_token_file: None,
        tls: TlsArgs::default(),
        quiet: true,
        verbose: false,
    };
    Poller::new(Api::new(&connect).unwrap(), &connect).unwrap()
}

#[tokio::test]
async fn the_screen_survives_the_replacement_of_every_given_node() {
    let nodes = [TestNode::start().await, TestNode::start().await, TestNode::start().await, TestNode::start().await];
    let mut poller = poller(&nodes[0]);
    // Each poll sees a cluster of two nodes; then the first of them is gone, and another one has joined.
    for first in 0..3 {
        let members: Vec<(NodeId, &TestNode)> = (1..).zip(&nodes).skip(first).take(2).collect();
        let leader = members[1].0;
        nodes.iter().for_each(|node| node.answers(None));
        for (id, node) in &members {
            node.answers(Some(view(*id, leader, leader, &members)));
        }
        poller.poll_nodes().await;
        let summary = format!("2 of 2 nodes answer, node {leader} leads in term {leader}, 0 more may fail");
        assert_eq!(poller.frame.summary, summary);
    }
    nodes.iter().for_each(|node| node.answers(None));
    poller.poll_nodes().await;
    assert_eq!(poller.frame.summary, "no node answers");
    assert_eq!(poller.frame.nodes.iter().map(|row| row.role.clone()).collect::<Vec<_>>(), vec![Err("no answer".to_owned()); 2]);
}

#[tokio::test]
async fn the_screen_shows_that_the_cluster_refuses_the_look() {
    let node = TestNode::start().await;
    let mut poller = poller(&node);
    node.answers(Some(view(1, 1, 1, &[(1, &node)])));
    poller.poll_nodes().await;
    assert_eq!(poller.frame.summary, "1 of 1 nodes answer, node 1 leads in term 1, 0 more may fail");
    node.denies("it needs status on cluster");
    poller.poll_nodes().await;
    assert_eq!(poller.frame.summary, "refused: it needs status on cluster");
    assert_eq!(poller.frame.nodes.iter().map(|row| row.role.clone()).collect::<Vec<_>>(), [Err("refused".to_owned())]);
}

#[test]
fn a_node_that_joins_is_shown_before_and_after_it_is_a_member() {
    let join = |id: NodeId, phase| Join {
        id,
        url: format!("http://n{id}:7171"),
        peer: format!("n{id}:7271"),
        role: MemberRole::Voter,
        replaces: None,
        phase,
        lag: Some(7),
        waits_for: (id == 5).then(|| "it has almost caught up".to_owned()),
        requested_at: "then".to_owned(),
    };
    let mut rows = Vec::new();
    show_joins(&mut rows, &[join(4, JoinPhase::Pending), join(5, JoinPhase::CatchingUp)]);
    let roles = |rows: &[ProbedMember]| rows.iter().map(|row| row.role.clone()).collect::<Vec<_>>();
    assert_eq!(roles(&rows), [Ok("joining".to_owned()), Ok("joining: it has almost caught up".to_owned())]);
    rows[1].role = Err("no answer".to_owned());
    show_joins(&mut rows, &[join(4, JoinPhase::Promoting), join(5, JoinPhase::CatchingUp)]);
    assert_eq!(roles(&rows), [Ok("joining: takes its place".to_owned()), Err("no answer".to_owned())]);
}

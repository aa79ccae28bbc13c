//! Requests and answers between two nodes, and broken connections between them.

use crate::node::{Node, PATIENCE, Running, call, call_until_answered, client, target};
use bytes::Bytes;
use fairhold_peer::{
    client::TcpPeer,
    key::PeerKeys,
    lane::{LANE_BYTES_MAX, LANE_IN_FLIGHT_MAX, LANE_QUEUE_MAX},
};
use fairhold_raft::peer::{Lane, Peer, PeerError};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, runtime::Handle, time::timeout};

#[tokio::test]
async fn a_request_is_answered_and_the_service_knows_its_sender_and_lane() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let peer = client(Node::new(1));
    for lane in [Lane::Heartbeat, Lane::Append, Lane::Snapshot, Lane::Forward] {
        let answer = peer.call(&target(2, server.address), lane, Bytes::from_static(b"printer"));
        assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap(), b"printer"[..]);
        assert_eq!(node.served.lock().unwrap().pop(), Some((1, lane, Bytes::from_static(b"printer"))));
    }
    peer.close().await;
    server.stop().await;
}

#[tokio::test]
async fn pipelined_requests_arrive_in_call_order_whatever_the_order_of_polls() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    let requests: Vec<Bytes> = (0..1_000).map(|number| Bytes::from(format!("request {number}"))).collect();
    let mut calls: Vec<_> = requests.iter().map(|request| peer.call(&to, Lane::Append, request.clone())).collect();
    calls.reverse();
    let mut answers: Vec<Bytes> = timeout(PATIENCE, join_all(calls)).await.unwrap().into_iter().map(Result::unwrap).collect();
    answers.reverse();
    assert_eq!(answers, requests);
    assert_eq!(node.requests(), requests);
}

#[tokio::test]
async fn a_request_whose_future_was_dropped_is_still_sent() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    drop(peer.call(&to, Lane::Append, Bytes::from_static(b"dropped")));
    call(&peer, &to, b"kept").await.unwrap();
    assert_eq!(node.requests(), [&b"dropped"[..], b"kept"]);
}

#[tokio::test]
async fn a_fast_answer_overtakes_a_slow_one() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    let slow = peer.call(&to, Lane::Append, Bytes::from_static(b"hold"));
    assert_eq!(call(&peer, &to, b"quick").await.unwrap(), b"quick"[..]);
    node.release.add_permits(1);
    assert_eq!(timeout(PATIENCE, slow).await.unwrap().unwrap(), b"hold"[..]);
}

#[tokio::test]
async fn the_largest_request_is_echoed_and_a_larger_one_is_not_sent() {
    let server = Running::start(Arc::new(Node::new(2))).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    let largest = Bytes::from(vec![0xA5; fairhold_codec::BYTES_MAX]);
    let answer = timeout(PATIENCE, peer.call(&to, Lane::Snapshot, largest.clone())).await.unwrap().unwrap();
    assert!(answer == largest, "{} bytes came back", answer.len());
    let error = peer.call(&to, Lane::Snapshot, Bytes::from(vec![0; fairhold_codec::BYTES_MAX + 1])).await.unwrap_err();
    assert!(matches!(error, PeerError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn after_a_server_dies_sent_requests_are_lost_and_later_ones_unreachable_until_it_returns() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let address = server.address;
    let (peer, to) = (client(Node::new(1)), target(2, address));
    let sent = peer.call(&to, Lane::Append, Bytes::from_static(b"hold"));
    node.arrived(1).await;
    server.stop().await;
    let error = timeout(PATIENCE, sent).await.unwrap().unwrap_err();
    assert!(matches!(error, PeerError::Lost(_)), "{error}");
    for _ in 0..100 {
        let error = call(&peer, &to, b"nobody is there").await.unwrap_err();
        assert!(matches!(error, PeerError::Unreachable(_)), "{error}");
    }

    let returned = Arc::new(Node::new(2));
    let _server = Running::start_at(address, returned.clone()).await;
    call_until_answered(&peer, &to, Lane::Append, Bytes::from_static(b"back?")).await;
    assert_eq!(returned.requests(), [&b"back?"[..]]);
    assert_eq!(node.requests(), [&b"hold"[..]]);
}

#[tokio::test]
async fn a_node_learns_whose_connection_ended_and_that_the_port_is_closed() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    assert!(!timeout(PATIENCE, peer.is_refused(&to)).await.unwrap(), "somebody listens");
    timeout(PATIENCE, peer.call(&to, Lane::Heartbeat, Bytes::from_static(b"beat"))).await.unwrap().unwrap();
    assert!(node.disconnected.borrow().is_empty());

    timeout(PATIENCE, peer.close()).await.unwrap();
    let mut disconnected = node.disconnected.subscribe();
    let seen = timeout(PATIENCE, disconnected.wait_for(|disconnected| !disconnected.is_empty())).await.unwrap().unwrap().clone();
    assert_eq!(seen, [(1, Lane::Heartbeat)]);

    server.stop().await;
    assert!(timeout(PATIENCE, client(Node::new(1)).is_refused(&to)).await.unwrap(), "its machine refuses");
}

#[tokio::test]
async fn a_stopping_server_reports_no_ended_connections() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    timeout(PATIENCE, peer.call(&to, Lane::Heartbeat, Bytes::from_static(b"beat"))).await.unwrap().unwrap();
    server.stop().await;
    assert!(node.disconnected.borrow().is_empty());
}

#[tokio::test]
async fn unreachable_means_that_the_request_was_not_sent() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    let calls: Vec<_> = (0..LANE_IN_FLIGHT_MAX).map(|_| peer.call(&to, Lane::Append, Bytes::from_static(b"hold"))).collect();
    node.arrived(u32::try_from(LANE_IN_FLIGHT_MAX).unwrap()).await;
    let queued: Vec<_> = (0..100).map(|_| peer.call(&to, Lane::Append, Bytes::from_static(b"hold"))).collect();
    server.stop().await;
    for result in timeout(PATIENCE, join_all(calls)).await.unwrap() {
        assert!(matches!(result, Err(PeerError::Lost(_))), "{result:?}");
    }
    for result in timeout(PATIENCE, join_all(queued)).await.unwrap() {
        assert!(matches!(result, Err(PeerError::Unreachable(_))), "{result:?}");
    }
    assert_eq!(node.requests().len(), LANE_IN_FLIGHT_MAX);
}

#[tokio::test]
async fn a_node_that_moved_is_found_at_its_new_address() {
    let (old, new) = (Arc::new(Node::new(2)), Arc::new(Node::new(2)));
    let (old_server, new_server) = (Running::start(old.clone()).await, Running::start(new.clone()).await);
    let peer = client(Node::new(1));
    call(&peer, &target(2, old_server.address), b"old").await.unwrap();
    call(&peer, &target(2, new_server.address), b"new").await.unwrap();
    assert_eq!((old.requests(), new.requests()), (vec![Bytes::from_static(b"old")], vec![Bytes::from_static(b"new")]));
}

#[tokio::test]
async fn a_full_lane_queue_fails_as_unreachable_at_once() {
    // Connections stay in its backlog, and nothing answers them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (peer, to) = (client(Node::new(1)), target(2, silent.local_addr().unwrap()));
    let waiting: Vec<_> = (0..LANE_QUEUE_MAX).map(|_| peer.call(&to, Lane::Append, Bytes::from_static(b"waits"))).collect();
    let error = call(&peer, &to, b"one too many").await.unwrap_err();
    assert!(matches!(&error, PeerError::Unreachable(reason) if reason.contains("waiting already")), "{error}");
    peer.close().await;
    for result in timeout(PATIENCE, join_all(waiting)).await.unwrap() {
        assert!(matches!(result, Err(PeerError::Unreachable(_) | PeerError::Lost(_))), "{result:?}");
    }
}

#[tokio::test]
async fn a_lane_over_its_byte_limit_fails_as_unreachable_until_requests_end() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (peer, to) = (client(Node::new(1)), target(2, silent.local_addr().unwrap()));
    let large = Bytes::from(vec![0; LANE_BYTES_MAX / 2]);
    let waiting: Vec<_> = (0..2).map(|_| peer.call(&to, Lane::Snapshot, large.clone())).collect();
    let error = peer.call(&to, Lane::Snapshot, Bytes::from_static(b"x")).await.unwrap_err();
    assert!(matches!(&error, PeerError::Unreachable(reason) if reason.contains("bytes of requests")), "{error}");
    drop(silent);
    for result in timeout(PATIENCE, join_all(waiting)).await.unwrap() {
        assert!(matches!(result, Err(PeerError::Unreachable(_))), "{result:?}");
    }
    let server = Running::start_at(to.address.parse().unwrap(), Arc::new(Node::new(2))).await;
    call_until_answered(&peer, &to, Lane::Snapshot, large).await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_never_introduces_itself_is_unreachable_after_the_time_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = TcpPeer::with_handshake_timeout(Handle::current(), PeerKeys::none(), Duration::from_millis(50));
    peer.set_service(Arc::new(Node::new(1)));
    let error = call(&peer, &target(2, silent.local_addr().unwrap()), b"hello?").await.unwrap_err();
    assert!(matches!(&error, PeerError::Unreachable(reason) if reason.contains("the handshake was not complete")), "{error}");
}

#[tokio::test]
async fn a_client_reaches_no_node_before_set_service_or_after_close() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (peer, to) = (TcpPeer::new(Handle::current(), PeerKeys::none()), target(2, server.address));
    assert!(matches!(call(&peer, &to, b"too early").await, Err(PeerError::Unreachable(_))));
    assert!(matches!(peer.greet(&to).await, Err(PeerError::Unreachable(_))));
    peer.set_service(Arc::new(Node::new(1)));
    call(&peer, &to, b"in time").await.unwrap();
    let sent = peer.call(&to, Lane::Append, Bytes::from_static(b"hold"));
    node.arrived(2).await;
    timeout(PATIENCE, peer.close()).await.unwrap();
    assert!(matches!(timeout(PATIENCE, sent).await.unwrap(), Err(PeerError::Lost(_))));
    assert!(matches!(call(&peer, &to, b"too late").await, Err(PeerError::Unreachable(_))));
    assert_eq!(node.requests(), [&b"in time"[..], b"hold"]);
}

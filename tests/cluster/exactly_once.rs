//! A repeated request is the same request, even at another leader.

use crate::{
    client::{Call, Grant, new_key},
    disconnects::ask_with,
    harness::{Cluster, LONG, NODES, SHORT, run_exclusive, run_parallel},
    queue::wait_for_contenders,
};
use rustix::process::Signal;
use std::time::Duration;
use tokio::net::TcpStream;

#[test]
fn a_repeated_release_frees_nothing_after_the_same_session_acquired_the_lock_again() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "worker").await;
        let first = client.acquire("vault", &format!("session={}", session.id)).await;
        client.release(&first.id).await;
        let second = client.acquire("vault", &format!("session={}", session.id)).await;
        for node in 0..NODES {
            cluster.client(node).release(&first.id).await;
        }
        assert_eq!(client.holders("vault").await, [second.number]);
        assert!(client.fence_passes("vault", second.token).await);
    });
}

#[test]
fn a_repeated_acquire_returns_the_same_grant_after_a_change_of_leader() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let call = Call::post("/v1/locks/crane?ttl=60s&owner=operator");
        let grant = cluster.client(leader).acquire_with(&call).await;
        cluster.nodes[leader].kill().await;
        for node in (0..NODES).filter(|node| *node != leader) {
            assert_eq!(cluster.client(node).acquire_with(&call).await, grant);
        }
        cluster.restart(leader).await;
        assert_eq!(cluster.client(leader).acquire_with(&call).await, grant);
        assert_eq!(
            cluster.client(leader).queue_numbers("crane").await,
            [grant.number],
            "one grant, however often it was requested"
        );
    });
}

#[test]
fn a_release_that_arrives_before_its_acquire_wins() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let key = new_key();
        cluster.client(0).release(&key).await;
        for node in 0..NODES {
            let gone = cluster.client(node).send(&Call::post("/v1/locks/bridge?wait=5s").key(&key)).await;
            gone.expect_problem(410, "grant_gone");
        }
        assert!(cluster.client(1).queue("bridge").await.is_empty());
        cluster.client(2).acquire("bridge", "").await;
    });
}

#[test]
fn a_key_reused_for_another_request_is_refused() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let key = new_key();
        let grant = client.acquire_with(&Call::post("/v1/locks/kiln?owner=a").key(&key)).await;
        for path in ["/v1/locks/oven?owner=a", "/v1/locks/kiln?owner=b", "/v1/locks/kiln?owner=a&mode=shared"] {
            client.send(&Call::post(path).key(&key)).await.expect_problem(422, "idempotency_mismatch");
        }
        let again = client.acquire_with(&Call::post("/v1/locks/kiln?owner=a&wait=5s").key(&key)).await;
        assert_eq!(again, grant, "the length of the wait is not compared");
        client.release(&grant.id).await;
        client.send(&Call::post("/v1/locks/kiln?owner=a").key(&key)).await.expect_problem(410, "grant_gone");
    });
}

#[test]
fn a_request_refused_with_lock_held_may_retry_with_the_same_key() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let holder = cluster.client(0).acquire("lathe", "").await;
        let call = Call::post("/v1/locks/lathe");
        cluster.client(1).send(&call).await.expect_problem(409, "lock_held");
        cluster.client(0).release(&holder.id).await;
        let grant = cluster.client(2).acquire_with(&call).await;
        assert!(grant.token > holder.token, "{grant:?} after {holder:?}");
    });
}

#[test]
fn a_repeated_write_with_its_key_is_done_once() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let call = Call::put("/v1/nodes/once", "value");
        let first = cluster.client(0).write(&call).await;
        assert_eq!((first.status, first.header("etag")), (201, Some("\"0\"")));
        cluster.client(1).write(&Call::put("/v1/nodes/another", "value")).await.expect_status(201);
        for node in 0..NODES {
            let again = cluster.client(node).write(&call).await;
            assert_eq!((again.status, again.header("etag")), (201, Some("\"0\"")), "{again:?}");
            assert_eq!(again.json["revision"], first.json["revision"], "a retry returns the revision of the first write");
        }
        let read = cluster.client(0).send(&Call::get("/v1/nodes/once")).await.expect_status(200);
        assert_eq!((read.header("etag"), read.text.as_str()), (Some("\"0\""), "value"));
    });
}

#[test]
fn a_retry_at_another_node_takes_over_the_place() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let holder = client.acquire("ferry", "ttl=60s").await;
        let call = Call::post("/v1/locks/ferry?wait=60s&owner=mover");
        let ask = |node: usize, call: &Call| {
            let (client, call) = (cluster.client(node), call.clone());
            tokio::spawn(async move { client.once(&call).await })
        };
        let left_behind = ask(1, &call);
        let place = wait_for_contenders(&client, "ferry", 2).await;
        let behind = ask(0, &Call::post("/v1/locks/ferry?wait=60s&owner=behind"));
        let before = wait_for_contenders(&client, "ferry", 3).await;

        // The second connection takes over the place once the first has its answer.
        let taken_over = ask(2, &call);
        let superseded = left_behind.await.expect("the first request's task");
        let superseded = superseded.expect_problem(504, "deadline_exceeded");
        assert_eq!(superseded.json["outcome"], "unknown", "only the other request learns whether it holds: {superseded:?}");
        assert_eq!(client.queue_numbers("ferry").await, numbers(&before), "no contender moved");

        client.release(&holder.id).await;
        let grant = Grant::from_answer(&taken_over.await.expect("the second request's task"));
        assert_eq!(grant.number, numbers(&place)[1], "it kept its place");
        client.release(&grant.id).await;
        Grant::from_answer(&behind.await.expect("the last waiter's task"));
    });
}

fn numbers(items: &[serde_json::Value]) -> Vec<u64> {
    items.iter().map(|item| crate::client::whole(item, "number")).collect()
}

/// Requests a lock with a key, on its own connection.
async fn ask(url: &str, path: &str, key: &str) -> TcpStream {
    ask_with(url, path, &format!("Idempotency-Key: {key}\r\n")).await
}

/// Waits until an answer has arrived, and resets the connection without reading it, like a killed program.
async fn answered_and_reset(stream: TcpStream) {
    stream.readable().await.expect("an answer");
    stream.set_zero_linger().expect("a socket");
}

#[test]
fn a_duplicate_stuck_in_a_paused_node_takes_nothing_from_the_caller_that_moved_on() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let [stuck, other] = cluster.followers().await;
        let (client, key) = (cluster.client(other), new_key());
        cluster.nodes[stuck].signal(Signal::STOP);
        let duplicate = ask(&cluster.nodes[stuck].url, "/v1/locks/crane?ttl=1h&owner=o", &key).await;
        let held = client.acquire_with(&Call::post("/v1/locks/crane?ttl=1h&owner=o").key(&key)).await;
        cluster.nodes[stuck].signal(Signal::CONT);
        answered_and_reset(duplicate).await;
        // A later request shows the fate of the grant whose answer was never read.
        let unread = ask(&cluster.nodes[stuck].url, "/v1/locks/hook?ttl=1h&owner=o", &new_key()).await;
        answered_and_reset(unread).await;
        client.acquire("hook", "wait=10s").await;
        assert_eq!(client.holders("crane").await, [held.number], "the caller's answer says that it holds");
        assert!(client.fence_passes("crane", held.token).await);
        client.release(&held.id).await;
    });
}

#[test]
fn a_waiter_replaced_by_a_stuck_duplicate_retries_and_keeps_its_place() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let [stuck, other] = cluster.followers().await;
        let (client, key) = (cluster.client(other), new_key());
        let holder = client.acquire("crane", "ttl=60s").await;
        let path = "/v1/locks/crane?wait=60s&ttl=60s&owner=o";
        cluster.nodes[stuck].signal(Signal::STOP);
        let duplicate = ask(&cluster.nodes[stuck].url, path, &key).await;
        let waits = {
            let (client, call) = (cluster.client(other), Call::post(path).key(&key));
            tokio::spawn(async move { client.once(&call).await })
        };
        let place = wait_for_contenders(&client, "crane", 2).await;
        cluster.nodes[stuck].signal(Signal::CONT);
        waits.await.expect("the waiter's task").expect_problem(504, "deadline_exceeded");
        drop(duplicate);
        // Like a program that retries after a second.
        crate::harness::pass_time(Duration::from_secs(1)).await;
        let again = {
            let (client, call) = (cluster.client(other), Call::post(path).key(&key));
            tokio::spawn(async move { client.once(&call).await })
        };
        client.release(&holder.id).await;
        let held = Grant::from_answer(&again.await.expect("the waiter's task"));
        assert_eq!(Some(held.number), place[1]["number"].as_u64(), "it kept its place");
    });
}

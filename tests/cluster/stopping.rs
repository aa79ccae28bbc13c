//! How a node stops, and how the leadership is handed over on purpose.

use crate::{
    client::{Call, Grant},
    harness::{Cluster, NODES, SHORT, eventually, report, run_exclusive},
    queue::wait_for_contenders,
};
use rustix::process::Signal;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[test]
fn a_waiter_of_a_stopping_node_learns_where_to_retry_after_another_node_leads() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (client, observer) = (cluster.client(leader), cluster.client(leader + 1));
        let holder = observer.acquire("sluice", "ttl=60s").await;
        // Without its own key: the server made one.
        let call = Call::post("/v1/locks/sluice?wait=60s&ttl=60s").without("idempotency-key");
        let waits = tokio::spawn(async move { client.once(&call).await });
        wait_for_contenders(&observer, "sluice", 2).await;
        let places = observer.queue_numbers("sluice").await;
        let begun = Instant::now();
        cluster.nodes[leader].signal(Signal::TERM);
        let answer = waits.await.expect("an answer").expect_problem(503, "shutting_down");
        report(&format!("a waiter at a stopping leader had its answer after {:.0?}", begun.elapsed()));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!((&answer.json["retryable"], &answer.json["outcome"]), (&json!(true), &json!("unknown")), "{answer:?}");
        let mut roles = Vec::new();
        for step in 1..NODES {
            let other = cluster.client(leader + step).once(&Call::get("/v1/cluster")).await;
            roles.push(other.string("role").to_owned());
        }
        assert!(roles.iter().any(|role| role == "leader"), "another node leads before a waiter gets its answer: {roles:?}");
        let status = cluster.nodes[leader].exited().await;
        report(&format!("a leader that got the signal to stop had ended after {:.0?}", begun.elapsed()));
        assert!(status.success(), "{status}");
        assert_eq!(observer.queue_numbers("sluice").await, places);
        observer.release(&holder.id).await;
        let again = Call::post("/v1/locks/sluice?wait=60s&ttl=60s").key(answer.string("id"));
        assert_eq!(
            Grant::from_answer(&observer.send(&again).await).number,
            places[1],
            "the key in the answer keeps the same place"
        );
    });
}

#[test]
fn a_second_signal_ends_a_node_at_once() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let [at, _] = cluster.followers().await;
        // A request that is never complete delays the end, for as long as a node waits for running requests.
        let address = cluster.nodes[at].url.trim_start_matches("http://").to_owned();
        let mut stuck = TcpStream::connect(&address).await.expect("it takes connections");
        let head = b"PUT /v1/nodes/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
        stuck.write_all(head).await.expect("a request can be sent");
        // Once the server requests its body, the request runs. Otherwise the signal may come before the connection is
        // accepted.
        let mut asked = [0; 12];
        stuck.read_exact(&mut asked).await.expect("an answer");
        assert_eq!(&asked, b"HTTP/1.1 100");
        cluster.nodes[at].signal(Signal::TERM);
        eventually("it logs that it stops", Duration::from_secs(10), || async {
            cluster.nodes[at].log_text().contains("shutting down cleanly").then_some(())
        })
        .await;
        let begun = Instant::now();
        cluster.nodes[at].signal(Signal::TERM);
        let status = cluster.nodes[at].exited().await;
        let took = begun.elapsed();
        report(&format!("a second signal ended a node after {took:.0?}, with {status}"));
        assert_eq!(status.code(), Some(1), "neither a clean end nor a crash");
        let log = cluster.nodes[at].log_text();
        assert!(log.contains("again: ending at once"), "it did not notice the second signal: {log}");
        assert!(!log.contains("requests that were still running at the end"), "it waited for the request: {log}");
        cluster.restart(at).await;
    });
}

#[test]
fn the_leadership_moves_to_the_named_node_unless_it_cannot_lead() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let to = |id: usize| Call::post("/v1/cluster/leader").json(&json!({"to": id}));
        let leader = cluster.leader().await;
        // Requested first from the leader, then from the node that is to lead, then from the third node.
        for step in 1..=NODES {
            let (target, asked) = ((leader + step) % NODES, (leader + step - 1 + step - 1) % NODES);
            let begun = Instant::now();
            let done = cluster.client(asked).once(&to(target + 1)).await.expect_status(200);
            report(&format!("the leadership was handed over in {:.0?}", begun.elapsed()));
            assert_eq!(
                (done.number("leader"), done.header("fairhold-leader")),
                (target as u64 + 1, done.json["leader_url"].as_str())
            );
            assert_eq!(cluster.leader().await, target);
            cluster.client(asked).write(&Call::put("/v1/nodes/after", step.to_string())).await;
            let refused = cluster.client(asked).once(&to(target + 1)).await;
            refused.expect_problem(409, "already_leader");
        }
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        let stranger = client.once(&to(9)).await.expect_problem(404, "not_found");
        assert!(stranger.string("detail").contains("the members are 1, 2, 3"), "{stranger:?}");
        client.once(&Call::post("/v1/cluster/leader")).await.expect_problem(400, "bad_request");
        client
            .once(&Call::post("/v1/cluster/leader").json(&json!({"to": 2, "from": 1})))
            .await
            .expect_problem(400, "bad_request");

        let down = (leader + 1) % NODES;
        cluster.nodes[down].kill().await;
        eventually("the leader sees that it is silent", Duration::from_secs(20), || async {
            let members = client.once(&Call::get("/v1/cluster")).await.json["members"].clone();
            let silent: u64 = members[down]["silent_for"].as_str()?.strip_suffix("ms")?.parse().ok()?;
            (silent >= 2_000).then_some(())
        })
        .await;
        client.once(&to(down + 1)).await.expect_problem(409, "not_caught_up");
        assert_eq!(cluster.leader().await, leader, "nothing was tried");
        cluster.restart(down).await;
        eventually("it can lead again when it is back", Duration::from_secs(10), || async {
            (client.once(&to(down + 1)).await.status == 200).then_some(())
        })
        .await;
    });
}

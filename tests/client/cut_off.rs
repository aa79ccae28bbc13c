//! The network between a client and its cluster is cut, or another server answers in the cluster's place: the client
//! learns of its loss before the cluster grants to another client, and loses no grant needlessly.

use crate::{
    basics::client_of,
    harness::{Cluster, LONG, SHORT, pass_time, report, run_exclusive},
    trial,
};
use fairhold_client::{Client, Guard, Lost, margin};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

const TTL: Duration = Duration::from_secs(3);
/// The answer of a captive portal to every request.
const PORTAL: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 32\r\n\r\n<html>please log in first</html>";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 18\r\n\r\n<h1>Not Found</h1>";

/// The state of the traffic to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Connections stay open, but no bytes pass.
    Silent,
    /// A login page answers every request, even on existing connections.
    Portal,
}

/// Gives the same answer to all requests.
async fn answer(mut stream: TcpStream, answer: &'static str) {
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
        seen.extend_from_slice(&bytes[..length]);
        // No request of these tests has a body that looks like the end of a head.
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            seen.drain(..end + 4);
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// An unrelated server.
async fn stranger(says: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, says));
        }
    });
    url
}

/// Forwards bytes to a node while the way is open.
async fn proxy(to: String, way: watch::Receiver<Way>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let to: Arc<str> = to.trim_start_matches("http://").into();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, mut way) = (Arc::clone(&to), way.clone());
            tokio::spawn(async move {
                if *way.borrow() == Way::Open {
                    let Ok(mut node) = TcpStream::connect(&*to).await else { return };
                    tokio::select! {
                        biased;
                        _ = async { way.wait_for(|way| *way != Way::Open).await.is_ok() } => {}
                        passed = tokio::io::copy_bidirectional(&mut client, &mut node) => return drop(passed),
                    }
                }
                let now = *way.borrow();
                match now {
                    Way::Portal => answer(client, PORTAL).await,
                    Way::Open | Way::Silent => std::future::pending().await,
                }
            });
        }
    });
    url
}

/// A client that reaches the nodes of a cluster only through this way, and other servers directly.
async fn client_by(cluster: &Cluster, way: &watch::Receiver<Way>, others: &[String]) -> Client {
    let mut builder = Client::builder().discover(false);
    for node in &cluster.nodes {
        builder = builder.endpoint(proxy(node.url.clone(), way.clone()).await);
    }
    let id = client_of(cluster).cluster().status().await.expect("it answers").cluster.expect("the cluster has formed");
    others
        .iter()
        .fold(builder, |builder, url| builder.endpoint(url))
        .cluster_id(id.parse().expect("an id"))
        .build()
        .expect("a client")
}

#[test]
fn a_guard_that_is_cut_off_is_lost_before_the_next_grant() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let (cut, way) = watch::channel(Way::Open);
        let client = client_by(&cluster, &way, &[]).await;
        let guard = client.lock("cut").ttl(TTL).await.unwrap();
        let next = tokio::spawn(client_of(&cluster).lock("cut").into_future());
        // Renewals pass first, so that the lease does not count from the acquire.
        pass_time(TTL * 2).await;
        assert!(guard.is_held(), "its renewals pass");

        let cut_at = Instant::now();
        cut.send(Way::Silent).unwrap();
        let lost = guard.lost().await;
        let lost_after = cut_at.elapsed();
        let granted = next.await.unwrap().unwrap();
        let granted_after = cut_at.elapsed();
        report(&format!("cut off: lost {lost_after:.2?} after the cut; the next client got the lock after {granted_after:.2?}"));
        assert_eq!(lost, Lost::CutOff);
        assert!(lost_after <= TTL - margin(TTL) + Duration::from_millis(100), "too late: {lost_after:?}");
        assert!(granted_after >= lost_after, "granted to another client before it was lost");
        assert!(granted.is_held() && !guard.is_held());
    });
}

/// When a guard was lost, and when the next one held its lock.
async fn hand_over(guard: Guard, next: tokio::task::JoinHandle<Result<Guard, fairhold_client::Error>>) -> (Instant, Instant) {
    let lost = async {
        let how = guard.lost().await;
        assert_eq!(how, Lost::CutOff);
        let at = Instant::now();
        assert!(guard.token().is_err());
        at
    };
    let granted = async {
        let next = next.await.expect("no panic").expect("it is granted");
        let at = Instant::now();
        assert!(guard.token().is_err(), "two hold {}", next.lock());
        next.release().await.expect("it is released");
        at
    };
    tokio::join!(lost, granted)
}

#[test]
fn login_pages_and_wrong_servers_cause_no_late_and_no_needless_loss_of_a_guard() {
    const GUARDS: usize = 10;
    let cuts = trial::size(2, 10);
    run_exclusive(LONG * 2, async {
        let (cluster, other) = (Cluster::start().await, Cluster::start().await);
        let mut strangers = vec![stranger(PORTAL).await, stranger(NOT_FOUND).await];
        strangers.extend(other.nodes.iter().map(|node| node.url.clone()));
        let mut least = Duration::MAX;
        for turn in 0..cuts {
            let (cut, way) = watch::channel(Way::Open);
            let client = client_by(&cluster, &way, &strangers).await;
            let ttl = |guard: usize| Duration::from_millis(1_000 + 100 * guard as u64);
            let mut guards = Vec::new();
            for guard in 0..GUARDS {
                let taken = client.lock(&format!("cut-{turn}-{guard}")).ttl(ttl(guard)).await;
                guards.push(taken.expect("a stranger fails no call"));
            }
            let direct = client_of(&cluster);
            let waiting = guards.iter().map(|guard| tokio::spawn(direct.lock(guard.lock().as_str()).into_future()));
            let waiting: Vec<_> = waiting.collect();
            // Several renewals of each guard; each turn cuts at another time.
            pass_time(Duration::from_millis(4_000 + 137 * turn)).await;
            for guard in &guards {
                assert!(guard.is_held(), "{} was lost without need: {:?}", guard.lock(), guard.left());
            }
            cut.send(if turn % 2 == 0 { Way::Portal } else { Way::Silent }).expect("the proxies run");
            let both = guards.into_iter().zip(waiting).map(|(guard, next)| hand_over(guard, next));
            for (lost, granted) in futures_util::future::join_all(both).await {
                assert!(granted >= lost, "turn {turn}: granted {:?} before it was lost", lost - granted);
                least = least.min(granted - lost);
            }
        }
        report(&format!(
            "{} guards were cut off, with {} unrelated servers: lost {least:.0?} and more before the next hold",
            cuts * GUARDS as u64,
            strangers.len()
        ));
        let left = other.client(0).send(&crate::client::Call::get("/v1/locks")).await.expect_status(200);
        assert!(
            left.json["items"].as_array().is_some_and(Vec::is_empty),
            "the other cluster has none of these locks: {}",
            left.text
        );
    });
}

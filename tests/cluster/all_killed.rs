//! All nodes are killed at once and restarted: all acknowledged writes are present, and all clients continue.

use crate::{
    client::{Call, Client, Grant, Session},
    fairness::assert_in_order,
    harness::{Cluster, LONG, NODES, all, report, run_exclusive},
    queue::wait_for_contenders,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio::task::JoinHandle;

const ROUNDS: usize = 2;
const WAITERS: usize = 10;
const WRITERS: usize = 8;

/// Writes nodes until it is stopped, and returns the acknowledged paths.
async fn write_nodes(client: Client, name: String, over: Arc<AtomicBool>) -> Vec<String> {
    let mut written = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let path = format!("{name}-{}", written.len());
        client.write(&Call::put(&format!("/v1/nodes/{path}"), path.clone())).await;
        written.push(path);
    }
    written
}

/// Waiters for the lock, half of them in named sessions. Each releases the lock as soon as it gets it.
async fn start_waiters(cluster: &Cluster, lock: &str) -> Vec<JoinHandle<Grant>> {
    let mut waiting = Vec::new();
    for number in 0..WAITERS {
        let client = cluster.client(number);
        let by = if number % 2 == 0 {
            format!("session={}", client.open_session("120s", &format!("waiter-{number}")).await.id)
        } else {
            "ttl=120s".to_owned()
        };
        let call = Call::post(&format!("/v1/locks/{lock}?wait=10m&{by}"));
        waiting.push(tokio::spawn(async move {
            let grant = client.acquire_with(&call).await;
            client.release(&grant.id).await;
            grant
        }));
        wait_for_contenders(&cluster.client(0), lock, number + 2).await;
    }
    waiting
}

pub(crate) async fn kill_all_and_start_again(cluster: &mut Cluster) {
    for node in &cluster.nodes {
        node.signal(rustix::process::Signal::KILL);
    }
    for node in &mut cluster.nodes {
        node.exited().await;
    }
    let started = Instant::now();
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.ready().await;
    report(&format!("all nodes killed: ready again {:.1?} after their start", started.elapsed()));
}

/// The facts from before a round that must hold after it.
#[derive(Debug)]
struct Before {
    session: Session,
    holder: Grant,
    places: Vec<u64>,
    revision: u64,
}

async fn assert_all_is_there(client: &Client, lock: &str, before: &Before, written: &[String]) {
    client.keepalive(&before.session).await.expect_status(200);
    assert_eq!(client.queue_numbers(lock).await, before.places, "every contender kept its place");
    assert!(client.fence_passes(lock, before.holder.token).await, "the holder still holds it");
    let shown = client.send(&Call::get(&format!("/v1/sessions/{}", before.session.number))).await.expect_status(200);
    assert_eq!(shown.number("number"), before.session.number);
    for path in written {
        assert_eq!(&client.value(path).await, path, "an acknowledged node");
    }
    let write = client.write(&Call::put("/v1/nodes/after", "x")).await;
    assert!(write.revision() > before.revision, "revision {} after {}", write.revision(), before.revision);
}

#[test]
fn queues_sessions_revision_and_tokens_survive_the_kill_of_all_nodes() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        for round in 0..ROUNDS {
            let lock = format!("harbour-{round}");
            let client = cluster.client(round);
            let session = client.open_session("120s", "survivor").await;
            let holder = client.acquire(&lock, &format!("session={}", session.id)).await;
            let waiting = start_waiters(&cluster, &lock).await;
            let over = Arc::new(AtomicBool::new(false));
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let name = format!("killed-{round}-{writer}");
                    tokio::spawn(write_nodes(cluster.client(writer), name, over.clone()))
                })
                .collect();
            let busy = client.write(&Call::put("/v1/nodes/busy", "x")).await;
            crate::harness::eventually("the writers are at work", std::time::Duration::from_secs(30), || async {
                let now = client.send(&Call::get("/v1/nodes/busy")).await.expect_status(200);
                (now.revision() > busy.revision() + 200).then_some(())
            })
            .await;
            let read = client.send(&Call::get("/v1/nodes/busy")).await;
            let before = Before { session, holder, places: client.queue_numbers(&lock).await, revision: read.revision() };
            assert_eq!(before.places.len(), WAITERS + 1);

            kill_all_and_start_again(&mut cluster).await;
            over.store(true, Ordering::SeqCst);
            let written: Vec<String> = all(writers).await.into_iter().flatten().collect();
            report(&format!("all nodes killed: {} nodes were written before and after", written.len()));
            for node in 0..NODES {
                assert_all_is_there(&cluster.client(node), &lock, &before, &written).await;
            }
            client.release(&before.holder.id).await;
            let mut grants = all(waiting).await;
            grants.push(before.holder);
            assert_in_order(&mut grants);
            let numbers: Vec<u64> = grants.iter().map(|grant| grant.number).collect();
            assert_eq!(numbers, before.places, "the queue was served in order");
        }
    });
}

//! The leader is killed repeatedly under load: clients see only a short silence.

use crate::{
    client::{Call, Client, Grant, Session},
    fairness::assert_in_order,
    harness::{Cluster, LONG, NODES, all, pass_time, report, run_exclusive},
    load::{Load, count_up, read_counter},
    trial,
};
use futures_util::future::join_all;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const CLIENTS: usize = 100;
const WRITERS: usize = 4;
const SESSIONS: usize = 10;
const RENEW_EVERY: Duration = Duration::from_secs(1);
const LOCK: &str = "counter";
const COUNTER: &str = "counter";

/// This many successful operations, and grants among them, show that the cluster works again.
const BUSY: usize = 300;
const BUSY_GRANTS: usize = 20;

/// The longest silence that the median kill may cause.
const SILENCE: Duration = Duration::from_secs(1);

fn kills() -> usize {
    trial::size(10, 50)
}

/// Increments the counter under the lock until the load is over; returns the grants.
async fn count_under_the_lock(client: Client, load: Load) -> Vec<Grant> {
    let mut grants = Vec::new();
    while !load.is_over() {
        let grant = client.acquire(LOCK, "wait=10m&ttl=60s").await;
        load.room.enter(grant.token);
        load.granted();
        count_up(&client, COUNTER, LOCK, grant.token).await;
        load.succeeded();
        load.room.leave(grant.token);
        client.release(&grant.id).await;
        load.succeeded();
        grants.push(grant);
    }
    grants
}

/// Writes nodes in sequence until the load is over; returns how many.
async fn write_nodes(client: Client, load: Load, writer: usize) -> usize {
    let mut written = 0;
    while !load.is_over() {
        client.write(&Call::put(&format!("/v1/nodes/written-{writer}-{written}"), written.to_string())).await;
        load.succeeded();
        written += 1;
    }
    written
}

/// Holds a lock by a session that is kept alive until the load is over.
async fn keep_alive(client: Client, load: Load, number: usize) -> (Session, Grant) {
    let session = client.open_session("5s", &format!("kept-{number}")).await;
    let grant = client.acquire(&format!("kept-{number}"), &format!("session={}", session.id)).await;
    while !load.is_over() {
        client.keepalive(&session).await.expect_status(200);
        pass_time(RENEW_EVERY).await;
    }
    (session, grant)
}

async fn assert_kept(client: &Client, kept: &[(Session, Grant)]) {
    for (number, (session, grant)) in kept.iter().enumerate() {
        client.keepalive(session).await.expect_status(200);
        let held = client.send(&Call::get(&format!("/v1/grants/{}", grant.id))).await;
        assert_eq!(&Grant::from_answer(&held), grant);
        assert!(client.fence_passes(&format!("kept-{number}"), grant.token).await);
    }
}

async fn assert_written(client: &Client, written: &[usize]) {
    for (writer, count) in written.iter().enumerate() {
        for first in (0..*count).step_by(50) {
            let values = (first..*count.min(&(first + 50))).map(|number| async move {
                let value = client.value(&format!("written-{writer}-{number}")).await;
                assert_eq!(value, number.to_string(), "an acknowledged node");
            });
            join_all(values).await;
        }
    }
}

/// Kills the leader repeatedly; returns the times, and the numbers in the queue just before each kill.
async fn kill_leaders(cluster: &mut Cluster, load: &Load) -> (Vec<Instant>, BTreeSet<u64>) {
    let (mut killed, mut places) = (Vec::new(), BTreeSet::new());
    for _ in 0..kills() {
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        let leader = cluster.leader().await;
        places.extend(cluster.client(leader).queue_numbers(LOCK).await);
        killed.push(Instant::now());
        cluster.nodes[leader].kill().await;
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        cluster.restart(leader).await;
    }
    load.wait_until_busy(BUSY, BUSY_GRANTS).await;
    killed.push(Instant::now());
    (killed, places)
}

fn report_silences(load: &Load, killed: &[Instant]) -> Duration {
    let mut silences: Vec<Duration> = killed.windows(2).map(|pair| load.longest_silence(pair[0], pair[1])).collect();
    report(&format!("leader killed {} times: the longest silence per kill: {silences:.0?}", kills()));
    silences.sort();
    let median = silences[silences.len() / 2];
    report(&format!("leader killed: median {median:.0?}, worst {:.0?}", silences[silences.len() - 1]));
    median
}

#[test]
fn nothing_is_lost_doubled_or_reordered_while_ten_leaders_are_killed_under_load() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let (client, load) = (cluster.client(0), Load::default());
        client.write(&Call::put(&format!("/v1/nodes/{COUNTER}"), "0 0")).await;
        let kept: Vec<_> =
            (0..SESSIONS).map(|number| tokio::spawn(keep_alive(cluster.client(number), load.clone(), number))).collect();
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write_nodes(cluster.client(writer), load.clone(), writer))).collect();
        let counting: Vec<_> =
            (0..CLIENTS).map(|number| tokio::spawn(count_under_the_lock(cluster.client(number), load.clone()))).collect();

        let (killed, places) = kill_leaders(&mut cluster, &load).await;
        load.end();
        let mut grants: Vec<Grant> = all(counting).await.into_iter().flatten().collect();
        let written = all(writers).await;
        let kept = all(kept).await;

        let median = report_silences(&load, &killed);
        report(&format!(
            "leader killed: {} grants of one lock, {} nodes written, {} operations",
            grants.len(),
            written.iter().sum::<usize>(),
            load.count()
        ));
        assert_in_order(&mut grants);
        let (count, last) = read_counter(&client, COUNTER).await;
        assert_eq!((count, last), (grants.len() as u64, grants[grants.len() - 1].token), "each grant counted once");
        let granted: BTreeSet<u64> = grants.iter().map(|grant| grant.number).collect();
        let lost: Vec<&u64> = places.difference(&granted).collect();
        assert!(lost.is_empty(), "these were in the queue before a kill, and were never granted: {lost:?}");
        assert!(places.len() > kills() * CLIENTS / 4, "too few waited when leaders were killed: {}", places.len());
        for node in 0..NODES {
            assert_kept(&cluster.client(node), &kept).await;
        }
        assert_written(&client, &written).await;
        assert!(median <= SILENCE, "the median of the longest silences is {median:?}");
    });
}

//! The classic demonstrations of locks.

use crate::{
    client::{Call, Client, Grant},
    fairness::{Room, assert_in_order},
    harness::{Cluster, LONG, SHORT, all, eventually, run_exclusive, run_parallel},
    queue::wait_for_contenders,
};
use std::time::Duration;

const CLIENTS: usize = 100;

/// Subtracts one from a counter under a lock, by a fenced write.
async fn decrement(client: &Client, room: &Room) -> Grant {
    let grant = client.acquire("counter", "wait=10m&ttl=60s").await;
    room.enter(grant.token);
    let left: u64 = client.value("counter").await.parse().expect("a number");
    let write = Call::put("/v1/nodes/counter", (left - 1).to_string()).fenced("counter", grant.token);
    client.write(&write).await;
    room.leave(grant.token);
    client.release(&grant.id).await;
    grant
}

#[test]
fn a_hundred_clients_each_take_one_from_a_counter_and_nothing_is_left() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let (client, room) = (cluster.client(0), Room::default());
        client.write(&Call::put("/v1/nodes/counter", CLIENTS.to_string())).await;
        let tasks = (0..CLIENTS).map(|number| {
            let (client, room) = (cluster.client(number), room.clone());
            tokio::spawn(async move { decrement(&client, &room).await })
        });
        let mut grants = all(tasks.collect()).await;
        assert_in_order(&mut grants);
        assert_eq!(client.value("counter").await, "0");
    });
}

/// Buys this many if they are in stock.
async fn buy(client: &Client, wanted: u64) -> bool {
    let grant = client.acquire("stock", "wait=60s").await;
    let there: u64 = client.value("stock").await.parse().expect("a number");
    let enough = there >= wanted;
    if enough {
        let write = Call::put("/v1/nodes/stock", (there - wanted).to_string()).fenced("stock", grant.token);
        client.write(&write).await;
    }
    client.release(&grant.id).await;
    enough
}

#[test]
fn a_stock_of_ten_is_not_sold_to_buyers_of_six_and_five() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for round in 0..10 {
            cluster.client(0).write(&Call::put("/v1/nodes/stock", "10")).await;
            let (six, five) = (cluster.client(round), cluster.client(round + 1));
            let (six, five) = tokio::join!(buy(&six, 6), buy(&five, 5));
            assert!(six != five, "one of them gets what it wants, and only one: {six} {five}");
            let left = if six { "4" } else { "5" };
            assert_eq!(cluster.client(2).value("stock").await, left);
        }
    });
}

#[test]
fn the_late_release_of_an_expired_holder_frees_nothing_and_its_late_write_is_refused() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let (late, next) = (cluster.client(0), cluster.client(1));
        let expired = late.acquire("ledger", "ttl=1s&owner=late").await;
        late.write(&Call::put("/v1/nodes/ledger", "by the first").fenced("ledger", expired.token)).await;
        let holder = next.acquire("ledger", "wait=60s&ttl=60s").await;
        assert!(holder.token > expired.token, "{holder:?} after {expired:?}");

        let write = Call::put("/v1/nodes/ledger", "too late").fenced("ledger", expired.token);
        late.send(&write).await.expect_problem(412, "stale_token");
        late.release(&expired.id).await;
        let gone = late.send(&Call::get(&format!("/v1/grants/{}", expired.id))).await.expect_problem(410, "grant_gone");
        assert_eq!(gone.json["reason"], "expired", "a late release does not change how it ended: {gone:?}");
        assert_eq!(late.value("ledger").await, "by the first");
        assert_eq!(next.holders("ledger").await, [holder.number]);
        assert!(next.fence_passes("ledger", holder.token).await);
        assert!(!next.fence_passes("ledger", expired.token).await);
        next.write(&Call::put("/v1/nodes/ledger", "by the second").fenced("ledger", holder.token)).await;
        next.release(&holder.id).await;
        assert!(!next.fence_passes("ledger", holder.token).await, "stale at once after the release");
    });
}

#[test]
fn a_fence_that_names_a_grant_is_exact_among_readers() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let writer = client.acquire("map", "").await;
        let mut waiting = Vec::new();
        for node in 1..3 {
            let reader = cluster.client(node);
            waiting.push(tokio::spawn(async move { reader.acquire("map", "mode=shared&wait=60s").await }));
        }
        wait_for_contenders(&client, "map", 3).await;
        client.release(&writer.id).await;
        let readers = all(waiting).await;
        let (gone, stays) = (&readers[0], &readers[1]);
        assert_eq!(gone.token, stays.token);
        client.release(&gone.id).await;
        let fence = |grant: &Grant| format!("map={};grant={}", grant.token, grant.id);
        let write = |grant: &Grant| Call::put("/v1/nodes/map", "x").with("fairhold-fence", &fence(grant));
        client.send(&write(gone)).await.expect_problem(412, "stale_token");
        client.write(&write(stays)).await;
        let passes = |grant: &Grant| Call::get(&format!("/v1/locks/map/fence?token={}&grant={}", grant.token, grant.id));
        client.send(&passes(gone)).await.expect_problem(409, "stale_token");
        client.send(&passes(stays)).await.expect_status(200);
        client.release(&stays.id).await;
        eventually("the lock is free", Duration::from_secs(1), || async { client.queue("map").await.is_empty().then_some(()) })
            .await;
    });
}

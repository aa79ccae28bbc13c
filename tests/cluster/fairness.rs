//! Grants follow the order in which the requests were committed, exactly, and each wakes one waiter.

use crate::{
    client::{Call, Client, Grant},
    harness::{Cluster, LONG, NODES, all, alone, eventually, pass, report},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const CLIENTS: u64 = 200;
const TIMES: u64 = 10;
const SEED: u64 = 0x00fa_1247_01d0;

/// Nobody.
const FREE: u64 = 0;

/// Numbers that only look random, the same for the same seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Watches from outside that nobody holds a lock beside another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<AtomicU64>);

impl Room {
    /// Goes in, from the moment at which the caller was told that it holds the lock.
    #[track_caller]
    pub(crate) fn enter(&self, token: u64) {
        let inside = self.0.swap(token, Ordering::SeqCst);
        assert_eq!(inside, FREE, "token {token} was given while the one with token {inside} held the lock");
    }

    /// Goes out, before the lock is released.
    #[track_caller]
    pub(crate) fn leave(&self, token: u64) {
        let inside = self.0.swap(FREE, Ordering::SeqCst);
        assert_eq!(inside, token, "the one with token {token} left, and found {inside}");
    }
}

/// Asserts that grants of one exclusive lock were given in the order in which they queued, each with a token of its own.
#[track_caller]
pub(crate) fn assert_in_order(grants: &mut [Grant]) {
    grants.sort_by_key(|grant| grant.token);
    for pair in grants.windows(2) {
        assert!(pair[0].token < pair[1].token, "one token twice: {pair:?}");
        assert!(pair[0].number < pair[1].number, "who queued later was granted sooner: {pair:?}");
    }
    for grant in grants.iter() {
        assert!(grant.number <= grant.token, "granted before it queued: {grant:?}");
    }
}

/// The counters of one node: how many grants it saw, and how many waiting requests it woke.
async fn counters(client: &Client, node: usize) -> (u64, u64) {
    let answer = client.send_to(node, &Call::get("/v1/cluster")).await.expect("the node runs");
    (answer.number("grants"), answer.number("wakeups"))
}

async fn all_counters(client: &Client) -> Vec<(u64, u64)> {
    let mut counted = Vec::new();
    for node in 0..NODES {
        counted.push(counters(client, node).await);
    }
    counted
}

#[test]
fn two_hundred_clients_get_a_lock_in_the_order_of_their_requests_and_each_grant_wakes_at_most_one() {
    alone(LONG, async {
        let cluster = Cluster::start().await;
        let (client, room) = (cluster.client(0), Room::default());
        let before = all_counters(&client).await;
        let started = Instant::now();
        let tasks = (0..CLIENTS).map(|number| {
            let node = usize::try_from(number).expect("a small number");
            let (client, room, mut dice) = (cluster.client(node), room.clone(), Dice::new(SEED ^ (number << 32)));
            tokio::spawn(async move {
                let mut grants = Vec::new();
                for _ in 0..TIMES {
                    pass(Duration::from_millis(dice.below(200))).await;
                    let grant = client.acquire("gate", "wait=10m&ttl=60s").await;
                    room.enter(grant.token);
                    grants.push(grant.clone());
                    room.leave(grant.token);
                    client.release(&grant.id).await;
                }
                grants
            })
        });
        let mut grants: Vec<Grant> = all(tasks.collect()).await.into_iter().flatten().collect();
        let took = started.elapsed();

        assert_eq!(grants.len() as u64, CLIENTS * TIMES);
        assert_in_order(&mut grants);
        let waited = grants.iter().filter(|grant| grant.token > grant.number).count() as u64;
        let counted = eventually("every node has seen every grant", Duration::from_secs(10), || async {
            let now = all_counters(&client).await;
            let since: Vec<(u64, u64)> = now.iter().zip(&before).map(|(now, then)| (now.0 - then.0, now.1 - then.1)).collect();
            since.iter().all(|(seen, _)| *seen >= CLIENTS * TIMES).then_some(since)
        })
        .await;
        assert!(counted.iter().all(|(seen, _)| *seen == CLIENTS * TIMES), "grants that each node saw: {counted:?}");
        let woken: u64 = counted.iter().map(|(_, woken)| woken).sum();
        report(&format!(
            "fairness: {} grants in {took:.1?}, seed {SEED:#x}; {waited} had to wait, {woken} wake-ups",
            grants.len()
        ));
        assert!(waited > CLIENTS, "too few had to wait for this to show anything: {waited}");
        assert_eq!(woken, waited, "a wake-up for each grant that had to wait, and none else");
    });
}

//! Grants follow exactly the order in which the requests were committed, and each grant wakes one waiter.

use crate::{
    client::{Call, Client, Grant},
    harness::{Cluster, LONG, NODES, all, eventually, pass_time, report, run_exclusive},
    queue::wait_for_contenders,
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

/// The value of an empty room.
const FREE: u64 = 0;

/// Pseudorandom numbers, the same for the same seed (SplitMix64).
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

/// Checks from outside that a lock never has two holders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<AtomicU64>);

impl Room {
    /// Enters, once the caller's answer says that it holds the lock.
    #[track_caller]
    pub(crate) fn enter(&self, token: u64) {
        let inside = self.0.swap(token, Ordering::SeqCst);
        assert_eq!(inside, FREE, "token {token} was granted while token {inside} was held");
    }

    /// Leaves, before the lock is released.
    #[track_caller]
    pub(crate) fn leave(&self, token: u64) {
        let inside = self.0.swap(FREE, Ordering::SeqCst);
        assert_eq!(inside, token, "the holder of token {token} left, but {inside} was inside");
    }
}

/// Asserts that the grants of one exclusive lock followed the order of its queue, each with its own token.
#[track_caller]
pub(crate) fn assert_in_order(grants: &mut [Grant]) {
    grants.sort_by_key(|grant| grant.token);
    for pair in grants.windows(2) {
        assert!(pair[0].token < pair[1].token, "one token twice: {pair:?}");
        assert!(pair[0].number < pair[1].number, "queued later, but granted sooner: {pair:?}");
    }
    for grant in grants.iter() {
        assert!(grant.number <= grant.token, "granted before it queued: {grant:?}");
    }
}

/// Each node's counts: the grants that it saw, and the waiting requests that it woke.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    grants: Vec<u64>,
    wakeups: Vec<u64>,
}

async fn counted(client: &Client) -> Counted {
    let (mut grants, mut wakeups) = (Vec::new(), Vec::new());
    for node in 0..NODES {
        let answer = client.send_to(node, &Call::get("/v1/cluster")).await.expect("the node runs");
        grants.push(answer.number("grants"));
        wakeups.push(answer.number("wakeups"));
    }
    Counted { grants, wakeups }
}

/// The counts since `before`, once every node has seen `grants` grants.
async fn counted_since(client: &Client, before: &Counted, grants: u64) -> Counted {
    let since = |now: &[u64], then: &[u64]| now.iter().zip(then).map(|(now, then)| now - then).collect::<Vec<u64>>();
    let counted = eventually("every node has seen every grant", Duration::from_secs(10), || async {
        let now = counted(client).await;
        let since = Counted { grants: since(&now.grants, &before.grants), wakeups: since(&now.wakeups, &before.wakeups) };
        since.grants.iter().all(|seen| *seen >= grants).then_some(since)
    })
    .await;
    assert!(counted.grants.iter().all(|seen| *seen == grants), "{grants} grants were made: {counted:?}");
    counted
}

#[test]
fn each_grant_wakes_only_the_next_of_two_hundred_waiters_at_its_node() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let holder = client.acquire("gate", "ttl=10m").await;
        let mut waiting = Vec::new();
        for number in 0..CLIENTS {
            let client = cluster.client(usize::try_from(number).expect("a small number"));
            waiting.push(tokio::spawn(async move {
                let grant = client.acquire("gate", "wait=10m&ttl=60s").await;
                client.release(&grant.id).await;
                grant
            }));
        }
        wait_for_contenders(&client, "gate", waiting.len() + 1).await;
        let places = client.queue_numbers("gate").await;
        let before = counted(&client).await;
        client.release(&holder.id).await;
        let mut grants = all(waiting).await;
        assert_in_order(&mut grants);
        assert_eq!(grants.iter().map(|grant| grant.number).collect::<Vec<_>>(), places[1..], "in the order of the queue");
        let since = counted_since(&client, &before, CLIENTS).await;
        let of_node = |node: u64| (0..CLIENTS).filter(|number| number % NODES as u64 == node).count() as u64;
        assert_eq!(since.wakeups, (0..NODES as u64).map(of_node).collect::<Vec<_>>(), "one for each waiter there");
    });
}

#[test]
fn two_hundred_clients_at_random_moments_get_a_lock_in_the_order_of_their_requests() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let (client, room) = (cluster.client(0), Room::default());
        let before = counted(&client).await;
        let started = Instant::now();
        let tasks = (0..CLIENTS).map(|number| {
            let node = usize::try_from(number).expect("a small number");
            let (client, room, mut dice) = (cluster.client(node), room.clone(), Dice::new(SEED ^ (number << 32)));
            tokio::spawn(async move {
                let mut grants = Vec::new();
                for _ in 0..TIMES {
                    pass_time(Duration::from_millis(dice.below(200))).await;
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
        let woken: u64 = counted_since(&client, &before, CLIENTS * TIMES).await.wakeups.iter().sum();
        report(&format!("fairness: {} grants in {took:.1?}, seed {SEED:#x}; {waited} waited, {woken} wake-ups", grants.len()));
        assert!(waited > CLIENTS, "too few waited, so the test proves nothing: {waited}");
        // A grant wakes nothing if it arrives while its request is still on the way to the place where it waits.
        assert!(woken <= waited && waited - woken <= waited / 50, "{woken} wake-ups for {waited} waiters");
    });
}

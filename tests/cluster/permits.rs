//! A semaphore never gives out more permits than it has, whoever leads and whoever dies.

use crate::{
    client::{Call, Client, Grant},
    fairness::Dice,
    harness::{Cluster, LONG, all, alone, report},
    trial,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

const LIMIT: u64 = 10;
const LOCK: &str = "pool";
const SEED: u64 = 0x5e3a_f0e5;

fn clients() -> usize {
    trial::size(60, 500)
}

fn kills() -> usize {
    trial::size(1, 3)
}

/// The permits that are out, counted from outside.
#[derive(Debug, Clone, Default)]
struct Out {
    permits: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
    grants: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Out {
    #[track_caller]
    fn take(&self, permits: u64) {
        let out = self.permits.fetch_add(permits, Ordering::SeqCst) + permits;
        assert!(out <= LIMIT, "{out} permits of {LIMIT} are out");
        self.most.fetch_max(out, Ordering::SeqCst);
        self.grants.fetch_add(1, Ordering::SeqCst);
    }
}

async fn take_and_give_back(client: Client, out: Out, number: usize) -> usize {
    let mut dice = Dice::new(SEED + number as u64);
    let mut grants = 0;
    while !out.is_over.load(Ordering::SeqCst) {
        let permits = 1 + dice.below(4);
        let call = Call::post(&format!("/v1/locks/{LOCK}?limit={LIMIT}&permits={permits}&wait=10m&ttl=60s"));
        let grant = Grant::from_answer(&client.send(&call).await.expect_status(200));
        out.take(permits);
        grants += 1;
        out.permits.fetch_sub(permits, Ordering::SeqCst);
        client.release(&grant.id).await;
    }
    grants
}

/// Waits until that many more grants were given.
async fn at_work(out: &Out, grants: usize) {
    let wanted = out.grants.load(Ordering::SeqCst) + grants;
    crate::harness::eventually("more grants are given", LONG, || async {
        (out.grants.load(Ordering::SeqCst) >= wanted).then_some(())
    })
    .await;
}

#[test]
fn never_more_permits_are_out_than_there_are_while_leaders_are_killed() {
    alone(LONG, async {
        let mut cluster = Cluster::start().await;
        let out = Out::default();
        let tasks = (0..clients())
            .map(|number| tokio::spawn(take_and_give_back(cluster.client(number % 3), out.clone(), number)))
            .collect();
        for _ in 0..kills() {
            at_work(&out, clients()).await;
            let leader = cluster.leader().await;
            cluster.nodes[leader].kill().await;
            at_work(&out, clients()).await;
            cluster.restart(leader).await;
        }
        at_work(&out, clients()).await;
        out.is_over.store(true, Ordering::SeqCst);
        let grants = all(tasks).await;
        let total: usize = grants.iter().sum();
        let most = out.most.load(Ordering::SeqCst);
        report(&format!(
            "permits: {total} grants to {} clients, {} leaders killed, at most {most} permits out",
            clients(),
            kills()
        ));
        assert!(grants.iter().all(|grants| *grants > 0), "somebody got none: {grants:?}");
        assert_eq!(cluster.client(0).holders(LOCK).await, [0_u64; 0], "all are given back");
    });
}

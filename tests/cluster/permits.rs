//! A semaphore never grants more permits than it has, and grants them in the order of the requests, even while leaders
//! are killed.

use crate::{
    client::{Call, Client, Grant, whole},
    fairness::Dice,
    harness::{Cluster, LONG, all, eventually, pass_time, report, run_exclusive},
    trial,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

const LIMIT: u64 = 10;
const LOCK: &str = "pool";
const SEED: u64 = 0x5e3a_f0e5;

/// The maximum time for which a permit is used, in milliseconds.
const USED_FOR: u64 = 40;

fn clients() -> usize {
    trial::size(60, 500)
}

fn kills() -> usize {
    trial::size(1, 3)
}

/// The permits in use, counted from outside.
#[derive(Debug, Clone, Default)]
struct PermitsInUse {
    permits: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
    grants: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl PermitsInUse {
    #[track_caller]
    fn take(&self, permits: u64) {
        let out = self.permits.fetch_add(permits, Ordering::SeqCst) + permits;
        assert!(out <= LIMIT, "{out} permits of {LIMIT} are in use");
        self.most.fetch_max(out, Ordering::SeqCst);
        self.grants.fetch_add(1, Ordering::SeqCst);
    }

    fn return_permits(&self, permits: u64) {
        self.permits.fetch_sub(permits, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

async fn take_and_return(client: Client, out: PermitsInUse, number: usize) -> Vec<Grant> {
    let mut dice = Dice::new(SEED + number as u64);
    let mut grants = Vec::new();
    while !out.is_over() {
        let permits = 1 + dice.below(4);
        let call = Call::post(&format!("/v1/locks/{LOCK}?limit={LIMIT}&permits={permits}&wait=10m&ttl=60s"));
        let grant = client.acquire_with(&call).await;
        out.take(permits);
        pass_time(Duration::from_millis(dice.below(USED_FOR))).await;
        out.return_permits(permits);
        client.release(&grant.id).await;
        grants.push(grant);
    }
    grants
}

/// Polls the nodes in turn for the permits in use until the test is over; returns the number of answers, and the most
/// permits.
async fn poll_permits(client: Client, out: PermitsInUse) -> (usize, u64) {
    let (mut looks, mut most) = (0, 0);
    while !out.is_over() {
        let shown = client.beginning_with(looks).send(&Call::get(&format!("/v1/locks/{LOCK}"))).await.expect_status(200);
        let permits: u64 = shown.json["holders"].as_array().expect("holders").iter().map(|holder| whole(holder, "permits")).sum();
        assert!(permits <= LIMIT, "{permits} permits of {LIMIT} are in use: {}", shown.text);
        most = permits.max(most);
        looks += 1;
    }
    (looks, most)
}

/// Waits until this many more grants were made.
async fn wait_until_busy(out: &PermitsInUse, grants: usize) {
    let wanted = out.grants.load(Ordering::SeqCst) + grants;
    eventually("more grants are made", LONG, || async { (out.grants.load(Ordering::SeqCst) >= wanted).then_some(()) }).await;
}

/// Asserts that grants followed the order of the queue. Grants of one step share a token.
#[track_caller]
fn assert_strict_order(grants: &mut [Grant]) {
    grants.sort_by_key(|grant| (grant.token, grant.number));
    for pair in grants.windows(2) {
        assert!(pair[0].number < pair[1].number, "queued later, but granted sooner: {pair:?}");
    }
}

#[test]
fn permits_never_exceed_the_limit_and_follow_the_queue_while_leaders_are_killed() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let out = PermitsInUse::default();
        let tasks =
            (0..clients()).map(|number| tokio::spawn(take_and_return(cluster.client(number % 3), out.clone(), number))).collect();
        let onlooker = tokio::spawn(poll_permits(cluster.client(0), out.clone()));
        let mut waited_at_kills = Vec::new();
        for _ in 0..kills() {
            wait_until_busy(&out, clients()).await;
            let leader = cluster.leader().await;
            waited_at_kills.push(cluster.client(leader).queue(LOCK).await.len());
            cluster.nodes[leader].kill().await;
            wait_until_busy(&out, clients()).await;
            cluster.restart(leader).await;
        }
        wait_until_busy(&out, clients()).await;
        out.is_over.store(true, Ordering::SeqCst);
        let of_each = all(tasks).await;
        let (looks, most_told) = onlooker.await.expect("the onlooker's task");
        let fewest = of_each.iter().map(Vec::len).min().expect("some clients");
        let mut grants: Vec<Grant> = of_each.into_iter().flatten().collect();
        let most = out.most.load(Ordering::SeqCst);
        assert_strict_order(&mut grants);
        let waited = grants.iter().filter(|grant| grant.token > grant.number).count();
        report(&format!(
            "permits: {} grants to {} clients in strict order, {waited} of them after a wait; {} leaders killed while \
             {waited_at_kills:?} waited; at most {most} of {LIMIT} permits in use as seen by clients, {most_told} as reported in \
             {looks} looks",
            grants.len(),
            clients(),
            kills()
        ));
        assert!(most > LIMIT / 2, "hardly any were in use together: {most}");
        assert!(most_told == LIMIT, "all were never in use: {most_told}");
        assert!(waited > grants.len() / 2, "too few waited, so their order proves nothing: {waited}");
        assert!(fewest > 0, "some client got none");
        assert_eq!(cluster.client(0).holders(LOCK).await, [0_u64; 0], "all are released");
    });
}

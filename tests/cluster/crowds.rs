//! Very large numbers of everything, with the most expensive operations on them: how long honest clients wait, and that
//! no election starts.

#[path = "crowds/bystanders.rs"]
mod bystanders;
#[path = "crowds/fill.rs"]
mod fill;

use crate::{
    client::{Call, Client, Grant, Session, new_key},
    harness::{Cluster, LONG, NODES, eventually, pass_time, report, run_exclusive},
    metrics::value,
    trial,
};
use bystanders::{Bystanders, Waits};
use serde_json::json;
use std::{
    future::Future,
    time::{Duration, Instant},
};

/// How often a fast operation is repeated, so that there is time to measure.
const AGAIN: usize = 20;
/// Fences in one transaction.
const FENCES: usize = 1_000;
/// Interval between the renewals of the session that expires later.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Holds of one permit each that fit into a narrow lock. One holder takes all of them.
const NARROW: u64 = 9;

/// The number of items of each kind.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    holders: usize,
    readers: usize,
    waiters: usize,
    /// Waiters behind which a cycle is found: as many as the search visits.
    searched: usize,
    ephemerals: usize,
    locks: usize,
    /// Locks of the session that expires.
    expiring: usize,
}

fn sizes() -> Sizes {
    let short =
        Sizes { holders: 2_000, readers: 800, waiters: 200, searched: 80, ephemerals: 6_000, locks: 6_000, expiring: 2_000 };
    // The queues leave room for later waiters: 10,000 may wait.
    let long = Sizes {
        holders: 100_000,
        readers: 40_000,
        waiters: 9_990,
        searched: 3_900,
        ephemerals: 300_000,
        locks: 300_000,
        expiring: 100_000,
    };
    trial::size(short, long)
}

/// The cluster, the honest clients, and the measurements so far.
struct Stage {
    cluster: Cluster,
    bystanders: Bystanders,
    leader: usize,
    /// How long the clients waited at rest, once measured.
    rest: Option<Waits>,
    /// The largest growth of the longest wait, in milliseconds, and the operation that caused it.
    most: (f64, String),
}

/// Figures from the nodes' metrics.
struct Figures {
    /// Raft's term, the highest that any node knows.
    term: f64,
    /// Of the leader: applied steps, and processor time in seconds.
    steps: f64,
    cpu: f64,
    /// For each node: how many syncs of the log took at most each of these bounds, in seconds.
    syncs: Vec<Buckets>,
}

/// The buckets of a histogram: each bound, and how many values are within it.
type Buckets = Vec<(f64, f64)>;

/// The buckets of the log's syncs in a page of metrics.
fn syncs(page: &str) -> Buckets {
    let buckets =
        page.lines().filter_map(|line| line.strip_prefix("fairhold_storage_sync_seconds_bucket{le=\"")?.split_once("\"} "));
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("no number: {text}"));
    buckets.map(|(bound, count)| (number(bound.trim_start_matches('+')), number(count))).collect()
}

impl Figures {
    async fn of(cluster: &Cluster, leader: usize) -> Figures {
        let mut figures = Figures { term: 0.0, steps: 0.0, cpu: 0.0, syncs: Vec::new() };
        for node in 0..NODES {
            let page = cluster.client(node).send_to(node, &Call::get("/metrics")).await.expect("it runs").expect_status(200);
            figures.term = figures.term.max(value(&page.text, "fairhold_raft_term"));
            figures.syncs.push(syncs(&page.text));
            if node == leader {
                figures.steps = value(&page.text, "fairhold_raft_apply_steps_total");
                figures.cpu = value(&page.text, "fairhold_process_cpu_seconds_total");
            }
        }
        figures
    }

    /// A bound in milliseconds within which the slowest sync of all nodes stayed since then.
    fn slowest_sync_since(&self, before: &Figures) -> f64 {
        let bound = |(now, then): (&Buckets, &Buckets)| {
            let more: Vec<f64> = now.iter().zip(then).map(|(now, then)| now.1 - then.1).collect();
            let all = more.last().copied().unwrap_or_default();
            now.iter().zip(&more).find(|(_, more)| **more >= all).map_or(0.0, |(bucket, _)| bucket.0)
        };
        self.syncs.iter().zip(&before.syncs).map(bound).fold(0.0, f64::max) * 1_000.0
    }
}

impl Stage {
    async fn prepare() -> Stage {
        let cluster = Cluster::start().await;
        let (leader, [follower, _]) = (cluster.leader().await, cluster.followers().await);
        let urls = cluster.nodes.iter().map(|node| node.url.clone()).collect();
        let bystanders = Bystanders::start(urls, [leader, follower]);
        bystanders.wait_for_progress().await;
        report("Waits in milliseconds, each as: 99 of 100 are shorter / the longest.");
        report(&format!(
            "| while | took | steps | CPU of the leader | slowest sync, within | term | rounds | {} | \
             growth of the longest |",
            Waits::heads()
        ));
        report(&format!("|{}", "---|".repeat(15)));
        Stage { cluster, bystanders, leader, rest: None, most: (f64::MIN, String::new()) }
    }

    fn client(&self) -> Client {
        self.cluster.client(self.leader)
    }

    /// Does some work, and compares the clients' waits during it with their waits at rest.
    async fn during<T>(&mut self, what: &str, work: impl Future<Output = T>) -> T {
        let (done, waits) = self.measure(what, work).await;
        if let Some(more) = self.rest.as_ref().map(|rest| waits.longer_than(rest).0).filter(|more| *more > self.most.0) {
            self.most = (more, what.to_owned());
        }
        done
    }

    /// Does some work, reports the clients' waits during it, and asserts that no election starts.
    async fn measure<T>(&self, what: &str, work: impl Future<Output = T>) -> (T, Waits) {
        let (before, from) = (Figures::of(&self.cluster, self.leader).await, Instant::now());
        let done = work.await;
        let took = from.elapsed();
        // Includes the work that remains afterwards, such as freeing memory.
        self.bystanders.wait_for_progress().await;
        let to = Instant::now();
        let after = Figures::of(&self.cluster, self.leader).await;
        let waits = self.bystanders.between(from, to);
        let more = self.rest.as_ref().map(|rest| waits.longer_than(rest));
        let more = more.map(|(more, which)| format!("{more:+.1}: {which}")).unwrap_or_default();
        let (steps, cpu, columns) = (after.steps - before.steps, after.cpu - before.cpu, waits.columns());
        let (term, rounds, sync) = (after.term, waits.count(), after.slowest_sync_since(&before));
        report(&format!(
            "| {what} | {took:.1?} | {steps} | {cpu:.1} s | {sync:.0} ms | {term} | {rounds} | {columns} | {more} |"
        ));
        assert_eq!(before.term, term, "a new term, so an election started while: {what}");
        (done, waits)
    }
}

/// Sends a request of an administrator or an owner, which is answered when all of it is done.
async fn order(client: Client, call: Call, status: u16) {
    client.send(&call.with("fairhold-timeout", "300s").key(&new_key())).await.expect_status(status);
}

/// Repeats a call, and expects this status each time.
async fn again(client: Client, call: Call, status: u16) {
    for _ in 0..AGAIN {
        client.send(&call.clone().key(&new_key())).await.expect_status(status);
    }
}

/// Repeats a read.
async fn read_again(client: Client, path: &str) {
    for _ in 0..AGAIN {
        client.send(&Call::get(path)).await.expect_status(200);
    }
}

/// The grants and sessions on which the operations act.
struct Crowd {
    own: Session,
    ephemerals: Session,
    locks: Session,
    /// A reader of the crowded book.
    reader: Grant,
}

async fn fill_all(client: &Client, sizes: Sizes) -> Crowd {
    let own = client.open_session("1h", "crowd").await;
    fill::acquire(client, &own, sizes.holders, |number| json!({"lock": format!("held/{number}")})).await;
    fill::acquire(client, &own, sizes.readers - 1, |_| json!({"lock": "book", "mode": "shared"})).await;
    let reader = client.acquire("book", &format!("mode=shared&session={}", own.id)).await;
    fill::cycle(client, &own, "line", sizes.waiters).await;
    fill::cycle(client, &own, "searched", sizes.searched).await;
    for lock in ["widened", "narrowed"] {
        fill::acquire(client, &own, 1, move |_| json!({"lock": lock, "limit": NARROW, "permits": NARROW})).await;
        fill::acquire(client, &own, sizes.waiters, move |_| json!({"lock": lock, "limit": NARROW, "permits": 5})).await;
    }
    let ephemerals = client.open_session("1h", "ephemerals").await;
    fill::create_ephemerals(client, &ephemerals, "ephemerals", sizes.ephemerals).await;
    let locks = client.open_session("1h", "locks").await;
    fill::acquire(client, &locks, sizes.locks, |number| json!({"lock": format!("owned/{number}")})).await;
    Crowd { own, ephemerals, locks, reader }
}

/// Asserts that all of it exists.
async fn count_all(client: &Client, sizes: Sizes, crowd: &Crowd) {
    let count = |path: String, field: &'static str| async move { client.send(&Call::get(&path)).await.number(field) };
    let session = |session: &Session| format!("/v1/sessions/{}?limit=1", session.number);
    assert_eq!(count(session(&crowd.ephemerals), "ephemeral_count").await, sizes.ephemerals as u64);
    assert_eq!(count(session(&crowd.locks), "grant_count").await, sizes.locks as u64);
    assert_eq!(count("/v1/locks/book?limit=1".to_owned(), "holder_count").await, sizes.readers as u64);
    for lock in ["line", "widened", "narrowed"] {
        assert_eq!(count(format!("/v1/locks/{lock}?limit=1"), "queue_length").await, sizes.waiters as u64, "{lock}");
    }
}

async fn measure_reads(stage: &mut Stage, crowd: &Crowd) {
    let client = stage.client();
    stage.during("pages of a queue", read_again(client.clone(), "/v1/locks/line/queue?limit=1000")).await;
    stage.during("pages of a lock's holders", read_again(client.clone(), "/v1/locks/book?limit=1000")).await;
    for session in [&crowd.ephemerals, &crowd.locks] {
        let path = format!("/v1/sessions/{}?limit=1000", session.number);
        stage.during("pages of a large session", read_again(client.clone(), &path)).await;
    }
    stage.during("pages of all sessions", read_again(client.clone(), "/v1/sessions?limit=1000")).await;
    stage.during("pages of all locks, by their waits", read_again(client.clone(), "/v1/locks?sort=wait&limit=1000")).await;
    let fence = json!({"fence": {"lock": "book", "token": crowd.reader.token}});
    let path = format!("/v1/locks/book/fence?token={}", crowd.reader.token);
    stage.during("checks of a fence that all readers share", read_again(client.clone(), &path)).await;
    let fences = Call::post("/v1/txn").json(&json!({"if": vec![fence; FENCES], "then": []}));
    stage.during("transactions of 1,000 such checks", again(client.clone(), fences, 200)).await;
    let asks = |lock: &str| Call::post(&format!("/v1/locks/{lock}?session={}&owner=r-{lock}&wait=1ms", crowd.own.id));
    stage.during("refused acquires: a cycle was found", again(client.clone(), asks("searched"), 409)).await;
    stage.during("acquires behind more than are searched", again(client.clone(), asks("line"), 409)).await;
    let snapshot = order(client, Call::post("/v1/cluster/snapshot").within(LONG), 200);
    stage.during("a snapshot of the leader", snapshot).await;
}

async fn measure_orders(stage: &mut Stage) {
    let client = stage.client();
    let ask = Call::post("/v1/locks/book/holders/revoke").within(LONG);
    stage.during("all readers are asked to release", order(client.clone(), ask, 202)).await;
    let end = Call::delete("/v1/locks/book/holders?reason=crowded").within(LONG);
    stage.during("the lock of all readers is broken", order(client.clone(), end, 204)).await;
    assert_eq!(client.holders("book").await, [0_u64; 0]);
    for (lock, limit) in [("widened", 1_000_000), ("narrowed", NARROW / 3)] {
        let set = Call::patch(&format!("/v1/locks/{lock}")).json(&json!({ "limit": limit })).within(LONG);
        stage.during(&format!("a crowded lock is {lock}"), order(client.clone(), set, 200)).await;
        let shown = client.send(&Call::get(&format!("/v1/locks/{lock}?limit=1"))).await.expect_status(200);
        assert_eq!(shown.number("queue_length"), 0, "{}", shown.text);
    }
}

async fn measure_ends(stage: &mut Stage, sizes: Sizes, crowd: &Crowd) {
    let client = stage.client();
    for (what, session) in [("ephemeral nodes", &crowd.ephemerals), ("locks", &crowd.locks)] {
        let close = Call::delete(&format!("/v1/sessions/{}", session.id)).within(LONG);
        stage.during(&format!("a session of very many {what} is closed"), order(client.clone(), close, 204)).await;
        client.send(&Call::get(&format!("/v1/sessions/{}", session.number))).await.expect_problem(404, "session_not_found");
    }
    let parent = client.send(&Call::get("/v1/nodes/ephemerals?meta")).await.expect_status(200);
    assert_eq!(parent.number("num_children"), 0);
    let last = client.send(&Call::get(&format!("/v1/locks/owned%2F{}", sizes.locks - 1))).await.expect_status(200);
    assert_eq!(last.number("holder_count"), 0);

    let expiring = client.open_session(trial::size("4s", "10s"), "expiring").await;
    let renewing = tokio::spawn({
        let (client, session) = (client.clone(), expiring.clone());
        async move {
            loop {
                client.keepalive(&session).await.expect_status(200);
                pass_time(RENEW_EVERY).await;
            }
        }
    });
    let held = |number| json!({"lock": format!("expiring/{number}"), "lock_delay": "1s"});
    fill::acquire(&client, &expiring, sizes.expiring, held).await;
    renewing.abort();
    // Its locks are freed before its end is complete.
    stage.bystanders.wait_for_progress().await;
    let expired = eventually("the session has expired, and its locks are free", LONG, || async {
        let session = client.send(&Call::get(&format!("/v1/sessions/{}?limit=1", expiring.number))).await;
        let page = client.once(&Call::get("/metrics")).await.expect_status(200);
        let cooling = value(&page.text, "fairhold_grants{state=\"cooling\"}");
        (session.status == 404 && cooling == 0.0).then_some(())
    });
    stage.during("a session of many locks expires, with their lock delays", expired).await;
}

#[test]
fn expensive_operations_on_a_crowd_delay_no_client_and_cause_no_election() {
    run_exclusive(6 * LONG, async {
        let sizes = sizes();
        let mut stage = Stage::prepare().await;
        let rest = trial::size(Duration::from_secs(3), Duration::from_secs(20));
        let ((), alone) = stage.measure("at rest", pass_time(rest)).await;
        let client = stage.client();
        let (crowd, _) = stage.measure("the crowd comes", fill_all(&client, sizes)).await;
        count_all(&client, sizes, &crowd).await;
        stage.rest = Some(alone);
        stage.during("nothing happens to the crowd", pass_time(rest)).await;
        measure_reads(&mut stage, &crowd).await;
        measure_orders(&mut stage).await;
        measure_ends(&mut stage, sizes, &crowd).await;
        let (more, what) = &stage.most;
        report(&format!("no elections; the longest wait grew by {more:.1} ms, while: {what}"));
        stage.bystanders.end();
    });
}

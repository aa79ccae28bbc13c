//! A thousand waits of one client.

use crate::{
    basics::client_of,
    harness::{Cluster, LONG, all, eventually, report, run_exclusive},
    trial,
};
use fairhold_client::{Acquire, Client};
use std::{
    fs,
    time::{Duration, Instant},
};

/// Connections that queued requests and stay open for a while, and a few more.
const SESSION_FILES_MAX: usize = 48;

/// The number of this process's open files, and its resident memory in KiB.
fn cost() -> (usize, u64) {
    let open = fs::read_dir("/proc/self/fd").expect("the list of open files").count();
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    (open, resident.trim().trim_end_matches(" kB").parse().expect("a number"))
}

/// Each wait without a session is a connection, at both ends; this process and its nodes have the same limit.
fn raise_the_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("the limit of open files can be raised");
}

/// Queues waiters for a held lock, then grants it to each of them; returns how many more files were open while they
/// waited.
async fn queue_and_pass_on(what: &str, cluster: &Cluster, client: &Client, waiters: usize, take: impl Fn() -> Acquire) -> usize {
    let holder = take().await.expect("a guard");
    let before = cost();
    let begun = Instant::now();
    let tasks: Vec<_> = (0..waiters)
        .map(|_| {
            let take = take();
            tokio::spawn(async move { take.await.expect("a guard").release().await.expect("released") })
        })
        .collect();
    let watcher = cluster.client(0);
    eventually("all are in the queue", Duration::from_secs(120), || async {
        (watcher.queue("many").await.len() == waiters + 1).then_some(())
    })
    .await;
    let (after, queued) = (cost(), begun.elapsed());
    let open = after.0.saturating_sub(before.0);
    report(&format!(
        "{waiters} waits {what}: {open} more files open, {} KiB more memory, queued in {queued:.1?}",
        after.1.saturating_sub(before.1)
    ));
    let begun = Instant::now();
    holder.release().await.expect("released");
    all(tasks).await;
    report(&format!("{waiters} hand-overs {what} in {:.1?}", begun.elapsed()));
    client.settled().await;
    assert_eq!(watcher.queue("many").await.len(), 0);
    open
}

#[test]
fn many_acquires_of_one_client_wait_together_and_are_granted_one_by_one() {
    let waiters = trial::size(200_usize, 1_000);
    raise_the_limit();
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        queue_and_pass_on("of one client", &cluster, &client, waiters, || client.lock("many")).await;
    });
}

#[test]
fn many_waits_of_one_session_use_few_connections() {
    let waiters = trial::size(200_usize, 1_000);
    raise_the_limit();
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let session = client.session().await.unwrap();
        // As many at a time as connections are wanted: each requests, gets its answer, and waits without a connection.
        let open = queue_and_pass_on("of one session", &cluster, &client, waiters, || session.lock("many")).await;
        assert!(open <= SESSION_FILES_MAX, "{open} files are open");
    });
}

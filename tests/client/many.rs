//! A thousand waits of one client.

use crate::{
    harness::{Cluster, LONG, all, alone, eventually, report},
    trial,
    uses::client_of,
};
use std::{
    fs,
    time::{Duration, Instant},
};

/// What this process has open, and its resident memory in KiB.
fn cost() -> (usize, u64) {
    let open = fs::read_dir("/proc/self/fd").expect("a list of what is open").count();
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    (open, resident.trim().trim_end_matches(" kB").parse().expect("a number"))
}

#[test]
fn many_acquires_of_one_client_wait_at_once_and_are_granted_one_after_the_other() {
    let waiters = trial::size(200_usize, 1_000);
    // Each wait is a connection, at both ends; this process and its nodes have the same limit.
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum,
            ..rustix::process::getrlimit(rustix::process::Resource::Nofile)
        },
    )
    .expect("the limit of open files can be raised");
    alone(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let holder = client.lock("many").await.unwrap();
        let before = cost();
        let tasks: Vec<_> = (0..waiters)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.lock("many").await.unwrap().release().await.unwrap() })
            })
            .collect();
        let watcher = cluster.client(0);
        eventually("all stand in the queue", Duration::from_secs(120), || async {
            (watcher.queue("many").await.len() == waiters + 1).then_some(())
        })
        .await;
        let after = cost();
        report(&format!(
            "{waiters} waits of one client: {} more files open, {} KiB more memory",
            after.0.saturating_sub(before.0),
            after.1.saturating_sub(before.1)
        ));
        let begun = Instant::now();
        holder.release().await.unwrap();
        all(tasks).await;
        report(&format!("{waiters} hand-overs in {:.1?}", begun.elapsed()));
        client.settled().await;
        assert_eq!(watcher.queue("many").await.len(), 0);
    });
}

//! The leader is killed repeatedly while many tasks work under one lock, and none of them notices.

use crate::{
    basics::{client_of, wait_until_free},
    harness::{Cluster, all, eventually, report, run_exclusive},
    trial,
};
use fairhold_client::Error;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const TASKS: usize = 50;
const LOCK: &str = "section";
/// The queue must be empty within this time after the last section.
const LEFT_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Sections {
    begun: AtomicUsize,
    done: AtomicUsize,
    /// The token of the task in the section; 0 if there is none.
    inside: AtomicU64,
    last_token: AtomicU64,
}

async fn work(client: fairhold_client::Client, sections: Arc<Sections>, count: usize) {
    while sections.begun.fetch_add(1, Ordering::SeqCst) < count {
        let shared = Arc::clone(&sections);
        let done: Result<(), Error> = client
            .lock(LOCK)
            .run(|held| async move {
                let token = held.token().expect("it was just granted").0;
                assert_eq!(shared.inside.swap(token, Ordering::SeqCst), 0, "two were inside");
                let before = shared.last_token.swap(token, Ordering::SeqCst);
                assert!(before < token, "token {token} came after {before}");
                tokio::task::yield_now().await;
                assert_eq!(shared.inside.swap(0, Ordering::SeqCst), token, "another task came in");
            })
            .await;
        done.unwrap_or_else(|error| panic!("an error reached a caller without a deadline: {error:?}"));
        sections.done.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn fifty_tasks_never_overlap_fail_or_leave_an_orphan_while_leaders_are_killed() {
    let (count, kills) = trial::size((500, 2), (10_000, 10));
    run_exclusive(trial::size(Duration::from_secs(240), Duration::from_secs(3_600)), async {
        let mut cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let sections = Arc::new(Sections::default());
        let begun = Instant::now();
        let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(work(client.clone(), Arc::clone(&sections), count))).collect();
        for kill in 1..=kills {
            let due = kill * count / (kills + 1);
            eventually("the tasks make progress", Duration::from_secs(180), || async {
                assert!(!tasks.iter().any(|task| task.is_finished() && sections.begun.load(Ordering::SeqCst) < count));
                (sections.done.load(Ordering::SeqCst) >= due).then_some(())
            })
            .await;
            let leader = cluster.leader().await;
            cluster.nodes[leader].kill().await;
            let before = sections.done.load(Ordering::SeqCst);
            eventually("they make progress again", Duration::from_secs(60), || async {
                (sections.done.load(Ordering::SeqCst) >= (before + 5).min(count)).then_some(())
            })
            .await;
            cluster.restart(leader).await;
        }
        all(tasks).await;
        let done = sections.done.load(Ordering::SeqCst);
        report(&format!("{done} sections of {TASKS} tasks, {kills} leaders killed, in {:.1?}", begun.elapsed()));
        assert_eq!(done, count);
        client.settled().await;
        wait_until_free(&cluster, LOCK, LEFT_WITHIN).await;
    });
}

//! All three nodes are replaced one by one, while programs run that were given the first three addresses: a Rust client
//! that holds one lock and takes another again and again, and `fairhold lock`.

use crate::{
    client::{Call, Client as HttpClient},
    harness::{Cluster, LONG, NODES, eventually, pass_time, report, run_exclusive},
    lock_command::fairhold,
    members::{ids, view},
    trial,
};
use fairhold_client::{Client, Error};
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

const LOCK: &str = "section";
const HELD: &str = "held-by-a-client";
const COMMAND: &str = "held-by-a-command";
const TASKS: usize = 4;
/// The `ttl` of the locks that are held throughout.
const TTL: Duration = Duration::from_secs(5);
/// How many sections show that the clients go on.
const BUSY: usize = 20;
const GOES_ON_WITHIN: Duration = Duration::from_secs(60);
/// Clients read who the members are every minute, whatever they hear.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(70);
/// The documented condition: a client hears of a change with its next renewal, and then reads the members.
const HEARD_WITHIN: Duration = Duration::from_millis(TTL.as_secs() * 1_000 / 3 + 2_000);

/// What the sections under one lock show: never two at once, and each token larger than the one before.
#[derive(Debug, Default)]
struct Sections {
    over: AtomicBool,
    done: AtomicUsize,
    inside: AtomicU64,
    last_token: AtomicU64,
}

async fn work(client: Client, sections: Arc<Sections>) {
    while !sections.over.load(Ordering::SeqCst) {
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

/// Waits until the clients have completed some more sections.
async fn wait_until_busy(sections: &Sections, tasks: &[JoinHandle<()>]) {
    let before = sections.done.load(Ordering::SeqCst);
    eventually("the clients go on", GOES_ON_WITHIN, || async {
        assert!(!tasks.iter().any(JoinHandle::is_finished), "a client has ended");
        (sections.done.load(Ordering::SeqCst) >= before + BUSY).then_some(())
    })
    .await;
}

/// The number that is another one after each change of the members.
async fn members_number(client: &HttpClient) -> u64 {
    let shown = client.send(&Call::get("/v1/cluster")).await.expect_status(200);
    let number = shown.header("fairhold-members").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no number: {shown:?}"))
}

#[test]
fn clients_of_the_first_three_nodes_go_on_when_all_three_have_been_replaced() {
    run_exclusive(2 * LONG, async {
        let mut cluster = Cluster::start().await;
        let urls = cluster.nodes.iter().map(|node| node.url.as_str()).collect::<Vec<_>>().join(",");
        let client = Client::new(urls.as_str()).expect("a client");
        let guard = client.lock(HELD).ttl(TTL).await.expect("the lock is free");
        let token = guard.token().expect("it is held");
        let file = cluster.folder().join("token-of-the-command");
        let script = format!("echo $FAIRHOLD_TOKEN > {}; read line; echo done", file.display());
        let mut command = fairhold(&urls, &["--ttl", "5s", COMMAND, "--", "sh", "-c", &script]);
        let mut command = command.stdin(std::process::Stdio::piped()).spawn().expect("fairhold lock starts");
        let of_command = eventually("the command runs", GOES_ON_WITHIN, || async {
            fs::read_to_string(&file).ok()?.trim().parse::<u64>().ok()
        })
        .await;
        let sections = Arc::new(Sections::default());
        let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(work(client.clone(), Arc::clone(&sections)))).collect();
        wait_until_busy(&sections, &tasks).await;

        cluster.expect_elections(2 * NODES, "a leader hands over before it is replaced");
        let number = members_number(&cluster.client(0)).await;
        let mut new = Vec::new();
        let mut joined_at: Option<Instant> = None;
        for index in 0..NODES {
            if let Some(joined_at) = joined_at.filter(|_| index + 1 == NODES) {
                // From the first join until the last node that the client knows ends.
                pass_time(HEARD_WITHIN.saturating_sub(joined_at.elapsed())).await;
            }
            new.push(cluster.replace(index).await);
            joined_at.get_or_insert_with(Instant::now);
            assert!(guard.is_held() && guard.token() == Ok(token), "the client lost its lock");
            assert!(command.try_wait().expect("it can be asked").is_none(), "the command lost its lock");
            if trial::size(false, true) {
                wait_until_busy(&sections, &tasks).await;
                if index + 1 < NODES {
                    pass_time(READ_AGAIN_AFTER).await;
                }
            }
        }
        wait_until_busy(&sections, &tasks).await;
        let now = cluster.client(new[0]);
        assert_eq!(ids(&view(&now).await, "members"), [4, 5, 6], "none of the first three is left");
        assert_ne!(members_number(&now).await, number, "the members have changed");
        assert!(cluster.nodes[..NODES].iter().all(|node| !node.runs()), "their processes have ended");
        // Longer than the ttl, so each lock was renewed at a new node.
        pass_time(2 * TTL).await;
        wait_until_busy(&sections, &tasks).await;
        for (lock, token) in [(HELD, token.0), (COMMAND, of_command)] {
            assert!(now.fence_passes(lock, token).await, "{lock} is still held with token {token}");
        }
        assert!(guard.is_held() && guard.token() == Ok(token));

        sections.over.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.expect("a client works to its end");
        }
        report(&format!("client_follows: {} sections while all nodes were replaced", sections.done.load(Ordering::SeqCst)));
        guard.release().await.expect("it releases");
        drop(command.stdin.take());
        let output = command.wait_with_output().await.expect("it ends");
        assert!(output.status.success(), "{output:?}");
        client.settled().await;
        for lock in [LOCK, HELD, COMMAND] {
            let shown = now.send(&Call::get(&format!("/v1/locks/{lock}"))).await.expect_status(200);
            assert_eq!(shown.json["holders"].as_array().map(Vec::len), Some(0), "{lock}: {shown:?}");
        }
    });
}

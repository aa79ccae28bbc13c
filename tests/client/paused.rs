//! A program that is paused for longer than its ttl finds its guard lost when it resumes, before it can use the token.

use crate::{
    basics::{client_of, urls},
    harness::{Cluster, LONG, SHORT, report, run_exclusive, run_parallel, signal_pid},
    trial,
};
use fairhold_client::{Client, Error};
use rustix::process::Signal;
use std::{
    io::Write as _,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

const TTL: Duration = Duration::from_secs(1);
/// The endpoints for the paused program.
const ENDPOINTS: &str = "FAIRHOLD_TEST_PAUSED_ENDPOINTS";
/// How long the program waits for the instruction to write.
const LIVES_FOR: Duration = Duration::from_secs(60);
/// The interval between two checks of its token, by which it notices that it was paused.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A longer gap between two checks means that the program was paused.
const STOPPED: Duration = Duration::from_millis(1_000);

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "paused: {line}").expect("standard output can be written");
    out.flush().expect("standard output can be written");
}

/// Holds the lock and checks the token until it is paused. Then reports the first result after resuming, and whether a
/// write with its old token succeeded.
async fn hold(endpoints: &str, stopped: Duration) -> (bool, bool) {
    let client = Client::new(endpoints).expect("a client");
    let guard = client.lock("paused").ttl(TTL).await.expect("a lock");
    let token = guard.token().expect("it was just granted");
    let begun = Instant::now();
    let mut last = begun;
    // It may be paused from here on.
    say("held");
    loop {
        let found = guard.token();
        if last.elapsed() >= stopped {
            let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
            // Like a program that checked before the pause, but not after it.
            let url = endpoints.split(',').next().expect("an endpoint");
            let put = http.put(format!("{url}/v1/nodes/paused?parents")).header("fairhold-fence", format!("paused={token}"));
            let status = put.body("late").send().await.expect("an answer").status();
            // The control: the same write without the token.
            let unfenced = http.put(format!("{url}/v1/nodes/unfenced?parents")).body("late").send().await.expect("an answer");
            assert!(unfenced.status().is_success(), "{unfenced:?}");
            return (found.is_ok(), status.is_success());
        }
        assert!(begun.elapsed() < LIVES_FOR, "it was not stopped");
        last = Instant::now();
        assert_eq!(found, Ok(token), "it is held while the program runs");
        crate::harness::pass_time(LOOK_EVERY).await;
    }
}

/// The paused program is this test, in its own process. Without given endpoints, it starts its own cluster, and shows
/// that a holder that is not paused keeps its token and may write with it.
#[test]
fn a_holder_that_is_not_paused_keeps_its_token_and_writes() {
    if let Ok(endpoints) = std::env::var(ENDPOINTS) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (believed, wrote) = runtime.block_on(hold(&endpoints, STOPPED));
        say(&format!("woke believed={believed} wrote={wrote}"));
        return;
    }
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        assert_eq!(hold(&urls(&cluster), Duration::ZERO).await, (true, true));
    });
}

/// Pauses a holder in its own process until another client has its lock and has written; returns its report after
/// resuming, and whether its late write without a token overwrote the other one.
async fn stop_and_wake(cluster: &Cluster) -> (String, bool) {
    let me = std::env::current_exe().expect("this program has a file");
    let mut child = Command::new(me)
        .args(["--exact", "paused::a_holder_that_is_not_paused_keeps_its_token_and_writes", "--nocapture"])
        .env(ENDPOINTS, urls(cluster))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("this program starts again");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = async || loop {
        let line = lines.next_line().await.expect("it can be read").expect("it says more");
        if let Some((_, printed)) = line.split_once("paused: ") {
            return printed.to_owned();
        }
    };
    assert_eq!(next().await, "held");
    let pid = child.id().expect("it runs");
    signal_pid(pid, Signal::STOP);
    let client = client_of(cluster);
    let granted = client.lock("paused").ttl(Duration::from_secs(30)).await;
    client.nodes().put("/unfenced", "by the next one").await.expect("it is written");
    let begun = Instant::now();
    // Paused for longer than its ttl in any case, even if another client got the lock at the end of the ttl.
    while begun.elapsed() < STOPPED / 2 {
        crate::harness::pass_time(LOOK_EVERY).await;
    }
    signal_pid(pid, Signal::CONT);
    let printed = next().await;
    drop::<Result<_, Error>>(granted);
    assert!(child.wait().await.expect("it can be waited for").success());
    let control = client.nodes().get("/unfenced").await.expect("an answer").expect("it is there");
    (printed, control.bytes == b"late")
}

#[test]
fn a_program_paused_beyond_its_ttl_resumes_without_its_lock_and_its_late_write_is_refused() {
    let times = trial::size(2, 100);
    run_exclusive(trial::size(LONG, LONG * 10), async {
        let cluster = Cluster::start().await;
        let mut wrong = 0;
        for _ in 0..times {
            let (printed, went_wrong) = stop_and_wake(&cluster).await;
            assert_eq!(printed, "woke believed=false wrote=false");
            wrong += usize::from(went_wrong);
        }
        report(&format!(
            "stopped {times} times beyond its ttl: never believed, never wrote; the unfenced control went wrong {wrong} times"
        ));
        assert!(wrong > 0, "the control never goes wrong, so this test proves nothing");
    });
}

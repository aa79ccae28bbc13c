//! Honest clients next to expensive operations: how long each of them waits, from start to end.

use crate::{
    client::{Call, Client, Session},
    harness::{LONG, eventually, pass_time},
};
use futures_util::future::join_all;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// The pause between two rounds of a client.
const THINK: Duration = Duration::from_millis(4);
/// Rounds that each client must complete after an operation before the measurement ends.
const ROUNDS_AFTER: usize = 10;

/// What a client does repeatedly.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Lock,
    Read,
    Keepalive,
    /// Sends no request: its lateness is the machine's.
    Timer,
}

/// A client: its kind, the index of its node in the given list, and its label.
const CLIENTS: [(Kind, usize, &str); 7] = [
    (Kind::Lock, 0, "lock, leader"),
    (Kind::Lock, 1, "lock, follower"),
    (Kind::Read, 0, "read, leader"),
    (Kind::Read, 1, "read, follower"),
    (Kind::Keepalive, 0, "keepalive, leader"),
    (Kind::Keepalive, 1, "keepalive, follower"),
    (Kind::Timer, 0, "a timer of 4 ms"),
];

/// One round of a client.
#[derive(Debug, Clone, Copy)]
struct Round {
    client: usize,
    begun: Instant,
    took: Duration,
}

#[derive(Debug, Default)]
struct Seen {
    stop: AtomicBool,
    rounds: Mutex<Vec<Round>>,
    counts: [AtomicUsize; CLIENTS.len()],
}

/// The rounds of each client, from the fastest to the slowest, and the start of the measurement.
#[derive(Debug)]
pub(super) struct Waits {
    since: Instant,
    of_each: [Vec<Round>; CLIENTS.len()],
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn longest(rounds: &[Round]) -> Round {
    rounds[rounds.len() - 1]
}

impl Waits {
    pub(super) fn count(&self) -> usize {
        self.of_each.iter().map(Vec::len).sum()
    }

    /// By how much the longest wait of any client exceeds its own longest wait in `rest`, in milliseconds, and which
    /// client that is.
    pub(super) fn longer_than(&self, rest: &Waits) -> (f64, String) {
        let more = |(now, rest): (&Vec<Round>, &Vec<Round>)| millis(longest(now).took) - millis(longest(rest).took);
        let each = self.of_each.iter().zip(&rest.of_each).map(more).enumerate();
        let asking = each.filter(|(client, _)| !matches!(CLIENTS[*client].0, Kind::Timer));
        let (client, most) = asking.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are clients");
        let after = longest(&self.of_each[client]).begun.saturating_duration_since(self.since);
        (most, format!("{}, {after:.1?} after the start", CLIENTS[client].2))
    }

    /// The columns of a table: for each client, the 99th percentile of the waits and the longest.
    pub(super) fn columns(&self) -> String {
        let column = |rounds: &Vec<Round>| {
            format!("{:.1} / {:.1}", millis(rounds[rounds.len() * 99 / 100].took), millis(longest(rounds).took))
        };
        self.of_each.iter().map(column).collect::<Vec<_>>().join(" | ")
    }

    /// The headings of the columns.
    pub(super) fn heads() -> String {
        CLIENTS.map(|(_, _, name)| name).join(" | ")
    }
}

/// The clients, on their own thread, so that they wait for the nodes and not for other work of this process.
#[derive(Debug)]
pub(super) struct Bystanders {
    seen: Arc<Seen>,
    thread: thread::JoinHandle<()>,
}

impl Bystanders {
    /// Starts clients of these two nodes: a leader and a follower.
    pub(super) fn start(urls: Vec<String>, nodes: [usize; 2]) -> Bystanders {
        let seen = Arc::new(Seen::default());
        let thread = thread::spawn({
            let seen = seen.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    let client = Client::new(urls);
                    let stand_by = |number| stand_by(number, client.beginning_with(nodes[CLIENTS[number].1]), &seen);
                    join_all((0..CLIENTS.len()).map(stand_by)).await;
                });
            }
        });
        Bystanders { seen, thread }
    }

    /// Waits until each client has completed some more rounds.
    pub(super) async fn wait_for_progress(&self) {
        let counts = || CLIENTS.iter().enumerate().map(|(client, _)| self.seen.counts[client].load(Relaxed));
        let enough: Vec<usize> = counts().map(|count| count + ROUNDS_AFTER).collect();
        eventually("each client makes progress", LONG, || async {
            assert!(!self.thread.is_finished(), "a client failed: see above");
            counts().zip(&enough).all(|(count, enough)| count >= *enough).then_some(())
        })
        .await;
    }

    /// The rounds that overlap this period.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Waits {
        let rounds = self.seen.rounds.lock().expect("the mutex is not poisoned");
        let mut of_each: [Vec<Round>; CLIENTS.len()] = Default::default();
        for round in rounds.iter().filter(|round| round.begun < to && round.begun + round.took > from) {
            of_each[round.client].push(*round);
        }
        drop(rounds);
        of_each.iter_mut().for_each(|rounds| rounds.sort_unstable_by_key(|round| round.took));
        assert!(of_each.iter().all(|rounds| rounds.len() >= ROUNDS_AFTER), "each client made progress");
        Waits { since: from, of_each }
    }

    /// Stops the clients; panics if one has failed.
    pub(super) fn end(self) {
        self.seen.stop.store(true, Relaxed);
        self.thread.join().expect("no client failed");
    }
}

async fn stand_by(number: usize, client: Client, seen: &Seen) {
    let (kind, node, _) = CLIENTS[number];
    let session = client.open_session("30s", "bystander").await;
    client.write(&Call::put(&format!("/v1/nodes/bystander-{node}"), "news")).await;
    while !seen.stop.load(Relaxed) {
        let begun = Instant::now();
        round(kind, node, &client, &session).await;
        let took = begun.elapsed();
        seen.rounds.lock().expect("the mutex is not poisoned").push(Round { client: number, begun, took });
        seen.counts[number].fetch_add(1, Relaxed);
        pass_time(THINK).await;
    }
}

/// Sends each call once, and expects success.
async fn round(kind: Kind, node: usize, client: &Client, session: &Session) {
    match kind {
        Kind::Lock => {
            let granted = client.once(&Call::post(&format!("/v1/locks/bystander-{node}"))).await.expect_status(200);
            client.once(&Call::delete(&format!("/v1/grants/{}", granted.string("id")))).await.expect_status(204);
        }
        Kind::Read => {
            let read = client.once(&Call::get(&format!("/v1/nodes/bystander-{node}"))).await.expect_status(200);
            assert_eq!(read.text, "news");
        }
        Kind::Keepalive => {
            client.once(&Call::post(&format!("/v1/sessions/{}/keepalive", session.id))).await.expect_status(200);
        }
        Kind::Timer => pass_time(THINK).await,
    }
}

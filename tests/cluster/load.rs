//! The shared state of concurrent clients: when they succeeded, who holds the lock, and when they must stop.

use crate::{
    client::{Call, Client},
    fairness::Room,
    harness::eventually,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// Concurrent clients; all clones are the same load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    over: Arc<AtomicBool>,
    successes: Arc<Mutex<Vec<Instant>>>,
    grants: Arc<AtomicUsize>,
    /// Streams whose server sent them elsewhere.
    pub(crate) goaways: Arc<AtomicUsize>,
    /// The holder of the one lock.
    pub(crate) room: Room,
}

impl Load {
    /// Stops the clients after their current operations.
    pub(crate) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    pub(crate) fn succeeded(&self) {
        self.successes.lock().expect("no holder panics").push(Instant::now());
    }

    /// Records a grant, which is a success too.
    pub(crate) fn granted(&self) {
        self.grants.fetch_add(1, SeqCst);
        self.succeeded();
    }

    pub(crate) fn count(&self) -> usize {
        self.successes.lock().expect("no holder panics").len()
    }

    /// Waits until this many more operations have succeeded, including grants: the cluster works again.
    pub(crate) async fn wait_until_busy(&self, operations: usize, grants: usize) {
        let now = || (self.count(), self.grants.load(SeqCst));
        let before = now();
        eventually("the clients are at work", Duration::from_secs(60), || async {
            (now().0 >= before.0 + operations && now().1 >= before.1 + grants).then_some(())
        })
        .await;
    }

    /// The longest time without a success that ended between the two moments.
    pub(crate) fn longest_silence(&self, from: Instant, to: Instant) -> Duration {
        let mut moments = self.successes.lock().expect("no holder panics").clone();
        moments.sort();
        let gaps = moments.windows(2).filter(|pair| pair[1] >= from && pair[1] <= to);
        gaps.map(|pair| pair[1] - pair[0]).max().expect("operations keep succeeding")
    }
}

/// The count of a counter that is written under a lock, and the token of its last write.
pub(crate) async fn read_counter(client: &Client, counter: &str) -> (u64, u64) {
    let text = client.value(counter).await;
    let (count, token) = text.split_once(' ').expect("a count and a token");
    (count.parse().expect("a count"), token.parse().expect("a token"))
}

/// Increments the counter under the lock, by a fenced write.
pub(crate) async fn count_up(client: &Client, counter: &str, lock: &str, token: u64) {
    let (count, last) = read_counter(client, counter).await;
    assert!(last < token, "the counter was written with token {last}, but {token} was granted after it");
    let write = Call::put(&format!("/v1/nodes/{counter}"), format!("{} {token}", count + 1));
    client.write(&write.fenced(lock, token)).await;
}

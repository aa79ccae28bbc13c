//! A dropped future leaves no grant or waiter behind, wherever it is dropped.

use crate::{
    basics::{client_of, wait_until_free},
    harness::{Cluster, LONG, report, run_exclusive},
};
use fairhold_client::{Client, Error, Guard};
use futures_util::future::BoxFuture;
use rustix::process::Signal;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

const TTL: Duration = Duration::from_secs(5);
/// A dropped waiter must leave the queue within this time.
const LEFT_WITHIN: Duration = Duration::from_secs(5);
/// A future that is not ready after this many polls never will be.
const POLLS_MAX: usize = 200;

/// Polls at most this many times, and waits between two polls until it is woken.
struct Polled<'a, T> {
    future: &'a mut BoxFuture<'static, T>,
    left: usize,
}

impl<T> Future for Polled<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Drops the future of `make` after 0, 1, 2, … polls, until it completes earlier; returns how many polls that took.
async fn at_every_point<P, T>(
    what: &str,
    mut prepare: impl AsyncFnMut() -> P,
    make: impl Fn(P) -> BoxFuture<'static, T>,
    mut after: impl AsyncFnMut(),
) -> usize {
    for polls in 0..POLLS_MAX {
        let mut future = make(prepare().await);
        let done = Polled { future: &mut future, left: polls }.await.is_some();
        drop(future);
        after().await;
        if done {
            return polls;
        }
    }
    panic!("{what} was not done after {POLLS_MAX} polls");
}

/// Waits until the dropped future has left no trace.
async fn left(cluster: &Cluster, client: &Client, lock: &str) {
    client.settled().await;
    wait_until_free(cluster, lock, LEFT_WITHIN).await;
}

async fn acquires(cluster: &Cluster, client: &Client, lock: &'static str) -> usize {
    let make = |()| client.lock(lock).ttl(TTL).into_future();
    at_every_point("an acquire", async || (), make, async || left(cluster, client, lock).await).await
}

#[test]
fn an_acquire_a_wait_and_a_release_dropped_at_every_point_leave_no_orphan() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let free = acquires(&cluster, &client, "free").await;

        let of_session = {
            let session = client.session().ttl(TTL).await.unwrap();
            let make = |()| session.lock("of-session").into_future();
            at_every_point("an acquire of a session", async || (), make, async || left(&cluster, &client, "of-session").await)
                .await
        };

        let release = at_every_point(
            "a release",
            async || client.lock("released").ttl(TTL).await.unwrap(),
            |guard: Guard| -> BoxFuture<'static, Result<(), Error>> { Box::pin(guard.release()) },
            async || left(&cluster, &client, "released").await,
        )
        .await;
        report(&format!("dropped after every poll: acquire {free}, acquire of a session {of_session}, release {release}"));
        assert!(free >= 1 && of_session >= 1 && release >= 1, "they wait at least once");
    });
}

#[test]
fn a_waiter_dropped_at_every_point_leaves_no_orphan_and_does_not_disturb_the_holder() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let holder = client.lock("held").await.unwrap();
        let session = client.session().ttl(TTL).await.unwrap();
        // It never completes while the lock is held: dropped after each of the first polls, which cover sending,
        // waiting and the first polls of the node.
        for (polls, of_session) in (0..8).flat_map(|polls| [(polls, false), (polls, true)]) {
            let acquire = if of_session { session.lock("held") } else { client.lock("held").ttl(TTL) };
            let mut future = acquire.into_future();
            let waiting = Polled { future: &mut future, left: polls };
            // A waiter without events is not polled: then it is dropped while it waits.
            let polled = tokio::time::timeout(TTL / 3, waiting).await;
            assert!(!matches!(polled, Ok(Some(_))), "it is held by another");
            drop(future);
            client.settled().await;
            let queue = cluster.client(0).queue("held").await;
            assert_eq!(queue.len(), 1, "after {polls} polls: {queue:?}");
        }
        assert!(holder.is_held());
        holder.release().await.unwrap();
    });
}

#[test]
fn an_acquire_dropped_at_every_point_while_its_node_is_paused_leaves_no_orphan() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let [sleeps, other] = cluster.followers().await;
        // It starts with the paused node about every second time.
        let client = Client::builder().endpoint(&cluster.nodes[sleeps].url).endpoint(&cluster.nodes[other].url);
        let client = client.discover(false).build().unwrap();
        let session = client.session().ttl(TTL).await.unwrap();
        let mut dropped = 0;
        for (polls, of_session) in (0..10).flat_map(|polls| [(polls, false), (polls, true)]) {
            cluster.nodes[sleeps].signal(Signal::STOP);
            let acquire = if of_session { session.lock("sleepy") } else { client.lock("sleepy").ttl(TTL) };
            let mut future = acquire.into_future();
            let done = Polled { future: &mut future, left: polls }.await;
            drop(future);
            dropped += usize::from(done.is_none());
            drop(done);
            client.settled().await;
            cluster.nodes[sleeps].signal(Signal::CONT);
            // The paused node now reads the requests that it had not read yet.
            crate::harness::pass_time(Duration::from_millis(300)).await;
            wait_until_free(&cluster, "sleepy", LEFT_WITHIN).await;
        }
        report(&format!("dropped {dropped} times of 20 while its node slept"));
        assert!(dropped >= 2, "it was hardly ever dropped in time");
    });
}

#[test]
fn a_guard_dropped_while_its_renewal_or_release_hangs_at_a_paused_node_is_released() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let [sleeps, other] = cluster.followers().await;
        let client = Client::builder().endpoint(&cluster.nodes[sleeps].url).endpoint(&cluster.nodes[other].url);
        let client = client.discover(false).build().unwrap();
        let ttl = Duration::from_secs(2);
        for round in 0..8_u32 {
            let guard = client.lock("dozing").ttl(ttl).await.unwrap();
            cluster.nodes[sleeps].signal(Signal::STOP);
            // Spread over the time in which the first renewal is sent and hangs, or goes to the other node.
            crate::harness::pass_time(ttl / 4 + ttl * round / 24).await;
            assert!(guard.is_held(), "one node is enough to renew at");
            if round % 2 == 0 {
                drop(guard);
            } else {
                let mut release: BoxFuture<'static, Result<(), Error>> = Box::pin(guard.release());
                drop(Polled { future: &mut release, left: 1 }.await);
            }
            client.settled().await;
            empty_at(&cluster, other, "dozing").await;
            cluster.nodes[sleeps].signal(Signal::CONT);
            crate::harness::pass_time(Duration::from_millis(300)).await;
            wait_until_free(&cluster, "dozing", LEFT_WITHIN).await;
        }
    });
}

/// Waits until a lock has no contender, as a running node sees it.
async fn empty_at(cluster: &Cluster, node: usize, lock: &str) {
    let (client, call) = (cluster.client(node), crate::client::Call::get(&format!("/v1/locks/{lock}/queue")));
    crate::harness::eventually("it has no contender", LEFT_WITHIN, || async {
        let answer = client.send_to(node, &call).await.ok().filter(|answer| answer.status == 200)?;
        answer.json["items"].as_array().is_some_and(Vec::is_empty).then_some(())
    })
    .await;
}

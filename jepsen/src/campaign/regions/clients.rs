//! The clients: a few in each region, each of which talks only to the machine of its region.

use super::{
    figures::{Failure, Figures, Measure},
    map::{LEARNER, Profile, VOTERS},
};
use crate::{
    history::Outcome,
    http::{Http, Reply, Request},
    new_key,
};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// The time limit of a call.
const WORK: Duration = Duration::from_secs(10);
/// How long a waiter waits for a lock.
const WAIT: Duration = Duration::from_secs(30);
/// The pause of a client between two rounds of calls.
const PAUSE: Duration = Duration::from_millis(250);
/// How often a client renews a session in one `ttl`.
const RENEWALS: u32 = 3;
/// The lock that clients of all regions share.
const SHARED_LOCK: &str = "shared";

/// A session that ended although its client sent keepalives.
#[derive(Debug, Clone)]
pub(super) struct LostSession {
    pub(super) machine: usize,
    pub(super) at: Instant,
    /// How long before that its client sent the last keepalive that was acknowledged.
    pub(super) unrenewed: Duration,
}

/// A client at one machine.
#[derive(Debug, Clone)]
pub(super) struct RegionClient {
    pub(super) http: Http,
    pub(super) profile: Profile,
    pub(super) figures: Arc<Figures>,
    pub(super) lost: Arc<Mutex<Vec<LostSession>>>,
    pub(super) machine: usize,
}

impl RegionClient {
    fn at(&self, machine: usize) -> RegionClient {
        RegionClient { machine, ..self.clone() }
    }

    /// Starts the clients of all regions. The leader is at this machine.
    pub(super) fn start_load(&self, leader: usize) -> JoinSet<()> {
        let mut load = JoinSet::new();
        for machine in 1..=LEARNER {
            load.spawn(self.at(machine).write_and_read());
        }
        for machine in 1..=VOTERS {
            load.spawn(self.at(machine).acquire_and_release());
        }
        load.spawn(self.clone().hand_over());
        load.spawn(self.at(leader).show_writes());
        load
    }

    /// Starts a session in the region of each voter.
    pub(super) fn start_sessions(&self) -> JoinSet<()> {
        let mut sessions = JoinSet::new();
        for machine in 1..=VOTERS {
            sessions.spawn(self.at(machine).keep_session());
        }
        sessions
    }

    /// Sends a request. A failure is recorded.
    async fn ask(&self, name: &str, request: Request) -> Option<(Reply, Duration)> {
        let sent = Instant::now();
        let reply = self.http.ask(self.machine, &request).await;
        if reply.outcome == Outcome::Ok {
            return Some((reply, sent.elapsed()));
        }
        let error = reply.error.unwrap_or_default();
        let what = format!("{} in {}: {error} after {:.1?}", name, self.profile.region(self.machine), sent.elapsed());
        self.figures.add_failure(Failure { sent, answered: Instant::now(), what });
        None
    }

    /// The same, measured.
    async fn measure(&self, name: &str, measure: Measure, request: Request) -> Option<Reply> {
        let (reply, took) = self.ask(name, request).await?;
        self.figures.add(self.machine, measure, took);
        Some(reply)
    }

    /// Makes all calls in all regions this many times, one after the other.
    pub(super) async fn call_one_by_one(&self, leader: usize, rounds: u32) {
        for _ in 0..rounds {
            for machine in 1..=LEARNER {
                let client = self.at(machine);
                client.write_and_read_once().await;
                self.at(leader).show_write_once(machine).await;
                if machine <= VOTERS {
                    client.acquire_and_release_once().await;
                    self.at(machine % VOTERS + 1).hand_over_once(machine).await;
                }
            }
        }
    }

    async fn write_and_read(self) {
        loop {
            self.write_and_read_once().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn write_and_read_once(&self) {
        let path = format!("/v1/nodes/regions/{}", self.machine);
        let write = Request::put(format!("{path}?parents"), &new_key(), new_key()).within(WORK, Duration::ZERO);
        self.measure("a write", Measure::Write, write).await;
        let read = Request::get(&path).within(WORK, Duration::ZERO);
        self.measure("a linearizable read", Measure::LinearizableRead, read).await;
        let read = Request::get(format!("{path}?consistency=local")).within(WORK, Duration::ZERO);
        self.measure("a local read", Measure::LocalRead, read).await;
    }

    async fn acquire_and_release(self) {
        loop {
            self.acquire_and_release_once().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn acquire_and_release_once(&self) {
        let id = new_key();
        let acquire = self.acquire_request(&format!("of-{}", self.machine), &id, Duration::ZERO);
        self.measure("an acquire", Measure::Acquire, acquire).await;
        self.ask("a release", release_request(&id)).await;
    }

    fn acquire_request(&self, lock: &str, id: &str, wait: Duration) -> Request {
        let (ttl, wait_ms) = (self.profile.ttl().as_millis(), wait.as_millis());
        Request::post(format!("/v1/locks/{lock}?ttl={ttl}ms&wait={wait_ms}ms"), id).within(WORK, wait)
    }

    /// Hands a lock from region to region, in all pairs.
    async fn hand_over(self) {
        let pairs = || (1..=VOTERS).flat_map(|from| (1..=VOTERS).map(move |to| (from, to))).filter(|(from, to)| from != to);
        for (from, to) in std::iter::repeat_with(pairs).flatten() {
            self.at(from).hand_over_once(to).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Hands the shared lock to a client in another region.
    async fn hand_over_once(&self, to: usize) {
        let (waiter, held, queued) = (self.at(to), new_key(), new_key());
        if self.ask("an acquire", self.acquire_request(SHARED_LOCK, &held, WAIT)).await.is_some() {
            let acquire = waiter.acquire_request(SHARED_LOCK, &queued, WAIT);
            let waits = async { (waiter.ask("a waiting acquire", acquire).await.is_some(), Instant::now()) };
            let ((has_it, answered), released) = tokio::join!(waits, self.release_to_waiter(&held));
            if let (true, Some(released)) = (has_it, released) {
                self.figures.add(to, Measure::HandOver, answered.saturating_duration_since(released));
            }
        }
        waiter.ask("a release", release_request(&queued)).await;
    }

    /// Releases the shared lock once another client is in its queue. Returns when it sent the release; `None` if the
    /// release failed.
    async fn release_to_waiter(&self, held: &str) -> Option<Instant> {
        loop {
            let queue = Request::get(format!("/v1/locks/{SHARED_LOCK}/queue")).within(WORK, Duration::ZERO);
            let (queue, _) = self.ask("a read of the queue", queue).await?;
            if queue.json["queue_length"].as_u64().is_some_and(|length| length > 0) {
                break;
            }
            tokio::time::sleep(PAUSE / 10).await;
        }
        let sent = Instant::now();
        self.ask("a release", release_request(held)).await.map(|_| sent)
    }

    async fn show_writes(self) {
        for machine in (1..=LEARNER).cycle() {
            self.show_write_once(machine).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes here, and reads at another machine as soon as the write is acknowledged.
    async fn show_write_once(&self, machine: usize) {
        let write = Request::put("/v1/nodes/regions/shown?parents", &new_key(), new_key()).within(WORK, Duration::ZERO);
        if let Some(revision) = self.ask("a write", write).await.and_then(|(reply, _)| reply.revision()) {
            let read = Request::get("/v1/nodes/regions/shown?consistency=local").within(WORK, Duration::ZERO);
            let read = read.header("fairhold-min-revision", revision.to_string());
            self.at(machine).measure("a local read of a revision", Measure::Visible, read).await;
        }
    }

    /// Keeps a session alive as long as possible, and then opens another one.
    async fn keep_session(self) {
        let (ttl, limit) = (self.profile.ttl(), self.profile.ttl() / RENEWALS);
        loop {
            let mut renewed = Instant::now();
            let open = Request::post(format!("/v1/sessions?ttl={}ms", ttl.as_millis()), &new_key()).within(WORK, Duration::ZERO);
            let opened = self.ask("the opening of a session", open).await;
            let Some(id) = opened.and_then(|(reply, _)| reply.json["id"].as_str().map(str::to_owned)) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            tokio::time::sleep(limit).await;
            loop {
                let sent = Instant::now();
                let keepalive = Request::post(format!("/v1/sessions/{id}/keepalive"), &new_key()).within(limit, Duration::ZERO);
                let reply = self.http.ask(self.machine, &keepalive).await;
                if reply.outcome == Outcome::Ok {
                    self.figures.add(self.machine, Measure::Keepalive, sent.elapsed());
                    renewed = sent;
                    tokio::time::sleep(limit).await;
                } else if matches!(reply.status, 404 | 410) {
                    let lost = LostSession { machine: self.machine, at: Instant::now(), unrenewed: renewed.elapsed() };
                    self.lost.lock().push(lost);
                    break;
                } else {
                    let (region, error) = (self.profile.region(self.machine), reply.error.unwrap_or_default());
                    let what = format!("a keepalive in {region}: {error} after {:.1?}", sent.elapsed());
                    self.figures.add_failure(Failure { sent, answered: Instant::now(), what });
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn release_request(id: &str) -> Request {
    Request::delete(format!("/v1/grants/{id}")).within(WORK, Duration::ZERO)
}

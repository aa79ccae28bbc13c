//! Polls the cluster once a second: every node for its own state, and the best node that answers for the locks and a
//! queue.

use crate::{
    probe::{ClusterProbe, Row},
    remote::{Api, ApiRequest, Failure, request::encode},
};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::{sync::watch, time::sleep};

/// The polling interval.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long a node may take to answer. A slower node is shown as not answering.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The most locks on the screen.
const LOCKS_MAX: usize = 50;
/// The most entries of the selected lock's queue.
const QUEUE_MAX: usize = 100;

/// The last result.
#[derive(Debug, Clone, Default)]
pub(super) struct TopFrame {
    /// The cluster in one sentence; empty before the first result.
    pub(super) summary: String,
    /// The members, with their own answers.
    pub(super) nodes: Vec<Row>,
    /// The locks with the longest waits.
    pub(super) locks: Vec<Value>,
    /// The lock whose queue is shown.
    pub(super) queue_of: Option<String>,
    /// That queue, holders first.
    pub(super) queue: Vec<Value>,
    /// The time of the locks and the queue; none before the first answer.
    pub(super) seen: Option<Instant>,
    /// Why the last attempt failed.
    pub(super) error: Option<String>,
}

/// Polls the cluster.
#[derive(Debug)]
pub(super) struct Poller {
    api: Api,
    /// The given endpoints, and the members that they list: any of them may be down.
    urls: Vec<String>,
    frame: TopFrame,
}

impl Poller {
    pub(super) fn new(api: Api, urls: &[String]) -> Poller {
        Poller { api: api.for_screen(ANSWER_WITHIN), urls: urls.to_vec(), frame: TopFrame::default() }
    }

    /// Publishes results until the receiver is gone. Polls at once when the selection changes.
    pub(super) async fn run(mut self, publish: watch::Sender<TopFrame>, mut selection: watch::Receiver<Option<String>>) {
        while !publish.is_closed() {
            let started = Instant::now();
            let selected = selection.borrow_and_update().clone();
            self.poll_nodes().await;
            publish.send_replace(self.frame.clone());
            let found = self.poll_locks(selected).await;
            self.frame.error = found.err().map(|failure| failure.to_string());
            publish.send_replace(self.frame.clone());
            tokio::select! {
                () = sleep(POLL_EVERY.saturating_sub(started.elapsed())) => {}
                Ok(()) = selection.changed() => {}
            }
        }
    }

    async fn poll_nodes(&mut self) {
        let seen = ClusterProbe::brief(&self.urls, ANSWER_WITHIN).await;
        let best = seen.best_urls();
        if best.is_empty() {
            let why = |row: &mut Row| row.role = Err("no answer".to_owned());
            self.frame.nodes.iter_mut().for_each(why);
            self.frame.summary = "no node answers".to_owned();
            return;
        }
        self.frame.nodes = seen.member_rows();
        self.frame.summary = seen.summary();
        for row in &self.frame.nodes {
            if !self.urls.contains(&row.url) {
                self.urls.push(row.url.clone());
            }
        }
        self.api = self.api.at(best);
    }

    /// Keeps the earlier result unless all requests succeed.
    async fn poll_locks(&mut self, selected: Option<String>) -> Result<(), Failure> {
        let request = ApiRequest::get(format!("/v1/locks?sort=longest_wait&consistency=local&limit={LOCKS_MAX}"));
        let listed: Value = self.api.call(&request).await?.read()?;
        let mut locks = listed["items"].as_array().cloned().unwrap_or_default();
        // An idle lock without waiters is of no interest here.
        locks.retain(|lock| lock["state"] != "idle" || lock["queue_length"] != 0);
        let name = selected.or_else(|| locks.first().and_then(|lock| lock["lock"].as_str()).map(str::to_owned));
        let queue: Value = match &name {
            Some(name) => {
                let path = format!("/v1/locks/{}/queue?consistency=local&limit={QUEUE_MAX}", encode(name));
                self.api.call(&ApiRequest::get(path)).await?.read()?
            }
            None => Value::Null,
        };
        let queue = queue["items"].as_array().cloned().unwrap_or_default();
        self.frame.locks = locks;
        (self.frame.queue_of, self.frame.queue, self.frame.seen) = (name, queue, Some(Instant::now()));
        Ok(())
    }
}

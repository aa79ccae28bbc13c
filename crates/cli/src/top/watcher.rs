//! Polls the cluster once a second: every node for its own state, and the best node that answers for the locks and a queue.

use crate::{
    look::{ClusterLook, Row},
    remote::{Api, ApiRequest, Failure, request::encode},
};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::{sync::watch, time::sleep};

/// The polling interval.
const LOOK_EVERY: Duration = Duration::from_secs(1);
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
    pub(super) trouble: Option<String>,
}

/// Polls the cluster.
#[derive(Debug)]
pub(super) struct Watcher {
    api: Api,
    /// The given endpoints, and the members that they list: any of them may be down.
    urls: Vec<String>,
    look: TopFrame,
}

impl Watcher {
    pub(super) fn new(api: Api, urls: &[String]) -> Watcher {
        Watcher { api: api.for_screen(ANSWER_WITHIN), urls: urls.to_vec(), look: TopFrame::default() }
    }

    /// Publishes results until the receiver is gone. Polls at once when the selection changes.
    pub(super) async fn run(mut self, tell: watch::Sender<TopFrame>, mut choice: watch::Receiver<Option<String>>) {
        while !tell.is_closed() {
            let begun = Instant::now();
            let chosen = choice.borrow_and_update().clone();
            self.look_at_nodes().await;
            tell.send_replace(self.look.clone());
            let found = self.look_at_locks(chosen).await;
            self.look.trouble = found.err().map(|failure| failure.to_string());
            tell.send_replace(self.look.clone());
            tokio::select! {
                () = sleep(LOOK_EVERY.saturating_sub(begun.elapsed())) => {}
                Ok(()) = choice.changed() => {}
            }
        }
    }

    async fn look_at_nodes(&mut self) {
        let seen = ClusterLook::glance(&self.urls, ANSWER_WITHIN).await;
        let best = seen.best_urls();
        if best.is_empty() {
            let why = |row: &mut Row| row.role = Err("no answer".to_owned());
            self.look.nodes.iter_mut().for_each(why);
            self.look.summary = "no node answers".to_owned();
            return;
        }
        self.look.nodes = seen.roster();
        self.look.summary = seen.summary();
        for row in &self.look.nodes {
            if !self.urls.contains(&row.url) {
                self.urls.push(row.url.clone());
            }
        }
        self.api = self.api.at(best);
    }

    /// Keeps the earlier result unless all requests succeed.
    async fn look_at_locks(&mut self, chosen: Option<String>) -> Result<(), Failure> {
        let request = ApiRequest::get(format!("/v1/locks?sort=longest_wait&consistency=local&limit={LOCKS_MAX}"));
        let listed: Value = self.api.call(&request).await?.read()?;
        let mut locks = listed["items"].as_array().cloned().unwrap_or_default();
        // An idle lock without waiters is of no interest here.
        locks.retain(|lock| lock["state"] != "idle" || lock["queue_length"] != 0);
        let name = chosen.or_else(|| locks.first().and_then(|lock| lock["lock"].as_str()).map(str::to_owned));
        let queue: Value = match &name {
            Some(name) => {
                let path = format!("/v1/locks/{}/queue?consistency=local&limit={QUEUE_MAX}", encode(name));
                self.api.call(&ApiRequest::get(path)).await?.read()?
            }
            None => Value::Null,
        };
        let queue = queue["items"].as_array().cloned().unwrap_or_default();
        self.look.locks = locks;
        (self.look.queue_of, self.look.queue, self.look.seen) = (name, queue, Some(Instant::now()));
        Ok(())
    }
}

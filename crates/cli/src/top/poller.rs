//! Polls the cluster once a second: every node for its own state, and the best node that answers for the joins, the locks
//! and a queue.
//!
//! The screen may stay open for longer than the given nodes exist. So each poll learns the members anew, and the next one
//! asks them too.

use crate::{
    local_http::probe_client,
    probe,
    remote::{Api, ApiRequest, ConnectArgs, Failure, request::encode},
};
use fairhold_health::cluster_probe::{ProbedMember, normalized_url};
use fairhold_types::dto::{Join, JoinPhase, Members};
use reqwest::Client;
use serde_json::Value;
use std::{
    fs,
    time::{Duration, Instant, SystemTime},
};
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
    /// The members, with their own answers, then the nodes that are joining.
    pub(super) nodes: Vec<ProbedMember>,
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
    client: Client,
    connect: ConnectArgs,
    /// The age of the token file whose token `client` shows.
    token_written: Option<SystemTime>,
    /// The given endpoints.
    given: Vec<String>,
    /// The members of the last result: all given nodes may have been replaced.
    learned: Vec<String>,
    frame: TopFrame,
}

impl Poller {
    pub(super) fn new(api: Api, connect: &ConnectArgs) -> Result<Poller, Failure> {
        Ok(Poller {
            api: api.for_screen(ANSWER_WITHIN),
            token_written: written(connect),
            client: probe_client(connect, ANSWER_WITHIN)?,
            connect: connect.clone(),
            given: connect.endpoint.iter().map(|url| normalized_url(url)).collect(),
            learned: Vec::new(),
            frame: TopFrame::default(),
        })
    }

    /// Shows the token that its file has by now. A file without one changes nothing.
    fn follow_token_file(&mut self) {
        let written = written(&self.connect);
        if written != self.token_written
            && let Ok(client) = probe_client(&self.connect, ANSWER_WITHIN)
        {
            (self.client, self.token_written) = (client, written);
        }
    }

    /// Publishes results until the receiver is gone. Polls at once when the selection changes.
    pub(super) async fn run(mut self, publish: watch::Sender<TopFrame>, mut selection: watch::Receiver<Option<String>>) {
        while !publish.is_closed() {
            let started = Instant::now();
            let selected = selection.borrow_and_update().clone();
            self.follow_token_file();
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
        let seen = probe::brief(&self.client, &[self.given.as_slice(), &self.learned].concat()).await;
        let best = seen.best_urls();
        if best.is_empty() {
            let refusal = seen.endpoints.iter().find_map(|endpoint| endpoint.answer.as_ref().err()?.refusal());
            let why = if refusal.is_some() { "refused" } else { "no answer" };
            self.frame.nodes.iter_mut().for_each(|row| row.role = Err(why.to_owned()));
            self.frame.summary = refusal.map_or_else(|| "no node answers".to_owned(), |refusal| format!("refused: {refusal}"));
            return;
        }
        self.frame.summary = seen.summary();
        let mut rows = seen.member_rows();
        self.learned = rows.iter().map(|row| normalized_url(&row.url)).collect();
        self.api = self.api.at(best);
        // A program without this call has no joins, and a node that does not answer it in time is asked again soon.
        let listed = self.api.call(&ApiRequest::get("/v1/cluster/members")).await;
        if let Ok(Members { joins, .. }) = listed.and_then(|reply| reply.read()) {
            show_joins(&mut rows, &joins);
        }
        self.frame.nodes = rows;
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

/// When the token file was written; `None` for none, and for a pipe, which has its token once.
fn written(connect: &ConnectArgs) -> Option<SystemTime> {
    let metadata = fs::metadata(connect.auth_token_file.as_deref()?).ok().filter(fs::Metadata::is_file)?;
    metadata.modified().ok()
}

/// Adds the nodes that are joining, and says so of the members that are not done with it.
fn show_joins(rows: &mut Vec<ProbedMember>, joins: &[Join]) {
    for join in joins {
        let step = match (join.phase, &join.waits_for) {
            (_, Some(why)) => format!("joining: {why}"),
            (JoinPhase::Pending, None) => "joining".to_owned(),
            (JoinPhase::CatchingUp, None) => "joining: catches up".to_owned(),
            (JoinPhase::Promoting, None) => "joining: takes its place".to_owned(),
        };
        match rows.iter_mut().find(|row| row.id == join.id) {
            // A member that does not answer is shown as such.
            Some(row) => row.role = row.role.clone().map(|_| step),
            None => rows.push(ProbedMember {
                id: join.id,
                url: join.url.clone(),
                peer: join.peer.clone(),
                role: Ok(step),
                lag: join.lag,
                silent_for: None,
                priority: None,
                zone: None,
            }),
        }
    }
}

#[cfg(test)]
#[path = "poller_tests.rs"]
mod tests;

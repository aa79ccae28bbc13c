//! Polls the cluster once a second: every node for its own state, and the best node that answers for the joins, the
//! overview, the locks, and what the page on the screen shows.
//!
//! The screen may stay open for longer than the given nodes exist. So each poll learns the members anew, and the next one
//! asks them too.

use super::{
    choice::TopQuery,
    frame::{TopFrame, TopPage},
};
use crate::{
    local_http::probe_client,
    probe,
    remote::{Api, ApiRequest, ConnectArgs, Failure, request::encode},
};
use fairhold_health::cluster_probe::{ProbedMember, normalized_url};
use fairhold_types::{
    Code,
    dto::{Join, JoinPhase, Members},
};
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
/// The most entries of a queue.
const QUEUE_MAX: usize = 100;
/// The most rows of any other list.
const ROWS_MAX: usize = 200;

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

    /// Publishes results until the receiver is gone. Polls at once when the query changes.
    pub(super) async fn run(mut self, publish: watch::Sender<TopFrame>, mut queries: watch::Receiver<TopQuery>) {
        while !publish.is_closed() {
            let started = Instant::now();
            let query = queries.borrow_and_update().clone();
            self.follow_token_file();
            self.poll_nodes().await;
            publish.send_replace(self.frame.clone());
            let found = self.poll_page(&query).await;
            self.frame.error = found.err().map(|failure| failure.to_string());
            publish.send_replace(self.frame.clone());
            tokio::select! {
                () = sleep(POLL_EVERY.saturating_sub(started.elapsed())) => {}
                Ok(()) = queries.changed() => {}
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
        // A server that is no node may list any number.
        self.learned = rows.iter().take(probe::LEARNED_MAX).map(|row| normalized_url(&row.url)).collect();
        self.api = self.api.at(best);
        // A program without this call has no joins, and a node that does not answer it in time is asked again soon.
        let listed = self.api.call(&ApiRequest::get("/v1/cluster/members")).await;
        if let Ok(Members { joins, .. }) = listed.and_then(|reply| reply.read()) {
            show_joins(&mut rows, &joins);
        }
        self.frame.nodes = rows;
    }

    /// Keeps the earlier result unless all requests succeed.
    async fn poll_page(&mut self, query: &TopQuery) -> Result<(), Failure> {
        let overview = self.overview().await?;
        let locks = self.locks(query).await?;
        let queue_of = match &query.page {
            TopPage::Locks => {
                let first = || locks.first().and_then(|lock| lock["lock"].as_str()).map(str::to_owned);
                query.lock.clone().or_else(first)
            }
            TopPage::Lock(name) => Some(name.clone()),
            TopPage::Waits | TopPage::Events | TopPage::Cluster | TopPage::Help => None,
        };
        let queue = match &queue_of {
            Some(name) => {
                let path = format!("/v1/locks/{}/queue?consistency=local&limit={QUEUE_MAX}", encode(name));
                self.answer(path).await?
            }
            None => Value::Null,
        };
        let path = match &query.page {
            TopPage::Lock(name) => Some(format!("/v1/locks/{}/history?consistency=local&limit={ROWS_MAX}", encode(name))),
            TopPage::Waits => Some(format!("/v1/waits?limit={ROWS_MAX}")),
            TopPage::Events => Some(format!("/v1/events?consistency=local&limit={ROWS_MAX}")),
            TopPage::Locks | TopPage::Cluster | TopPage::Help => None,
        };
        let listed = match path {
            Some(path) => self.answer(path).await?,
            None => Value::Null,
        };
        let is_complete = listed["left_out"].as_u64().unwrap_or(0) == 0 && listed["complete"] != false;
        self.frame = TopFrame {
            overview,
            locks,
            page: query.page.clone(),
            queue_of,
            queue: items(&queue),
            usual_of_queue: queue["usual_hold"].clone(),
            rows: items(&listed),
            is_complete,
            seen: Some(Instant::now()),
            ..std::mem::take(&mut self.frame)
        };
        Ok(())
    }

    /// Null if the node's program has no such call, or the user may not make it: a user who may see locks sees them.
    async fn overview(&self) -> Result<Value, Failure> {
        match self.answer("/v1/overview").await {
            Err(failure) if failure.has_code(Code::NotFound) || failure.has_code(Code::Denied) => Ok(Value::Null),
            answered => answered,
        }
    }

    async fn locks(&self, query: &TopQuery) -> Result<Vec<Value>, Failure> {
        let request = ApiRequest::get(format!("/v1/locks?consistency=local&limit={LOCKS_MAX}"))
            .parameter("sort", Some(query.sort))
            .parameter("prefix", (!query.prefix.is_empty()).then_some(&query.prefix))
            .parameter("state", query.state.as_ref());
        let mut locks = items(&self.api.call(&request).await?.read()?);
        // An idle lock without waiters is of interest only to a user who searches for it.
        let is_search = query.state.is_some() || !query.prefix.is_empty();
        locks.retain(|lock| is_search || lock["state"] != "idle" || lock["queue_length"] != 0);
        Ok(locks)
    }

    async fn answer(&self, path: impl Into<String>) -> Result<Value, Failure> {
        self.api.call(&ApiRequest::get(path)).await?.read()
    }
}

/// The items of a list.
fn items(listed: &Value) -> Vec<Value> {
    listed["items"].as_array().cloned().unwrap_or_default()
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

//! The leaders and terms, as the nodes report them.

use super::map::VOTERS;
use crate::{cluster::leader_of, http::Http, http::Request};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

const METRICS: [&str; 3] = ["fairhold_raft_term", "fairhold_raft_elections_total", "fairhold_raft_leader_changes_total"];

/// What a voter counts: its term, the elections in which it was a candidate, and the leaders that it learned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counters([u64; METRICS.len()]);

/// The leaders that a poll sees, until it is dropped.
#[derive(Debug)]
pub(super) struct LeaderPoll {
    seen: Arc<Mutex<Vec<SeenLeader>>>,
    task: JoinHandle<()>,
}

/// A leader that was not the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenLeader {
    pub(super) at: Instant,
    pub(super) machine: usize,
    pub(super) term: u64,
}

impl LeaderPoll {
    /// Begins to poll, with this pause.
    pub(super) fn start(http: Http, pause: Duration) -> LeaderPoll {
        let seen = Arc::new(Mutex::new(Vec::<SeenLeader>::new()));
        let for_task = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                if let Some((machine, term)) = leader_of(&http).await {
                    let mut seen = for_task.lock();
                    if seen.last().is_none_or(|last| (last.machine, last.term) != (machine, term)) {
                        seen.push(SeenLeader { at: Instant::now(), machine, term });
                    }
                }
                tokio::time::sleep(pause).await;
            }
        });
        LeaderPoll { seen, task }
    }

    /// Each leader that differed from the one before, the first one too.
    pub(super) fn seen(&self) -> Vec<SeenLeader> {
        self.seen.lock().clone()
    }
}

impl Drop for LeaderPoll {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The counters of all voters.
pub(super) async fn counters(http: &Http) -> Result<Vec<Counters>, String> {
    let mut all = Vec::new();
    for machine in 1..=VOTERS {
        let reply = http.ask(machine, &Request::get("/metrics")).await;
        all.push(Counters::parse(&reply.text).ok_or_else(|| format!("node {machine} has no metrics: {:?}", reply.error))?);
    }
    Ok(all)
}

impl Counters {
    fn parse(text: &str) -> Option<Counters> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        Some(Counters([value(METRICS[0])?, value(METRICS[1])?, value(METRICS[2])?]))
    }

    /// The term.
    pub(super) fn term(self) -> u64 {
        self.0[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_metrics() {
        let text = "# TYPE fairhold_raft_term gauge\nfairhold_raft_term 3\nfairhold_raft_elections_total 1\n\
                    fairhold_raft_leader_changes_total 2\n";
        assert_eq!(Counters::parse(text), Some(Counters([3, 1, 2])));
        assert_eq!(Counters::parse("fairhold_raft_term 3\n"), None);
    }
}

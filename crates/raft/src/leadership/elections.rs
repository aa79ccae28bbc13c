//! When this node starts an election, and how long it waits for votes.
//!
//! openraft has one pair of timeouts for everything: how long a leader may be silent, how long a candidate waits for a
//! vote, and when it tries again. A candidate writes its own vote to disk before it requests others, and a voter writes
//! its vote before it grants it. If that takes longer than the timeouts allow, every vote is late, and no leader is
//! ever elected. So openraft's own elections are off, and this module decides:
//!
//! - A follower starts an election after it has received nothing from a leader for the lease plus a random time. This
//!   time doubles with each election that produced no lasting leader, and grows by the time it takes to write a vote.
//! - A candidate does not start another election while nodes that granted its Pre-Vote have not answered. `ballots`
//!   counts votes that arrive after openraft has stopped waiting.
//! - Like openraft's elections, each one begins with a Pre-Vote: a node that would not win starts no election, and
//!   disturbs nothing.

use crate::{
    base::aliases::LeaderId,
    core::{Core, ServerMetrics, ballots::VOTE_LIMIT},
};
use openraft::{AsyncRuntime, Instant, ServerState, Vote, raft::VoteRequest};
use rand::RngExt;
use std::{sync::Arc, time::Duration};

/// Number of terms without a lasting leader after which a warning is logged.
const FAILED_TERMS_WARNED: u64 = 4;

/// A node that has a vote and does not lead.
struct Voter {
    vote: Vote<LeaderId>,
    /// No other node has a vote.
    is_only_voter: bool,
}

/// Decides when this node starts an election.
pub(crate) struct Elections<RT: AsyncRuntime> {
    core: Arc<Core<RT>>,
    timeout_ms: (u64, u64),
    /// The election delay starts no earlier than this.
    since: RT::Instant,
    random: Duration,
    /// The last term in which this node was a candidate.
    last_candidacy: u64,
    /// The settled term for which the warning about failed elections was logged.
    warned_in: Option<u64>,
}

impl<RT: AsyncRuntime> Elections<RT> {
    pub(crate) fn new(core: Arc<Core<RT>>, timeout_ms: (u64, u64)) -> Self {
        Elections {
            core,
            timeout_ms,
            since: RT::Instant::now(),
            random: random_delay::<RT>(timeout_ms),
            last_candidacy: 0,
            warned_in: None,
        }
    }

    /// Runs until Raft stops.
    pub(crate) async fn run(mut self) {
        while self.step().await.is_some() {}
    }

    /// Waits until the next decision is due, and makes it; `None` once Raft has stopped.
    async fn step(&mut self) -> Option<()> {
        let core = Arc::clone(&self.core);
        let voter = self.until_electable().await?;
        if core.lost.get().is_some() {
            return None;
        }
        if voter.is_only_voter {
            core.raft.trigger().elect(false).await.ok()?;
            return core.until(is_leading).await;
        }
        self.record_own_vote(voter.vote);
        self.count_late_votes().await?;
        let due = self.due(voter.vote);
        if RT::Instant::now() < due {
            tokio::select! {
                biased;
                () = core.stopped() => return None,
                () = core.links.ballots.changed() => {}
                () = RT::sleep_until(due) => {}
            }
            return Some(());
        }
        // The answer arrives after pending disk writes, perhaps of a vote. Meanwhile a leader may have sent a message.
        let requested_at = RT::Instant::now();
        let vote = core.raft.with_raft_state(|state| *state.vote_ref()).await.ok()?;
        core.contact.wrote_within(requested_at.elapsed());
        self.record_own_vote(vote);
        if RT::Instant::now() < self.due(vote) {
            return Some(());
        }
        self.warn_about_failed_elections(vote);
        core.raft.trigger().elect(true).await.ok()?;
        self.since = RT::Instant::now();
        self.random = random_delay::<RT>(self.timeout_ms);
        Some(())
    }

    /// Waits until this node has a vote and does not lead.
    async fn until_electable(&mut self) -> Option<Voter> {
        let led = self.core.leadership();
        let started_at = RT::Instant::now();
        let voter = self.core.until(voter_in).await?;
        if let Some(led) = led {
            self.core.contact.led(led.term(), started_at.elapsed());
            self.since = RT::Instant::now();
        }
        Some(voter)
    }

    /// Restarts the delay once this node's own vote for a new term is written: only now does it request other votes,
    /// and these take time.
    fn record_own_vote(&mut self, vote: Vote<LeaderId>) {
        if vote.leader_id.node_id == self.core.id && vote.leader_id.term > self.last_candidacy {
            self.last_candidacy = vote.leader_id.term;
            self.since = RT::Instant::now();
        }
    }

    /// When this node starts an election, unless a leader sends a message first.
    fn due(&self, vote: Vote<LeaderId>) -> RT::Instant {
        let quiet_since = self.core.contact.quiet_since(self.core.lease).map_or(self.since, |quiet| quiet.max(self.since));
        let due = quiet_since + self.core.contact.election_delay(self.random, vote.leader_id.term);
        self.core.links.ballots.waits_since(vote).map_or(due, |requested_at| due.max(requested_at + VOTE_LIMIT))
    }

    /// If the votes for this node make a majority that includes late votes, commits its vote.
    async fn count_late_votes(&self) -> Option<()> {
        let core = &self.core;
        let won = core.with_metrics(|metrics| core.links.ballots.won_late(core.id, metrics.membership_config.membership()));
        let Some((vote, last_log_id)) = won else { return Some(()) };
        tracing::info!(term = vote.leader_id.term, "won the election with a vote that arrived late: the disks are slow");
        // openraft treats a committed vote as that of a leader, and rejects it if its own has advanced.
        core.raft.vote(VoteRequest::new(vote, last_log_id)).await.ok().map(drop)
    }

    fn warn_about_failed_elections(&mut self, vote: Vote<LeaderId>) {
        let settled = self.core.contact.settled_term();
        let terms = vote.leader_id.term.saturating_sub(settled);
        if terms < FAILED_TERMS_WARNED || self.warned_in == Some(settled) {
            return;
        }
        self.warned_in = Some(settled);
        let wrote_ms = self.core.contact.write_time().as_millis();
        tracing::warn!(
            terms,
            wrote_ms,
            "no leader lasted in the last {terms} terms: check that the nodes can reach each other and that their disks are not \
             too slow (writing the last vote took {wrote_ms} ms here)"
        );
    }
}

fn voter_in<RT: AsyncRuntime>(metrics: &ServerMetrics<RT>) -> Option<Voter> {
    let voters = || metrics.membership_config.voter_ids();
    let has_vote = voters().any(|id| id == metrics.id);
    let follows = metrics.state != ServerState::Leader;
    (has_vote && follows).then(|| Voter { vote: metrics.vote, is_only_voter: voters().count() == 1 })
}

fn is_leading<RT: AsyncRuntime>(metrics: &ServerMetrics<RT>) -> Option<()> {
    (metrics.state == ServerState::Leader).then_some(())
}

/// The followers' leases end up to a heartbeat apart, because each hears the leader at another time. In every timing
/// profile, half the shorter timeout is longer than that, so the first candidate does not find others that still
/// trust the leader. The range is as wide as between both timeouts, so that candidates rarely meet.
fn random_delay<RT: AsyncRuntime>((min, max): (u64, u64)) -> Duration {
    let earliest = min / 2;
    Duration::from_millis(RT::thread_rng().random_range(earliest..earliest + (max - min)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{Timing, duration::millis};
    use openraft_rt_tokio::TokioRuntime;

    #[test]
    fn the_random_delay_outlasts_the_leases_of_all_followers_and_spreads_candidates() {
        for timing in Timing::ALL {
            let (shorter, longer) = timing.election_timeouts();
            let timeout_ms = (millis(shorter), millis(longer));
            let delays: Vec<Duration> = (0..1_000).map(|_| random_delay::<TokioRuntime>(timeout_ms)).collect();
            let (earliest, latest) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
            assert!(earliest > timing.heartbeat() + timing.round_trip_max(), "{timing}: {earliest:?}");
            assert!(latest < longer, "{timing}: {latest:?}");
            assert!(latest - earliest > (longer - shorter) / 2, "{timing}: {earliest:?} to {latest:?}");
        }
    }
}

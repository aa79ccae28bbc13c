//! When this node stands for election, and for how long it waits for votes.
//!
//! openraft has one pair of timeouts for everything: for how long a leader may be silent, for how long a candidate waits for a
//! vote, and when it stands again. A candidate writes its own vote to its disk before it asks for others, and a voter writes its
//! vote before it gives it. Where that takes longer than the pair allows, every vote comes too late, for ever. So openraft's own
//! elections are off, and this decides:
//!
//! - A follower stands when it has heard nothing of a leader for the lease, and for a random time after that. The random time
//!   doubles with each election that brought no leader who lasted, and is longer by what it takes to write a vote.
//! - A candidate does not stand again while nodes that said they would vote for it have not answered. A vote that comes when
//!   openraft waits for it no more is counted by `ballots`.
//! - Each election begins with a Pre-Vote, as openraft's do: a node that would not win does not stand, and disturbs nobody.

use crate::{
    base::aliases::LeaderId,
    core::{Core, ServerMetrics, ballots::VOTE_LIMIT},
};
use openraft::{AsyncRuntime, Instant, ServerState, Vote, raft::VoteRequest};
use rand::RngExt;
use std::{sync::Arc, time::Duration};

/// So many terms without a leader who lasted are worth a line in the log.
const VAIN_TERMS_TOLD: u64 = 4;

/// What a node knows of itself while it does not lead and has a vote.
struct Voter {
    vote: Vote<LeaderId>,
    /// Nobody else has a vote.
    alone: bool,
}

/// Decides when this node stands.
pub(crate) struct Elections<RT: AsyncRuntime> {
    core: Arc<Core<RT>>,
    timeout_ms: (u64, u64),
    /// It does not stand for something that was before this.
    since: RT::Instant,
    random: Duration,
    /// The last term in which it stood.
    stood: u64,
    /// The settled term since which the log was told of elections in vain.
    told: Option<u64>,
}

impl<RT: AsyncRuntime> Elections<RT> {
    pub(crate) fn new(core: Arc<Core<RT>>, timeout_ms: (u64, u64)) -> Self {
        let (since, random) = (RT::Instant::now(), draw::<RT>(timeout_ms));
        Elections { core, timeout_ms, since, random, stood: 0, told: None }
    }

    /// Runs until Raft stops.
    pub(crate) async fn run(mut self) {
        while self.step().await.is_some() {}
    }

    /// Waits for the next moment at which something is to be decided, and decides it; `None` when Raft has stopped.
    async fn step(&mut self) -> Option<()> {
        let core = Arc::clone(&self.core);
        let voter = self.until_it_may_stand().await?;
        if core.lost.get().is_some() {
            return None;
        }
        if voter.alone {
            core.raft.trigger().elect(false).await.ok()?;
            return core.until(leads).await;
        }
        self.notice(voter.vote);
        self.count_late_votes().await?;
        let due = self.due(voter.vote);
        if RT::Instant::now() < due {
            tokio::select! {
                biased;
                () = core.stopped() => return None,
                () = core.ballots.changed() => {}
                () = RT::sleep_until(due) => {}
            }
            return Some(());
        }
        // The answer comes when what is being written is on the disk: a vote, perhaps, and much may have been heard meanwhile.
        let asked = RT::Instant::now();
        let vote = core.raft.with_raft_state(|state| *state.vote_ref()).await.ok()?;
        core.contact.wrote_within(asked.elapsed());
        self.notice(vote);
        if RT::Instant::now() < self.due(vote) {
            return Some(());
        }
        self.tell_of_vain_elections(vote);
        core.raft.trigger().elect(true).await.ok()?;
        (self.since, self.random) = (RT::Instant::now(), draw::<RT>(self.timeout_ms));
        Some(())
    }

    /// Waits while this node leads, or has no vote.
    async fn until_it_may_stand(&mut self) -> Option<Voter> {
        let (led, begun) = (self.core.leadership(), RT::Instant::now());
        let voter = self.core.until(voter_in).await?;
        if let Some(led) = led {
            self.core.contact.led(led.term(), begun.elapsed());
            self.since = RT::Instant::now();
        }
        Some(voter)
    }

    /// Its own vote for a term is written: now the others are asked, and get the time that they need.
    fn notice(&mut self, vote: Vote<LeaderId>) {
        if vote.leader_id.node_id == self.core.id && vote.leader_id.term > self.stood {
            self.stood = vote.leader_id.term;
            self.since = RT::Instant::now();
        }
    }

    /// When it stands, unless something is heard before.
    fn due(&self, vote: Vote<LeaderId>) -> RT::Instant {
        let quiet_since = self.core.contact.quiet_since(self.core.lease).map_or(self.since, |quiet| quiet.max(self.since));
        let due = quiet_since + self.core.contact.patience(self.random, vote.leader_id.term);
        self.core.ballots.waits_since(vote).map_or(due, |asked| due.max(asked + VOTE_LIMIT))
    }

    /// Where votes for this node make a majority of which openraft has not waited for all, its vote is committed.
    async fn count_late_votes(&self) -> Option<()> {
        let core = &self.core;
        let won = core.look(|metrics| core.ballots.won_late(core.id, metrics.membership_config.membership()));
        let Some((vote, last_log_id)) = won else { return Some(()) };
        tracing::info!(term = vote.leader_id.term, "the deciding vote was late: the disks are slow");
        // openraft takes a committed vote as that of a leader, and refuses it where its own has moved on.
        core.raft.vote(VoteRequest::new(vote, last_log_id)).await.ok().map(drop)
    }

    fn tell_of_vain_elections(&mut self, vote: Vote<LeaderId>) {
        let settled = self.core.contact.settled_term();
        let terms = vote.leader_id.term.saturating_sub(settled);
        if terms < VAIN_TERMS_TOLD || self.told == Some(settled) {
            return;
        }
        self.told = Some(settled);
        let wrote_ms = self.core.contact.write_time().as_millis();
        tracing::warn!(
            terms,
            wrote_ms,
            "no leader lasted in the last {terms} terms: check that the nodes reach each other and that their disks are not too \
             slow (writing the last vote took {wrote_ms} ms here)"
        );
    }
}

fn voter_in<RT: AsyncRuntime>(standing: &ServerMetrics<RT>) -> Option<Voter> {
    let voters = || standing.membership_config.voter_ids();
    let has_vote = voters().any(|id| id == standing.id);
    let follows = standing.state != ServerState::Leader;
    (has_vote && follows).then(|| Voter { vote: standing.vote, alone: voters().count() == 1 })
}

fn leads<RT: AsyncRuntime>(standing: &ServerMetrics<RT>) -> Option<()> {
    (standing.state == ServerState::Leader).then_some(())
}

fn draw<RT: AsyncRuntime>((min, max): (u64, u64)) -> Duration {
    Duration::from_millis(RT::thread_rng().random_range(min..max))
}

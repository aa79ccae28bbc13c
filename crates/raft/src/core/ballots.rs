//! The votes for this node: which nodes received a request, which granted a Pre-Vote, and which voted.
//!
//! openraft waits for a vote for a fixed time and drops later ones. But a vote is valid while the candidate is still in
//! its term. So votes are counted here as well, and if the deciding vote was late, `elections` reports the majority to
//! openraft.

use crate::base::{
    aliases::{LeaderId, LogId},
    types::{Member, Types},
};
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant, Membership, Vote, raft::VoteResponse};
use parking_lot::Mutex;
use std::{collections::BTreeSet, time::Duration};
use tokio::sync::Notify;

/// How long a candidate waits for a vote. A disk that needs longer for one small write is unusable.
pub(crate) const VOTE_LIMIT: Duration = Duration::from_secs(4);

/// Whether this response grants the vote.
///
/// A node can refuse a vote and still name the same vote as its own: it learned of it from other nodes, and its log is
/// longer than the candidate's. So the vote named in a response means nothing by itself.
pub(crate) fn grants<RT: AsyncRuntime>(response: &VoteResponse<Types<RT>>, vote: Vote<LeaderId>) -> bool {
    response.vote_granted && response.vote == vote
}

struct Ballot<I> {
    /// The vote that was requested.
    vote: Vote<LeaderId>,
    /// The last entry of the candidate's log, which voters compare with theirs.
    last_log_id: Option<LogId>,
    requested_at: I,
    waiting: BTreeSet<NodeId>,
    granted: BTreeSet<NodeId>,
    /// A vote arrived after openraft had stopped waiting for it.
    late: bool,
}

struct BallotsInner<I> {
    /// The vote that nodes would grant, and those nodes.
    pre_votes: (Option<Vote<LeaderId>>, BTreeSet<NodeId>),
    ballot: Option<Ballot<I>>,
}

/// The votes for this node. `I` is the type of the clock's instants.
pub(crate) struct Ballots<I> {
    inner: Mutex<BallotsInner<I>>,
    changed: Notify,
}

impl<I> Default for Ballots<I> {
    fn default() -> Self {
        let inner = BallotsInner { pre_votes: (None, BTreeSet::new()), ballot: None };
        Ballots { inner: Mutex::new(inner), changed: Notify::new() }
    }
}

impl<I: Instant> Ballots<I> {
    /// Records that a node would grant this vote.
    pub(crate) fn would_grant(&self, vote: Vote<LeaderId>, from: NodeId) {
        let mut inner = self.inner.lock();
        if inner.pre_votes.0 != Some(vote) {
            inner.pre_votes = (Some(vote), BTreeSet::new());
        }
        inner.pre_votes.1.insert(from);
    }

    /// Records a request to a node for this vote. Voters compare `last_log_id`, the end of the candidate's log, with
    /// theirs.
    pub(crate) fn requested(&self, vote: Vote<LeaderId>, last_log_id: Option<LogId>, to: NodeId, now: I) {
        let mut inner = self.inner.lock();
        if inner.ballot.as_ref().is_none_or(|ballot| ballot.vote != vote) {
            inner.ballot = Some(Ballot {
                vote,
                last_log_id,
                requested_at: now,
                waiting: BTreeSet::new(),
                granted: BTreeSet::new(),
                late: false,
            });
        }
        if let Some(ballot) = &mut inner.ballot {
            ballot.waiting.insert(to);
        }
    }

    /// Records a node's answer, or that none will come. `late`: openraft no longer waits for it.
    pub(crate) fn answered(&self, vote: Vote<LeaderId>, from: NodeId, granted: bool, late: bool) {
        let mut inner = self.inner.lock();
        if let Some(ballot) = inner.ballot.as_mut().filter(|ballot| ballot.vote == vote) {
            ballot.waiting.remove(&from);
            if granted {
                ballot.granted.insert(from);
                ballot.late |= late;
            }
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Resolves when a node has answered.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Since when nodes that would grant this vote have not answered, if there are any.
    pub(crate) fn waits_since(&self, vote: Vote<LeaderId>) -> Option<I> {
        let inner = self.inner.lock();
        let ballot = inner.ballot.as_ref().filter(|ballot| ballot.vote == vote && inner.pre_votes.0 == Some(vote))?;
        ballot.waiting.iter().any(|id| inner.pre_votes.1.contains(id)).then_some(ballot.requested_at)
    }

    /// If a late vote has made a majority: the vote, marked as committed, and the last entry of the candidate's log.
    /// Returned once for each late vote.
    pub(crate) fn won_late(
        &self,
        own: NodeId,
        membership: &Membership<NodeId, Member>,
    ) -> Option<(Vote<LeaderId>, Option<LogId>)> {
        let mut inner = self.inner.lock();
        let ballot = inner.ballot.as_mut().filter(|ballot| ballot.late)?;
        ballot.late = false;
        let has = |id: &&NodeId| **id == own || ballot.granted.contains(id);
        let won = membership.get_joint_config().iter().all(|voters| voters.iter().filter(has).count() > voters.len() / 2);
        let committed = Vote { committed: true, ..ballot.vote };
        won.then_some((committed, ballot.last_log_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;
    use std::collections::BTreeMap;

    fn vote(term: u64) -> Vote<LeaderId> {
        Vote { leader_id: LeaderId { term, node_id: 1 }, committed: false }
    }

    fn members(configs: &[&[NodeId]]) -> Membership<NodeId, Member> {
        let configs: Vec<BTreeSet<NodeId>> = configs.iter().map(|ids| ids.iter().copied().collect()).collect();
        let nodes: BTreeMap<_, _> = configs.iter().flatten().map(|id| (*id, Member::default())).collect();
        Membership::new(configs, nodes).unwrap()
    }

    type Moment = <TokioRuntime as openraft::AsyncRuntime>::Instant;

    fn requested(term: u64) -> Ballots<Moment> {
        let ballots = Ballots::default();
        (2..=5).for_each(|id| ballots.requested(vote(term), None, id, Instant::now()));
        ballots
    }

    #[test]
    fn a_late_vote_wins_if_it_makes_a_majority_of_every_configuration() {
        let ballots = requested(7);
        ballots.answered(vote(7), 2, true, true);
        assert!(ballots.won_late(1, &members(&[&[1, 2, 3, 4, 5]])).is_none(), "two of five");
        assert!(ballots.won_late(1, &members(&[&[1, 2, 3]])).is_none(), "each late vote is checked once");
        ballots.answered(vote(7), 3, true, true);
        let won = ballots.won_late(1, &members(&[&[1, 2, 3, 4, 5]]));
        assert_eq!(won, Some((Vote { committed: true, ..vote(7) }, None)));
        ballots.answered(vote(7), 3, true, true);
        assert!(ballots.won_late(1, &members(&[&[1, 2, 3], &[1, 4, 5]])).is_none(), "only one vote of the second configuration");
    }

    #[test]
    fn votes_in_time_refusals_and_votes_of_another_term_win_nothing() {
        let three = members(&[&[1, 2, 3]]);
        let ballots = requested(7);
        ballots.answered(vote(7), 2, true, false);
        assert!(ballots.won_late(1, &three).is_none(), "openraft counts this vote");
        ballots.answered(vote(6), 3, true, true);
        ballots.answered(vote(7), 3, false, true);
        assert!(ballots.won_late(1, &three).is_none());
    }

    #[test]
    fn a_refusal_that_names_the_vote_it_refuses_is_not_a_vote() {
        let refusal = VoteResponse::<Types<TokioRuntime>>::new(vote(7), None, false);
        assert!(!grants(&refusal, vote(7)));
        assert!(grants(&VoteResponse::<Types<TokioRuntime>>::new(vote(7), None, true), vote(7)));
        assert!(!grants(&VoteResponse::<Types<TokioRuntime>>::new(vote(8), None, true), vote(7)));
    }

    #[test]
    fn only_nodes_that_granted_the_pre_vote_are_waited_for() {
        let ballots = Ballots::default();
        let now: Moment = Instant::now();
        ballots.would_grant(vote(7), 2);
        ballots.requested(vote(7), None, 2, now);
        ballots.requested(vote(7), None, 3, now);
        assert!(ballots.waits_since(vote(7)).is_some() && ballots.waits_since(vote(8)).is_none());
        ballots.answered(vote(7), 2, false, false);
        assert!(ballots.waits_since(vote(7)).is_none(), "node 3 did not grant the Pre-Vote");
    }
}

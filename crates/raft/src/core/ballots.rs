//! The votes for this node: the nodes that were asked, that granted a Pre-Vote, and that voted.
//!
//! openraft waits for a vote for a fixed time, and drops what comes after it. A vote is good for as long as its term is the
//! candidate's. So votes are counted here too, and where the deciding one came late, openraft is told of the majority.

use crate::base::{
    aliases::{LeaderId, LogId},
    types::{Member, Types},
};
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant, Membership, Vote, raft::VoteResponse};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How long a candidate waits for a vote. A disk that needs longer for one small write is unusable.
pub(crate) const VOTE_LIMIT: Duration = Duration::from_secs(4);

/// Whether this answer gives the vote.
///
/// A node can refuse a vote and name the same one as its own: it learnt of it from others, and its log is longer than the
/// candidate's. So the vote that an answer names says nothing by itself.
pub(crate) fn grants<RT: AsyncRuntime>(response: &VoteResponse<Types<RT>>, vote: Vote<LeaderId>) -> bool {
    response.vote_granted && response.vote == vote
}

struct Ballot<I> {
    /// The vote that is asked for.
    vote: Vote<LeaderId>,
    /// The last entry of the candidate's log, by which it is judged.
    last_log_id: Option<LogId>,
    asked: I,
    waiting: BTreeSet<NodeId>,
    granted: BTreeSet<NodeId>,
    /// A vote came when openraft did not wait for it any more.
    late: bool,
}

struct BallotsInner<I> {
    /// The nodes that would vote so.
    willing: (Option<Vote<LeaderId>>, BTreeSet<NodeId>),
    ballot: Option<Ballot<I>>,
}

struct SharedBallots<I> {
    inner: Mutex<BallotsInner<I>>,
    changed: Notify,
}

/// The votes for this node, by a clock whose moments are `I`. Clones share them.
pub(crate) struct Ballots<I>(Arc<SharedBallots<I>>);

impl<I> Default for Ballots<I> {
    fn default() -> Self {
        let inner = BallotsInner { willing: (None, BTreeSet::new()), ballot: None };
        Ballots(Arc::new(SharedBallots { inner: Mutex::new(inner), changed: Notify::new() }))
    }
}

impl<I> Clone for Ballots<I> {
    fn clone(&self) -> Self {
        Ballots(Arc::clone(&self.0))
    }
}

impl<I: Instant> Ballots<I> {
    /// A node would give this vote.
    pub(crate) fn would_grant(&self, vote: Vote<LeaderId>, from: NodeId) {
        let mut inner = self.locked();
        if inner.willing.0 != Some(vote) {
            inner.willing = (Some(vote), BTreeSet::new());
        }
        inner.willing.1.insert(from);
    }

    /// A node is asked for this vote. The last entry of the candidate's log is that by which it is judged.
    pub(crate) fn asked(&self, vote: Vote<LeaderId>, last_log_id: Option<LogId>, to: NodeId, now: I) {
        let mut inner = self.locked();
        if inner.ballot.as_ref().is_none_or(|ballot| ballot.vote != vote) {
            let (waiting, granted) = (BTreeSet::new(), BTreeSet::new());
            inner.ballot = Some(Ballot { vote, last_log_id, asked: now, waiting, granted, late: false });
        }
        if let Some(ballot) = &mut inner.ballot {
            ballot.waiting.insert(to);
        }
    }

    /// A node has answered, or will not any more. `late`: openraft does not wait for it.
    pub(crate) fn answered(&self, vote: Vote<LeaderId>, from: NodeId, granted: bool, late: bool) {
        let mut inner = self.locked();
        if let Some(ballot) = inner.ballot.as_mut().filter(|ballot| ballot.vote == vote) {
            ballot.waiting.remove(&from);
            if granted {
                ballot.granted.insert(from);
                ballot.late |= late;
            }
        }
        drop(inner);
        self.0.changed.notify_one();
    }

    /// Resolves when a node has answered.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Since when nodes that would grant this vote have been asked for it and have not answered, if there are any.
    pub(crate) fn waits_since(&self, vote: Vote<LeaderId>) -> Option<I> {
        let inner = self.locked();
        let ballot = inner.ballot.as_ref().filter(|ballot| ballot.vote == vote && inner.willing.0 == Some(vote))?;
        ballot.waiting.iter().any(|id| inner.willing.1.contains(id)).then_some(ballot.asked)
    }

    /// Where a late vote has made a majority: the vote as one that is committed, and the last entry of the candidate's log. Once
    /// for each late vote.
    pub(crate) fn won_late(
        &self,
        own: NodeId,
        membership: &Membership<NodeId, Member>,
    ) -> Option<(Vote<LeaderId>, Option<LogId>)> {
        let mut inner = self.locked();
        let ballot = inner.ballot.as_mut().filter(|ballot| ballot.late)?;
        ballot.late = false;
        let has = |id: &&NodeId| **id == own || ballot.granted.contains(id);
        let won = membership.get_joint_config().iter().all(|voters| voters.iter().filter(has).count() > voters.len() / 2);
        let committed = Vote { committed: true, ..ballot.vote };
        won.then_some((committed, ballot.last_log_id))
    }

    fn locked(&self) -> MutexGuard<'_, BallotsInner<I>> {
        self.0.inner.lock()
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

    fn asked(term: u64) -> Ballots<Moment> {
        let ballots = Ballots::default();
        (2..=5).for_each(|id| ballots.asked(vote(term), None, id, Instant::now()));
        ballots
    }

    #[test]
    fn a_late_vote_wins_where_it_makes_a_majority_of_every_configuration() {
        let ballots = asked(7);
        ballots.answered(vote(7), 2, true, true);
        assert!(ballots.won_late(1, &members(&[&[1, 2, 3, 4, 5]])).is_none(), "two of five");
        assert!(ballots.won_late(1, &members(&[&[1, 2, 3]])).is_none(), "it is looked at once");
        ballots.answered(vote(7), 3, true, true);
        let won = ballots.won_late(1, &members(&[&[1, 2, 3, 4, 5]]));
        assert_eq!(won, Some((Vote { committed: true, ..vote(7) }, None)));
        ballots.answered(vote(7), 3, true, true);
        assert!(ballots.won_late(1, &members(&[&[1, 2, 3], &[1, 4, 5]])).is_none(), "one of the second configuration");
    }

    #[test]
    fn votes_in_time_refusals_and_votes_of_another_term_win_nothing() {
        let three = members(&[&[1, 2, 3]]);
        let ballots = asked(7);
        ballots.answered(vote(7), 2, true, false);
        assert!(ballots.won_late(1, &three).is_none(), "openraft counts these");
        ballots.answered(vote(6), 3, true, true);
        ballots.answered(vote(7), 3, false, true);
        assert!(ballots.won_late(1, &three).is_none());
    }

    #[test]
    fn a_refusal_that_names_the_vote_it_refuses_is_no_vote() {
        let refusal = VoteResponse::<Types<TokioRuntime>>::new(vote(7), None, false);
        assert!(!grants(&refusal, vote(7)));
        assert!(grants(&VoteResponse::<Types<TokioRuntime>>::new(vote(7), None, true), vote(7)));
        assert!(!grants(&VoteResponse::<Types<TokioRuntime>>::new(vote(8), None, true), vote(7)));
    }

    #[test]
    fn only_those_that_are_willing_are_waited_for() {
        let (ballots, now): (_, Moment) = (Ballots::default(), Instant::now());
        ballots.would_grant(vote(7), 2);
        ballots.asked(vote(7), None, 2, now);
        ballots.asked(vote(7), None, 3, now);
        assert!(ballots.waits_since(vote(7)).is_some() && ballots.waits_since(vote(8)).is_none());
        ballots.answered(vote(7), 2, false, false);
        assert!(ballots.waits_since(vote(7)).is_none(), "node 3 never said that it would");
    }
}

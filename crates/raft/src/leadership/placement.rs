//! Moves the leadership to the voter with the highest priority.
//!
//! Elections do not know priorities, so a wrong priority costs no availability: the leader hands over when it sees a
//! better voter for some time.

use crate::{
    core::{Core, status::lag_of},
    leadership::{
        handover,
        reconciler::view::{Answered, is_healthy},
    },
};
use fairhold_state::membership::Membership;
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant};
use std::time::Duration;

/// How long a voter must be better.
const BETTER_FOR: Duration = Duration::from_secs(30);
/// Minimum time between two attempts.
const PAUSE: Duration = Duration::from_secs(60);
/// How many log entries a better voter may be behind.
const LAG_MAX: u64 = 100;

/// Watches for a better leader, during one leadership.
pub(crate) struct Placer<I> {
    /// The better voter, and since when.
    better: Option<(NodeId, I)>,
    /// When this node last tried to hand over.
    tried_at: Option<I>,
}

impl<I> Default for Placer<I> {
    fn default() -> Self {
        Placer { better: None, tried_at: None }
    }
}

impl<I: Instant> Placer<I> {
    /// Hands the leadership over if a voter has been better for long enough.
    pub(crate) async fn look<RT: AsyncRuntime<Instant = I>>(&mut self, core: &Core<RT>) {
        let better = better_voter(core);
        let Some(to) = self.due(better, I::now()) else { return };
        tracing::info!(node = to, "transferring the leadership to node {to}, which has a higher priority");
        if !handover::transfer_to(core, to).await {
            tracing::warn!(node = to, "node {to} did not become the leader in time");
        }
    }

    /// The voter to hand over to now, given the one that is better now.
    fn due(&mut self, better: Option<NodeId>, now: I) -> Option<NodeId> {
        let Some(node) = better else {
            self.better = None;
            return None;
        };
        let since = match self.better {
            Some((same, since)) if same == node => since,
            Some(_) | None => now,
        };
        self.better = Some((node, since));
        let is_due = since + BETTER_FOR <= now && self.tried_at.is_none_or(|tried_at| tried_at + PAUSE <= now);
        is_due.then(|| {
            self.tried_at = Some(now);
            node
        })
    }
}

/// The healthy voter with the highest priority, if that is higher than this node's.
fn better_voter<RT: AsyncRuntime>(core: &Core<RT>) -> Option<NodeId> {
    let voters = core.with_server_metrics(|metrics| {
        let is_joint = metrics.membership_config.membership().get_joint_config().len() > 1;
        (!is_joint).then(|| metrics.membership_config.voter_ids().collect::<Vec<NodeId>>())
    })?;
    let better = preferred(core.shared.read().membership(), core.id, &voters);
    core.with_metrics(|metrics| {
        let is_able = |node: &NodeId| {
            is_healthy(core.lease, metrics, *node, Answered::Lately)
                && lag_of(metrics, &core.links.losses, *node).is_some_and(|lag| lag <= LAG_MAX)
        };
        better.into_iter().find(is_able)
    })
}

/// The voters with a higher priority than the leader, the best first. A voter that is to go is none of them.
fn preferred(membership: &Membership, leader: NodeId, voters: &[NodeId]) -> Vec<NodeId> {
    let own = membership.placement(leader).priority;
    let is_to_go = |node| membership.removal(node).is_some() || membership.joins().any(|(_, join)| join.replaces == Some(node));
    let mut better: Vec<(u8, NodeId)> = voters.iter().map(|node| (membership.placement(*node).priority, *node)).collect();
    better.retain(|(priority, node)| *priority > own && !is_to_go(*node));
    better.sort_unstable_by_key(|(priority, node)| (std::cmp::Reverse(*priority), *node));
    better.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    #[test]
    fn a_voter_must_be_better_for_a_while_and_attempts_are_rare() {
        let mut placer = Placer::default();
        let start = <Moment as Instant>::now();
        let at = |secs| start + Duration::from_secs(secs);
        assert_eq!(placer.due(Some(2), at(0)), None);
        assert_eq!(placer.due(Some(2), at(29)), None);
        assert_eq!(placer.due(Some(3), at(30)), None, "another voter is better now");
        assert_eq!(placer.due(Some(3), at(60)), Some(3));
        assert_eq!(placer.due(Some(3), at(119)), None);
        assert_eq!(placer.due(Some(3), at(120)), Some(3));
        assert_eq!(placer.due(None, at(121)), None);
    }

    #[test]
    fn a_membership_without_priorities_prefers_no_voter() {
        assert!(preferred(&Membership::default(), 1, &[1, 2, 3]).is_empty());
    }
}

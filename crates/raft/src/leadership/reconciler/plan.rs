//! What the leader does next, so that the members become what was requested: a pure function of what it sees.
//!
//! The state holds the requests: pending joins and pending removals. Raft's membership is the only list of members. A
//! new leader finds both and goes on, so a step may be repeated, and each one is safe to repeat.

use fairhold_types::{
    MemberRole, NodeId,
    limits::VOTERS_MAX,
    planted::{self, Bug},
};
use std::collections::{BTreeMap, BTreeSet};

/// How many log entries a node may be behind when it becomes a voter.
pub(crate) const PROMOTION_LAG_MAX: u64 = 256;
/// How many log entries a voter may be behind when it takes over the leadership.
const SUCCESSOR_LAG_MAX: u64 = 1_000;

/// What the leader sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// This node.
    pub(crate) leader: NodeId,
    /// The voters. While they change: the next ones.
    pub(crate) voters: BTreeSet<NodeId>,
    /// The members without a vote.
    pub(crate) learners: BTreeSet<NodeId>,
    /// Whether the members are changing.
    pub(crate) phase: Phase,
    /// What the leader knows about the members.
    pub(crate) seen: BTreeMap<NodeId, Seen>,
    /// The pending joins.
    pub(crate) joins: BTreeMap<NodeId, PendingJoin>,
    /// The nodes whose removal is pending.
    pub(crate) removals: BTreeSet<NodeId>,
}

/// Whether the members are changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// They are not.
    Uniform,
    /// The last change is not committed yet.
    Uncommitted,
    /// The old voters and the new ones decide together. Nobody has continued for some time if `abandoned`.
    Joint { abandoned: bool },
}

/// What the leader knows about a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// It answers the leader, or is the leader.
    pub(crate) healthy: bool,
    /// How many log entries it is behind; `None` if it has none, or if the leader does not know.
    pub(crate) lag: Option<u64>,
    /// It has been healthy and close behind for some time.
    pub(crate) caught_up: bool,
}

impl Seen {
    /// Whether it answers and is close behind.
    pub(crate) fn is_close(self) -> bool {
        self.healthy && self.lag.is_some_and(|lag| lag <= PROMOTION_LAG_MAX)
    }
}

/// A join that is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingJoin {
    pub(crate) role: MemberRole,
    /// The member that the node replaces.
    pub(crate) replaces: Option<NodeId>,
    /// Whether the removal of that member is recorded.
    pub(crate) is_replaced_recorded: bool,
}

/// What the leader does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ends a change that nobody continues.
    FlattenJoint,
    /// Adds a node that joins as a learner.
    AddLearner { node: NodeId },
    /// Makes a learner a voter.
    Promote { node: NodeId },
    /// Makes a learner a voter and removes a voter, in one change.
    Replace { new: NodeId, old: NodeId },
    /// Removes a member.
    RemoveMember { node: NodeId },
    /// Hands the leadership over, because this node is to go.
    HandOver { to: NodeId },
    /// Records that a join is complete.
    Settle { node: NodeId },
    /// Records that a node is removed.
    RecordRemoval { node: NodeId },
}

/// The next step, or what the request waits for.
pub(crate) type Verdict = Result<Step, String>;

/// How many of some voters are healthy, and how many must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) voters: u64,
    pub(crate) healthy: u64,
    pub(crate) needed: u64,
}

impl Health {
    /// Whether a majority is healthy.
    pub(crate) fn is_enough(self) -> bool {
        self.healthy >= self.needed || skips_health_check()
    }

    fn require(self) -> Result<(), String> {
        let Health { voters, healthy, needed } = self;
        if self.is_enough() {
            return Ok(());
        }
        Err(format!("after it, only {healthy} of {voters} voters would answer the leader, and {needed} must"))
    }
}

impl Step {
    /// Whether a member that does not answer could make the cluster unable to decide after this step.
    pub(crate) fn depends_on_votes(self, view: &View) -> bool {
        match self {
            Step::Promote { .. } | Step::Replace { .. } | Step::HandOver { .. } => true,
            Step::RemoveMember { node } => view.voters.contains(&node),
            Step::FlattenJoint | Step::AddLearner { .. } | Step::Settle { .. } | Step::RecordRemoval { .. } => false,
        }
    }

    /// The learner that gets a vote.
    pub(crate) fn new_voter(self) -> Option<NodeId> {
        match self {
            Step::Promote { node } | Step::Replace { new: node, .. } => Some(node),
            Step::RemoveMember { .. }
            | Step::HandOver { .. }
            | Step::FlattenJoint
            | Step::AddLearner { .. }
            | Step::Settle { .. }
            | Step::RecordRemoval { .. } => None,
        }
    }
}

impl View {
    /// Whether a node is a member.
    pub(crate) fn is_member(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.learners.contains(&node)
    }

    /// What the leader knows about a member.
    pub(crate) fn seen(&self, node: NodeId) -> Seen {
        self.seen.get(&node).copied().unwrap_or_default()
    }

    /// The voters without a node.
    pub(crate) fn voters_without(&self, node: NodeId) -> BTreeSet<NodeId> {
        self.voters.iter().copied().filter(|voter| *voter != node).collect()
    }

    /// How many voters there will be once the pending joins are complete.
    pub(crate) fn voters_to_be(&self) -> usize {
        let added = self.joins.iter().filter(|(node, join)| {
            let is_added = join.replaces.is_none_or(|old| !self.voters.contains(&old));
            join.role == MemberRole::Voter && is_added && !self.voters.contains(*node)
        });
        self.voters.len() + added.count()
    }

    /// How many learners there will be once the pending joins are complete.
    pub(crate) fn learners_to_be(&self) -> usize {
        let will_vote = |node: &NodeId| self.joins.get(node).is_some_and(|join| join.role == MemberRole::Voter);
        let joins = self.joins.iter();
        let added = joins.filter(|(node, join)| join.role == MemberRole::Learner && !self.is_member(**node));
        self.learners.iter().filter(|node| !will_vote(node)).count() + added.count()
    }

    /// The learners that have been close behind for some time.
    pub(crate) fn caught_up(&self) -> impl Iterator<Item = NodeId> {
        self.seen.iter().filter(|(_, seen)| seen.caught_up).map(|(id, _)| *id)
    }

    /// How healthy the cluster would be with these voters.
    pub(crate) fn health(&self, voters: &BTreeSet<NodeId>) -> Health {
        let healthy = voters.iter().filter(|voter| self.seen(**voter).healthy).count() as u64;
        let voters = voters.len() as u64;
        Health { voters, healthy, needed: voters / 2 + 1 }
    }

    /// How healthy the cluster would be while these voters take over, and after it: until then, the present ones decide
    /// too. The worse of both.
    pub(crate) fn health_on_the_way_to(&self, next: &BTreeSet<NodeId>) -> Health {
        let (now, then) = (self.health(&self.voters), self.health(next));
        if now.is_enough() { then } else { now }
    }

    /// How healthy the voters are if one of them cannot be reached.
    pub(crate) fn health_without(&self, node: NodeId) -> Health {
        let health = self.health(&self.voters);
        let is_lost = self.voters.contains(&node) && self.seen(node).healthy;
        Health { healthy: health.healthy - u64::from(is_lost), ..health }
    }

    /// The voter that is most likely to take over from this node.
    pub(crate) fn successor(&self) -> Option<NodeId> {
        let is_to_go = |node| self.removals.contains(&node) || self.joins.values().any(|join| join.replaces == Some(node));
        let able = self.voters.iter().copied().filter(|voter| *voter != self.leader && !is_to_go(*voter));
        let able = able.filter_map(|voter| {
            let lag = self.seen(voter).lag.filter(|lag| self.seen(voter).healthy && *lag <= SUCCESSOR_LAG_MAX)?;
            Some((lag, voter))
        });
        able.min().map(|(_, voter)| voter)
    }
}

/// The next step, if there is one.
pub(crate) fn next_step(view: &View) -> Option<Step> {
    match view.phase {
        Phase::Uncommitted | Phase::Joint { abandoned: false } => None,
        Phase::Joint { abandoned: true } => Some(Step::FlattenJoint),
        Phase::Uniform => {
            let removals = view.removals.iter().map(|node| removal(view, *node));
            let joins = view.joins.iter().map(|(node, pending)| join(view, *node, *pending));
            removals.chain(joins).find_map(Result::ok)
        }
    }
}

/// The next step of a removal.
pub(crate) fn removal(view: &View, node: NodeId) -> Verdict {
    // The end of the removal drops the join. Only the join names the member that the node has replaced.
    if let Some(PendingJoin { replaces: Some(old), is_replaced_recorded: false, .. }) = view.joins.get(&node)
        && !view.is_member(*old)
    {
        return Ok(Step::RecordRemoval { node: *old });
    }
    if view.is_member(node) { leave(view, node) } else { Ok(Step::RecordRemoval { node }) }
}

/// Takes a member out.
fn leave(view: &View, node: NodeId) -> Verdict {
    if !view.voters.contains(&node) {
        return Ok(Step::RemoveMember { node });
    }
    let mut voters = view.voters.clone();
    voters.remove(&node);
    if voters.is_empty() {
        return Err(format!("node {node} is the last voter"));
    }
    view.health_on_the_way_to(&voters).require()?;
    if node == view.leader { hand_over(view) } else { Ok(Step::RemoveMember { node }) }
}

fn hand_over(view: &View) -> Verdict {
    let to = view.successor().ok_or("no other voter can take over the leadership")?;
    Ok(Step::HandOver { to })
}

/// The next step of a join.
pub(crate) fn join(view: &View, node: NodeId, join: PendingJoin) -> Verdict {
    if view.removals.contains(&node) {
        return Err("it is being removed".to_owned());
    }
    // Its own join must not bring it back. The record of its removal ends that join.
    if let Some((new, _)) = view.joins.iter().find(|(_, other)| other.replaces == Some(node)) {
        return Err(format!("node {new} replaces it"));
    }
    if !view.is_member(node) {
        return Ok(Step::AddLearner { node });
    }
    let votes = view.voters.contains(&node);
    match join.role {
        MemberRole::Voter if !votes => become_voter(view, node, join.replaces),
        MemberRole::Learner if !votes && join.replaces.is_some() => {
            require_caught_up(view, node)?;
            finish(view, node, join)
        }
        MemberRole::Learner if !view.seen(node).healthy => Err(does_not_answer()),
        MemberRole::Voter | MemberRole::Learner => finish(view, node, join),
    }
}

/// Gives a learner its vote; if it replaces a voter, the vote of that one.
fn become_voter(view: &View, node: NodeId, replaces: Option<NodeId>) -> Verdict {
    require_caught_up(view, node)?;
    let old = replaces.filter(|old| view.voters.contains(old));
    let mut voters = view.voters.clone();
    voters.insert(node);
    if let Some(old) = old {
        voters.remove(&old);
    }
    view.health_on_the_way_to(&voters).require()?;
    match old {
        // No other voter could take over yet: the new one gets its vote first.
        Some(old) if old == view.leader && view.voters.len() == 1 => Ok(Step::Promote { node }),
        Some(old) if old == view.leader => hand_over(view),
        Some(old) => Ok(Step::Replace { new: node, old }),
        None if view.voters.len() >= usize::from(VOTERS_MAX) => {
            Err(format!("the cluster already has {VOTERS_MAX} voters, which is the maximum: remove or demote one first"))
        }
        None => Ok(Step::Promote { node }),
    }
}

/// The node has its role: what is left is the member that it replaces.
fn finish(view: &View, node: NodeId, join: PendingJoin) -> Verdict {
    match join.replaces {
        Some(old) if view.is_member(old) => leave(view, old),
        Some(old) if !join.is_replaced_recorded => Ok(Step::RecordRemoval { node: old }),
        Some(_) | None => Ok(Step::Settle { node }),
    }
}

fn require_caught_up(view: &View, node: NodeId) -> Result<(), String> {
    let seen = view.seen(node);
    if may_vote(seen) {
        return Ok(());
    }
    Err(match seen.lag {
        Some(lag) if seen.healthy && lag > PROMOTION_LAG_MAX => format!("it is {lag} log entries behind the leader"),
        Some(_) if seen.healthy => "it has almost caught up".to_owned(),
        None if seen.healthy => "it has received no log entry yet".to_owned(),
        Some(_) | None => does_not_answer(),
    })
}

fn does_not_answer() -> String {
    "it does not answer the leader: start it, or check its address for peers".to_owned()
}

/// Whether a learner may become a voter: always once it has caught up, and never before, except with the planted bug.
fn may_vote(seen: Seen) -> bool {
    seen.caught_up || planted::has(Bug::PromotesTooEarly)
}

/// Never true, except with the planted bug.
fn skips_health_check() -> bool {
    planted::has(Bug::RemovesUnchecked)
}

#[cfg(test)]
mod tests;

//! What a node knows of itself and of its cluster, for people and for metrics.

use crate::{
    base::{
        addresses::Addresses,
        aliases::LogId,
        types::{Member, Types},
    },
    core::{losses::Losses, round_trips::RoundTrips},
};
use fairhold_types::{ClusterId, Incarnation, NodeId, Revision};
use openraft::{AsyncRuntime, Instant, RaftMetrics, ServerState};
use std::{collections::BTreeMap, time::Duration};

/// A member that acknowledged nothing for so many leases is taken for one that is down.
pub(crate) const SILENT_LEASES: u32 = 4;

/// What a node does in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows a leader, or waits for one.
    Follower,
    /// It stands for election.
    Candidate,
    /// It has no vote, or no cluster yet.
    Learner,
    /// It has stopped.
    Stopped,
}

/// What a node knows of itself and of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// This node.
    pub id: NodeId,
    /// The cluster, once it has formed and this node has heard of it.
    pub cluster: Option<ClusterId>,
    /// Its term.
    pub term: u64,
    /// The leader, as far as it knows.
    pub leader: Option<NodeId>,
    /// Its role.
    pub role: Role,
    /// The last entry of its log.
    pub last_log_index: Option<u64>,
    /// The last entry in its state.
    pub applied: Option<u64>,
    /// The last entry in its newest snapshot.
    pub snapshot: Option<u64>,
    /// The last entry that was purged from its log.
    pub purged: Option<u64>,
    /// Its state's revision.
    pub revision: Revision,
    /// The members; empty before the cluster has formed.
    pub members: Vec<MemberStatus>,
}

/// A member, as a node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// The member.
    pub id: NodeId,
    /// Where this node reaches it, and its data directory.
    pub member: Member,
    /// Whether it votes.
    pub voter: bool,
    /// The last entry that it is known to have; if it has lost entries, by its own report. Only the leader knows.
    pub matched: Option<u64>,
    /// How many entries it is behind the leader; only the leader knows.
    pub lag: Option<u64>,
    /// How many entries its storage has lost that it had acknowledged. It takes no part until it has them again.
    pub lost_entries: Option<u64>,
    /// How long it has acknowledged nothing; only the leader knows, about the other members.
    pub silent: Option<Duration>,
    /// How long it takes to answer a heartbeat, in milliseconds, rounded up; only the leader knows, about the other members.
    pub round_trip: Option<Duration>,
}

pub(crate) fn status<RT: AsyncRuntime>(
    metrics: &RaftMetrics<Types<RT>>,
    (losses, addresses, round_trips): (&Losses, &Addresses, &RoundTrips),
    cluster: Option<ClusterId>,
    revision: Revision,
) -> ReplicaStatus {
    let index = |id: &Option<LogId>| id.map(|id| id.index);
    let membership = &metrics.membership_config;
    let member = |(&id, member): (&NodeId, &Member)| {
        let known = metrics.replication.as_ref().and_then(|replication| replication.get(&id));
        let lost = losses.of(id);
        // openraft never takes back what was acknowledged once.
        let matched = lost.as_ref().map_or_else(|| known.and_then(index), |lost| lost.has);
        MemberStatus {
            id,
            member: addresses.of(id, member),
            voter: membership.voter_ids().any(|voter| voter == id),
            matched,
            // Entries count from 0: a node that has none is behind by one more than the last index.
            silent: silent_for(metrics, id),
            round_trip: round_trips.of(id).filter(|_| metrics.state == ServerState::Leader),
            lag: known.map(|_| next(metrics.last_log_index).saturating_sub(next(matched))),
            lost_entries: lost.map(|lost| lost.count()),
        }
    };
    let (role, leader) = match (&metrics.running_state, metrics.state) {
        (Err(_), _) | (Ok(()), ServerState::Shutdown) => (Role::Stopped, None),
        (Ok(()), ServerState::Leader) => (Role::Leader, metrics.current_leader),
        (Ok(()), ServerState::Follower) => (Role::Follower, metrics.current_leader),
        (Ok(()), ServerState::Candidate) => (Role::Candidate, metrics.current_leader),
        (Ok(()), ServerState::Learner) => (Role::Learner, metrics.current_leader),
    };
    ReplicaStatus {
        id: metrics.id,
        cluster,
        term: metrics.current_term,
        leader,
        role,
        last_log_index: metrics.last_log_index,
        applied: index(&metrics.last_applied),
        snapshot: index(&metrics.snapshot),
        purged: index(&metrics.purged),
        revision,
        members: membership.nodes().map(member).collect(),
    }
}

/// For how long a member has acknowledged nothing; `None` where that is not known, as of one that never did.
pub(crate) fn silent_for<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, id: NodeId) -> Option<Duration> {
    let heard = metrics.heartbeat.as_ref().filter(|_| id != metrics.id)?.get(&id)?.as_ref()?;
    Some(RT::Instant::now().saturating_duration_since(**heard))
}

pub(crate) fn is_silent<RT: AsyncRuntime>(lease: Duration, metrics: &RaftMetrics<Types<RT>>, id: NodeId) -> bool {
    silent_for(metrics, id).is_none_or(|silent| silent > lease * SILENT_LEASES)
}

/// The data directory of each member; empty before the cluster has formed.
pub(crate) fn incarnations<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> BTreeMap<NodeId, Incarnation> {
    metrics.membership_config.nodes().map(|(id, member)| (*id, member.incarnation)).collect()
}

/// Nothing was ever written, not even a vote.
pub(crate) fn is_empty<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> bool {
    metrics.last_log_index.is_none() && metrics.current_term == 0 && metrics.membership_config.nodes().next().is_none()
}

fn next(index: Option<u64>) -> u64 {
    index.map_or(0, |index| index + 1)
}

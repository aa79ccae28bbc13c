//! The status of a node and of its cluster, as this node knows it: for people and for metrics.

use crate::{
    base::{
        aliases::LogId,
        member_addresses::MemberAddresses,
        types::{Member, Types},
    },
    core::{
        losses::Losses,
        round_trips::{Percentiles, RoundTrips},
    },
};
use fairhold_types::{ClusterId, Incarnation, NodeId, Revision};
use openraft::{AsyncRuntime, Instant, RaftMetrics, ServerState};
use std::{collections::BTreeMap, time::Duration};

/// A member that has acknowledged nothing for this many leases counts as down.
pub(crate) const SILENT_LEASES: u32 = 4;

/// A node's role in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The leader.
    Leader,
    /// It follows a leader, or waits for one.
    Follower,
    /// It is a candidate in an election.
    Candidate,
    /// It has no vote, or no cluster yet.
    Learner,
    /// It has stopped.
    Stopped,
}

/// The status of a node and of its cluster, as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// This node.
    pub id: NodeId,
    /// The cluster, once it has formed and this node knows it.
    pub cluster: Option<ClusterId>,
    /// Its term.
    pub term: u64,
    /// The leader, if this node knows one. A node that is cut off names its last one.
    pub leader: Option<NodeId>,
    /// Whether another node, as the leader, has sent a message within its lease.
    pub hears_from_leader: bool,
    /// Its role.
    pub role: Role,
    /// The last entry of its log.
    pub last_log_index: Option<u64>,
    /// The last entry in its state.
    pub applied: Option<u64>,
    /// The last entry in its newest snapshot.
    pub snapshot: Option<u64>,
    /// The last purged entry of its log.
    pub purged: Option<u64>,
    /// The revision of its state.
    pub revision: Revision,
    /// The members; empty before the cluster has formed.
    pub members: Vec<MemberStatus>,
}

/// A member, as a node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// The member.
    pub id: NodeId,
    /// Its addresses, as this node uses them, and its data directory.
    pub member: Member,
    /// Whether it votes.
    pub voter: bool,
    /// The index of the last entry that it has acknowledged or, after a loss, still has. Known only to the leader.
    pub matched: Option<u64>,
    /// How many entries it is behind the leader. Known only to the leader.
    pub lag: Option<u64>,
    /// How many acknowledged entries its storage has lost. The member takes no part until it has these entries again.
    pub lost_entries: Option<u64>,
    /// The time since its last acknowledgement. Known only to the leader, about other members.
    pub silent: Option<Duration>,
    /// The mean round trip of its heartbeats, rounded up to a millisecond. Known only to the leader, about other
    /// members.
    pub round_trip: Option<Duration>,
    /// The median of these round trips in the last minute, also rounded up.
    pub round_trip_p50: Option<Duration>,
    /// Their 99th percentile, also rounded up. openraft waits for an answer for one heartbeat interval at most: longer
    /// ones count as that.
    pub round_trip_p99: Option<Duration>,
}

pub(crate) fn status<RT: AsyncRuntime>(
    metrics: &RaftMetrics<Types<RT>>,
    (losses, addresses, round_trips): (&Losses, &MemberAddresses, &RoundTrips),
    cluster: Option<ClusterId>,
    revision: Revision,
    hears_from_leader: bool,
) -> ReplicaStatus {
    let index = |id: &Option<LogId>| id.map(|id| id.index);
    let membership = &metrics.membership_config;
    let member = |(&id, member): (&NodeId, &Member)| {
        let matched = matched(metrics, losses, id);
        let percentiles = round_trips.percentiles(id).filter(|_| metrics.state == ServerState::Leader);
        let percentiles = percentiles.map(Percentiles::in_whole_millis);
        MemberStatus {
            id,
            member: addresses.of(id, member),
            voter: membership.voter_ids().any(|voter| voter == id),
            matched: matched.flatten(),
            silent: silent_for(metrics, id),
            round_trip: round_trips.of(id).filter(|_| metrics.state == ServerState::Leader),
            round_trip_p50: percentiles.map(|percentiles| percentiles.p50),
            round_trip_p99: percentiles.map(|percentiles| percentiles.p99),
            lag: lag_of(metrics, losses, id),
            lost_entries: losses.of(id).map(|lost| lost.count()),
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
        hears_from_leader,
        role,
        last_log_index: metrics.last_log_index,
        applied: index(&metrics.last_applied),
        snapshot: index(&metrics.snapshot),
        purged: index(&metrics.purged),
        revision,
        members: membership.nodes().map(member).collect(),
    }
}

/// The last entry that a member has, if any; `None` if this node does not replicate to it.
fn matched<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, losses: &Losses, id: NodeId) -> Option<Option<u64>> {
    let known = metrics.replication.as_ref()?.get(&id)?;
    // openraft never lowers an acknowledged index, so a reported loss takes precedence.
    Some(losses.of(id).map_or_else(|| known.map(|log_id| log_id.index), |lost| lost.has))
}

/// How many entries a member is behind this leader; `None` if this node does not replicate to it.
pub(crate) fn lag_of<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, losses: &Losses, id: NodeId) -> Option<u64> {
    let matched = matched(metrics, losses, id)?;
    Some(entry_count(metrics.last_log_index).saturating_sub(entry_count(matched)))
}

/// The same, but `None` if the member has no entry yet: what it lacks may come as a large snapshot.
pub(crate) fn lag_of_some_log<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, losses: &Losses, id: NodeId) -> Option<u64> {
    matched(metrics, losses, id).flatten().and_then(|_| lag_of(metrics, losses, id))
}

/// The time since a member's last acknowledgement; `None` if unknown, for example if it has acknowledged nothing yet.
pub(crate) fn silent_for<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, id: NodeId) -> Option<Duration> {
    Some(RT::Instant::now().saturating_duration_since(acknowledged_at(metrics, id)?))
}

/// When this leader sent the newest request that another member has acknowledged; `None` if unknown.
pub(crate) fn acknowledged_at<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, id: NodeId) -> Option<RT::Instant> {
    metrics.heartbeat.as_ref().filter(|_| id != metrics.id)?.get(&id)?.as_deref().copied()
}

pub(crate) fn is_silent<RT: AsyncRuntime>(lease: Duration, metrics: &RaftMetrics<Types<RT>>, id: NodeId) -> bool {
    silent_for(metrics, id).is_none_or(|silent| silent > lease * SILENT_LEASES)
}

/// The data directory of each member; empty before the cluster has formed.
pub(crate) fn incarnations<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> BTreeMap<NodeId, Incarnation> {
    metrics.membership_config.nodes().map(|(id, member)| (*id, member.incarnation)).collect()
}

/// Whether this node has never stored anything, not even a vote.
pub(crate) fn is_uninitialized<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> bool {
    metrics.last_log_index.is_none() && metrics.current_term == 0 && metrics.membership_config.nodes().next().is_none()
}

/// The number of entries up to an index. Indexes begin at 0.
fn entry_count(index: Option<u64>) -> u64 {
    index.map_or(0, |index| index + 1)
}

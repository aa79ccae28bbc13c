//! The calls that change the members and the settings of the cluster.

use fairhold_state::membership::Placement;
use fairhold_types::{GrantId, JoinTokenNumber, MemberRole, NodeId, Timing, time::WallMillis};
use std::time::Duration;

/// Creates a join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateJoinTokenCall {
    /// The caller's idempotency key, if any.
    pub key: Option<GrantId>,
    /// The role of the new node. `None` for that of the member that it replaces, or for a voter.
    pub role: Option<MemberRole>,
    /// The member that the new node replaces.
    pub replaces: Option<NodeId>,
    /// How long the token is valid; `None` if it is a standing one.
    pub ttl: Option<Duration>,
    /// With a standing token, new nodes may also join while the cluster has fewer voters than this.
    pub up_to: Option<u8>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// A join token that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJoinToken {
    /// Its facts.
    pub view: JoinTokenView,
    /// The token itself, for its creator; `None` if an earlier call with the same key created it.
    pub token: Option<String>,
}

/// A join token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenView {
    /// Its public number.
    pub number: JoinTokenNumber,
    /// The role of the new node.
    pub role: MemberRole,
    /// The member that the new node replaces.
    pub replaces: Option<NodeId>,
    /// Whether it can be used again and again.
    pub standing: bool,
    /// With a standing token, new nodes may also join while the cluster has fewer voters than this.
    pub up_to: Option<u8>,
    /// When it was created.
    pub created_at: WallMillis,
    /// When it becomes invalid.
    pub expires_at: Option<WallMillis>,
    /// The node that used it.
    pub used_by: Option<NodeId>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
}

/// What the state knows about a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFacts {
    /// The number of bytes that it has reported it can hold.
    pub capacity: Option<u64>,
    /// Its priority as the leader, and its zone.
    pub placement: Placement,
}

/// Sets the timing profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetTimingCall {
    /// The caller's idempotency key, if any.
    pub key: Option<GrantId>,
    /// The profile.
    pub timing: Timing,
    /// Set it even if the round trips between the voters are too long for it.
    pub force: bool,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// The timing profile, and the round trips that it must suit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimingView {
    /// The profile of the cluster.
    pub timing: Timing,
    /// The fastest profile that suits the longest round trip to a voter, if one does and a round trip is known.
    pub fits: Option<Timing>,
    /// The members.
    pub members: Vec<MemberRoundTrips>,
    /// Whether this node leads: only a leader knows the round trips.
    pub from_leader: bool,
}

/// The round trips between the leader and a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRoundTrips {
    /// The member's id.
    pub id: NodeId,
    /// Whether it votes.
    pub voter: bool,
    /// The mean of the last heartbeats.
    pub mean: Option<Duration>,
    /// The median of the last minute.
    pub p50: Option<Duration>,
    /// The 99th percentile of the last minute.
    pub p99: Option<Duration>,
}

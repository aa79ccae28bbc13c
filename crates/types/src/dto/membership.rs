//! The JSON bodies about join tokens, the members and the settings of the cluster.

use crate::{ClusterVersion, JoinTokenNumber, MemberRole, NodeId, Revision, Timing};
use serde::{Deserialize, Serialize};

/// A join token that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct CreatedJoinToken {
    /// Its public number, to list and revoke it.
    pub number: JoinTokenNumber,
    /// The token: one line, `fhj1.…`. It is a secret, and it is shown only this once: the answer to a repeated
    /// Idempotency-Key omits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The role of the new node.
    pub role: MemberRole,
    /// The member that the new node replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
    /// Whether it can be used again and again.
    pub standing: bool,
    /// With a standing token, new nodes may also join while the cluster has fewer voters than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u8>,
    /// When it becomes invalid, by the leader's clock; missing for a standing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The command that starts the new node. Replace HOST with its address, and put the token into the file.
    pub command: String,
}

/// The join tokens that can be used, and those that were used and are not over yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct JoinTokens {
    /// The tokens, by their numbers.
    pub tokens: Vec<JoinToken>,
}

/// A join token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct JoinToken {
    /// Its public number.
    pub number: JoinTokenNumber,
    /// The role of the new node.
    pub role: MemberRole,
    /// The member that the new node replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
    /// Whether it can be used again and again.
    pub standing: bool,
    /// With a standing token, new nodes may also join while the cluster has fewer voters than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u8>,
    /// When it was created.
    pub created_at: String,
    /// When it becomes invalid, by the leader's clock; missing for a standing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The node that used it; missing if it is unused, and for a standing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<NodeId>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
}

/// The members of the cluster, and the changes that are under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Members {
    /// The members, by their ids.
    pub members: Vec<MemberEntry>,
    /// The joins that are not done yet.
    pub joins: Vec<Join>,
    /// The nodes that were removed last, at most 1,000. They cannot take part again.
    pub removed: Vec<RemovedMember>,
    /// Whether a change of the voters is half done: the voters before it and those after it both count.
    pub joint: bool,
    /// Whether the leader answers, and a majority still follows it. Otherwise this is the view of one node, which may be
    /// out of date.
    pub from_leader: bool,
}

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct MemberEntry {
    /// Its id.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for peers.
    pub peer: String,
    /// Its role: `leader`, `follower` or `learner`. A leader and a follower are voters.
    pub role: String,
    /// How much it should lead, from 0 to 100; 50 if nobody has set it.
    pub priority: u8,
    /// Where it runs, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How many entries it is behind the leader; known only to the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// How long it has acknowledged nothing; known only to the leader, for the other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_for: Option<String>,
    /// If its removal was requested: what the removal waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<String>,
}

/// How far a join is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum JoinPhase {
    /// The node has its id, and is not a member yet.
    Pending,
    /// It is a learner that receives the state and the log.
    CatchingUp,
    /// It has caught up, and becomes a voter.
    Promoting,
}

/// A join that is not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Join {
    /// The id of the new node, which the cluster chose.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for peers.
    pub peer: String,
    /// The role that it gets.
    pub role: MemberRole,
    /// The member that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
    /// How far the join is.
    pub phase: JoinPhase,
    /// How many entries it is behind the leader; known only to the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// What the join waits for, if anything holds it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When the node showed its join token.
    pub requested_at: String,
}

/// A node that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RemovedMember {
    /// Its id, which no node gets again.
    pub id: NodeId,
    /// The revision at which its removal was recorded.
    pub revision: Revision,
    /// Which client removed it, or which node replaced it; may be empty.
    pub by: String,
    /// When it was removed.
    pub at: String,
}

/// The settings of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Settings {
    /// The timing profile. A node that started before the last change still uses the one before it.
    pub timing: Timing,
    /// The cluster's version; only `POST /v1/cluster/upgrade/finalize` changes it.
    pub cluster_version: ClusterVersion,
}

/// The timing profile, and the round trips that it must suit, as the leader measures them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ClusterTiming {
    /// The profile of the cluster.
    pub timing: Timing,
    /// The fastest profile that suits the longest `round_trip_p99` of a voter, or four times its `round_trip_p50` if that
    /// is less: a few slow heartbeats do no harm. Missing if no profile suits it, or if no round trip is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<Timing>,
    /// The members and their round trips.
    pub members: Vec<MemberTiming>,
    /// Whether the leader answers: only the leader knows the round trips. `Fairhold-Leader` in the answer names it.
    pub from_leader: bool,
}

/// The round trips between the leader and a member. The leader has none to itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct MemberTiming {
    /// The member's id.
    pub id: NodeId,
    /// Whether it votes. Round trips to learners do not matter for the profile.
    pub voter: bool,
    /// The mean of the last heartbeats, in milliseconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<String>,
    /// The median of the last minute, in milliseconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_p50: Option<String>,
    /// The 99th percentile of the last minute, in milliseconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_p99: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_request_shows_no_token() {
        let created = CreatedJoinToken {
            number: JoinTokenNumber(7),
            token: None,
            role: MemberRole::Voter,
            replaces: None,
            standing: true,
            up_to: None,
            expires_at: None,
            command: "fairhold serve".to_owned(),
        };
        let json = r#"{"number":7,"role":"voter","standing":true,"command":"fairhold serve"}"#;
        assert_eq!(serde_json::to_string(&created).unwrap(), json);
        assert_eq!(serde_json::from_str::<CreatedJoinToken>(json).unwrap(), created);
    }

    #[test]
    fn unknown_facts_about_a_member_are_omitted() {
        let timing = MemberTiming { id: 1, voter: true, round_trip: None, round_trip_p50: None, round_trip_p99: None };
        assert_eq!(serde_json::to_string(&timing).unwrap(), r#"{"id":1,"voter":true}"#);
        assert_eq!(serde_json::to_string(&JoinPhase::CatchingUp).unwrap(), r#""catching_up""#);
    }
}

//! The calls that change the members of the cluster, and its settings.

use super::{
    address::{NodeUrl, PeerAddress},
    bounds::{JoinTokenTtl, MemberPriority, PositiveNumber, VoterCount, Zone, is_default},
    read::Consistency,
};
use crate::{MemberRole, Timing};
use serde::{Deserialize, Serialize};

/// `POST /v1/cluster/join-tokens`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJoinToken {
    /// Whether the new node becomes a voter, once it has caught up, or stays a learner. With `replaces`, the default is the
    /// role of that member, and another one is refused.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "voter", "example" = "voter")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Option<MemberRole>,
    /// The member that the new node replaces: the two are exchanged in one step, so the number of voters stays the
    /// same.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 2)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub replaces: Option<PositiveNumber>,
    /// How long the token is valid. Not with `standing`.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "3600s", "example" = "1h")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<JoinTokenTtl>,
    /// The token can be used again and again until you revoke it, but only to replace members that have been silent for
    /// 60 seconds, or with `up_to` to add voters. Not with `replaces`, and only for voters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub standing: bool,
    /// With `standing`: new nodes may also join while the cluster has fewer voters than this.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 5)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub up_to: Option<VoterCount>,
}

/// `GET /v1/cluster/join-tokens`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListJoinTokens {
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `PATCH /v1/cluster/members/{id}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetMember {
    /// Its new address for clients. The node must already listen there: the cluster does not check it.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "http://n2:7171")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub url: Option<NodeUrl>,
    /// Its new address for the other nodes. The leader connects to it first, and refuses the change if another node
    /// answers there, or a copy of this one. If the member itself leads, it hands over to the node that checks this.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "n2:7271")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub peer: Option<PeerAddress>,
    /// Change the address even if nobody answers there yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
    /// How much it should lead: a leader hands over to a healthy voter with a higher priority. The default of a member
    /// is
    /// 50.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 80)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Option<MemberPriority>,
    /// Where it runs, for people; an empty text removes it.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "eu-west-1a")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub zone: Option<Zone>,
    /// `true` makes a learner a voter, `false` makes a voter a learner. Not with other parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub voter: Option<bool>,
}

/// `GET /v1/cluster/settings`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowSettings {
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `PATCH /v1/cluster/settings`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetSettings {
    /// The timing profile, which must suit the round trips between the voters. Each node uses a new one after its next
    /// start.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "wan")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub timing: Option<Timing>,
    /// Set the profile even if the round trips between the voters are too long for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
}

//! The calls on the tree's nodes.

use super::{
    bounded::BoundedText,
    bounds::{NodeTtl, Number, PageLimit, Wait, is_default},
    read::Consistency,
};
use crate::{SessionId, limits::PATH_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// `GET /v1/nodes/{path}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GetNode {
    /// Return the stat instead of the value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub meta: bool,
    /// List the children.
    #[serde(default, skip_serializing_if = "is_default")]
    pub children: bool,
    /// List all nodes below it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recursive: bool,
    /// The number of nodes on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same listing.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "nightly")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<BoundedText<PATH_BYTES_MAX>>,
    /// How long to wait for a change; `304` if there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Option<Wait>,
    /// Wait for a change after this revision, the `Fairhold-Revision` of an earlier answer; without it, for a change
    /// after the current revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<Number>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `PUT /v1/nodes/{path}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutNode {
    /// Create missing parents.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parents: bool,
    /// The id of the session that will own the node: the node ends with the session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<SessionId>,
    /// The server removes the node once it has been unchanged and without children for this long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<NodeTtl>,
    /// The server removes the node some time after its last child is removed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub container: bool,
}

/// `POST /v1/nodes/{path}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateNode {
    /// Required. To choose the whole name yourself, use PUT.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sequential: bool,
    /// The prefix of its name; the path with the prefix and the number must be within the limits.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::NAME_PREFIX, "example" = "task-")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<BoundedText<PATH_BYTES_MAX>>,
    /// Create missing parents.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parents: bool,
    /// The id of the session that will own the node: the node ends with the session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<SessionId>,
    /// The server removes the node once it has been unchanged and without children for this long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<NodeTtl>,
}

/// `DELETE /v1/nodes/{path}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteNode {
    /// Delete everything below it too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recursive: bool,
}

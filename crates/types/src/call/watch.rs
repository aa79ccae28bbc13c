//! The call that watches.

use super::{
    bounds::{Number, PositiveNumber, is_default},
    read::Consistency,
};
use crate::{LockName, Path};
use serde::{Deserialize, Serialize};

/// `GET /v1/watch`: each parameter adds to what is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// A node of the tree, whether it exists or not; watch locks by name.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::NODE_PATH)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<Path>,
    /// Also everything below that path or lock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recursive: bool,
    /// Also the direct children of that path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub children: bool,
    /// A lock, whether it was ever used or not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lock: Option<LockName>,
    /// Every lock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locks: bool,
    /// A session, by its public number, and its grants.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<Number>,
    /// Every session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sessions: bool,
    /// The members of the cluster, their settings, and its version; with no other parameter of these, and without
    /// `initial`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster: bool,
    /// Start at this revision, at most the next one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<PositiveNumber>,
    /// Start with the current state.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial: bool,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

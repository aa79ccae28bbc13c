//! The call that lists recent events.

use super::{
    bounds::{EventCursor, LockPrefix, Number, PageLimit, PositiveNumber, is_default},
    read::Consistency,
};
use crate::LockName;
use serde::{Deserialize, Serialize};

/// The type of an event: its `type` in a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// A node of the tree was created.
    Created,
    /// A node of the tree was written, or the timeout of a session changed.
    Changed,
    /// A node of the tree was deleted.
    Deleted,
    /// A contender entered a queue.
    Queued,
    /// A contender became a holder.
    Granted,
    /// A grant or a session ended.
    Ended,
    /// A lock delay started.
    Cooling,
    /// A lock delay ended.
    Cooled,
    /// An exclusive holder became a shared one.
    Downgraded,
    /// An administrator took a lock from its holders.
    Broken,
    /// An election has a new leader or value.
    Proclaimed,
    /// An election lost its leader.
    Vacated,
    /// An administrator changed settings of a lock, a member or the cluster.
    Set,
    /// An administrator asked a holder to release a lock.
    Revoke,
    /// A lock was forgotten.
    Forgotten,
    /// A session was opened.
    Opened,
    /// A node began to join the cluster.
    Joining,
    /// A node became a member of the cluster.
    Joined,
    /// An administrator requested the removal of a member.
    Removing,
    /// A node is no longer a member.
    Removed,
    /// An upgrade was finalized.
    Finalized,
}

/// `GET /v1/events`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// Only events of revisions before this one.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 60)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: Option<PositiveNumber>,
    /// Only events of revisions after this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<Number>,
    /// Only events of this lock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lock: Option<LockName>,
    /// Only events of locks whose name has this prefix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: Option<LockPrefix>,
    /// Only events of the session with this number, and of its grants.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<Number>,
    /// Only events of this type.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "granted")))]
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub event_type: Option<EventType>,
    /// The number of events on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::EVENT_PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same listing.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::EVENT_CURSOR, "example" = "57-1")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<EventCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

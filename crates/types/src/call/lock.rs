//! The calls on locks: list, show, check, set, revoke and break.

use super::{
    bounds::{
        HistoriesCursor, HistoryCursor, LockCursor, LockNamePart, LockPrefix, MaxHoldSetting, MaxWaiters, MomentText, Number,
        OwnerName, PageLimit, PermitLimit, QueueAround, QueueCursor, Reason, Wait, is_default,
    },
    read::Consistency,
};
use crate::{GrantId, HoldingEnd};
use serde::{Deserialize, Serialize};

/// Which locks a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LockFilter {
    /// Those that are held.
    Held,
    /// Those that have waiters.
    Queued,
    /// Those whose lock delay is running.
    Cooling,
    /// Those without holders and waiters.
    Idle,
}

/// The order of a list of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LockOrder {
    /// By name.
    Name,
    /// The locks with the most waiters first.
    Waiters,
    /// The locks with the longest current wait first.
    LongestWait,
    /// The locks with the longest current hold first.
    HeldFor,
    /// The locks with the most total wait time first.
    Wait,
    /// The locks with the most total hold time first.
    Hold,
    /// The locks with the most grants that had to wait first.
    Contention,
}

/// `GET /v1/locks`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListLocks {
    /// Only locks whose name has this prefix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: Option<LockPrefix>,
    /// Only locks whose name contains this text, in upper or lower case.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "order")))]
    #[serde(default, rename = "match", skip_serializing_if = "is_default")]
    pub name_part: Option<LockNamePart>,
    /// Only locks that a grant of this owner holds or waits for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<OwnerName>,
    /// Only locks that are held, have waiters, are cooling or are idle.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: Option<LockFilter>,
    /// By name; or first the locks with the most waiters, the longest current wait, the longest current hold, the longest
    /// total wait time, the longest total hold time, or the most grants that had to wait.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "name")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub sort: Option<LockOrder>,
    /// The number of locks on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same listing.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::HEX_CURSOR, "example" = "6e303a6465706c6f79")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<LockCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `GET /v1/locks/{name}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowLock {
    /// The number of holders on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<Number>,
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

/// `GET /v1/locks/{name}/queue`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowQueue {
    /// The number of entries on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::QUEUE_CURSOR, "example" = "queued-0-57")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<QueueCursor>,
    /// Show the page around the grant with this number, which must hold the lock or wait for it; `last` shows the end
    /// of the queue. You cannot combine it with `cursor`.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::QUEUE_AROUND, "example" = "57")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub around: Option<QueueAround>,
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

/// `GET /v1/locks/{name}/history`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Only the holders at this moment: a revision, or an RFC 3339 time.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::MOMENT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: Option<MomentText>,
    /// The number of entries on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same history.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::HISTORY_CURSOR, "example" = "57-41")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<HistoryCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `GET /v1/history`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListHistories {
    /// Only the holders at this moment: a revision, or an RFC 3339 time. You cannot combine it with `from` or `to`.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::MOMENT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: Option<MomentText>,
    /// Only holds that ended after this moment, or have not ended: a revision, or an RFC 3339 time.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::MOMENT, "example" = "2026-11-21T14:00:00Z")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<MomentText>,
    /// Only holds that began before this moment: a revision, or an RFC 3339 time.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::MOMENT, "example" = "2026-11-21T14:10:00Z")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub to: Option<MomentText>,
    /// Only holds of this owner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<OwnerName>,
    /// Only locks whose name has this prefix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: Option<LockPrefix>,
    /// Only holds that ended in this way.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "expired")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended: Option<HoldingEnd>,
    /// The number of entries on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same listing.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::HEX_CURSOR, "example" = "35372d34313a677075")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<HistoriesCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `GET /v1/locks/{name}/fence`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckFence {
    /// The token to check.
    pub token: Number,
    /// The grant that must have it, to tell apart shared grants with the same token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grant: Option<GrantId>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `PATCH /v1/locks/{name}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetLock {
    /// How many permits the lock has.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 5)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PermitLimit>,
    /// The maximum number of waiters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_waiters: Option<MaxWaiters>,
    /// The maximum hold time of new grants; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_hold: Option<MaxHoldSetting>,
}

/// `POST /v1/locks/{name}/holders/revoke`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeLock {
    /// The reason, for the holders.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: Option<Reason>,
}

/// `DELETE /v1/locks/{name}/holders`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakLock {
    /// The reason, for the holders and the history.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: Option<Reason>,
    /// Break the lock only while a holder has this fencing token: a later holder keeps it. Otherwise the answer is `412
    /// stale_token`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub token: Option<Number>,
}

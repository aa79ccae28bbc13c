//! The JSON bodies of the API. Durations are text with a unit, times are RFC 3339 in UTC, and unknown values are omitted.

use crate::{FencingToken, GrantId, GrantNumber, HoldingEnd, LockName, Mode, Path, Revision, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod access;
mod alarms;
mod audit;
mod cluster;
mod history;
mod listing;
mod membership;
mod overview;
mod queue;
mod sessions;
mod tenants;
mod tree;

pub use access::{
    AccessCheck, AccessMode, AccessStatus, AccessTokenEntry, BindingEntry, BindingList, CreatedAccessToken, RoleEntry, RoleList,
    UserEntry, UserList, WhoAmI,
};
pub use alarms::{Alarm, AlarmSeverity, Alarms};
pub use audit::{AuditChainHead, AuditedAct};
pub use cluster::{
    AuditStatus, CertificateStatus, CertificateUrgency, Cluster, ClusterUpgrade, Defect, Host, Leader, Member, MemberFigures,
    Readiness, SnapshotTaken, UpgradeMember, Version,
};
pub use history::{Holding, LockHistories, LockStatistics, Spans};
pub use listing::{ListedGrant, ListedHolder, ListedLock, LockState};
pub use membership::{
    ClusterTiming, CreatedJoinToken, Join, JoinPhase, JoinToken, JoinTokens, MemberEntry, MemberTiming, Members, RemovedMember,
    Settings,
};
pub use overview::{
    AwaitedHold, HotLockRow, LongHold, LongWait, Overview, OverviewProblem, OverviewRecent, OverviewSeries, OverviewTotals,
    RefusedWaitRow, WaitItem, WaitPlace, Waits,
};
pub use queue::{Queue, QueueItem};
pub use sessions::{Session, SessionGrant};
pub use tenants::{QuotaEntry, TenantEntry, TenantList, TenantQuotas};
pub use tree::{Stat, Written};

/// Key-value pairs, for people.
pub type Meta = BTreeMap<String, String>;

/// The state of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum GrantState {
    /// It waits in the queue.
    Queued,
    /// It is held.
    Held,
    /// Its session expired while it held the lock, and the lock delay is still running.
    Cooling,
}

/// A live grant, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Grant {
    /// Its secret id.
    pub id: GrantId,
    /// The lock; the first of several.
    pub lock: LockName,
    /// Held or queued.
    pub state: GrantState,
    /// Its fencing token while it is held; one token for all its locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Exclusive or shared: the mode of the first lock if there are several.
    pub mode: Mode,
    /// All its locks, in the order of the request, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<Want>,
    /// How many times its owner holds it, if more than once (`reentrant`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<u64>,
    /// An administrator's request to release the lock, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// Its owner, for people to read.
    pub owner: String,
    /// The time until it expires without another renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// When it expires, by this node's clock, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Its public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// The number of permits.
    pub permits: u32,
    /// Its position in the queue while it waits: the number of grants ahead, plus 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// `false` if it waits and was not checked for a deadlock, because too many grants wait for one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlock_checked: Option<bool>,
    /// The grant that it waits for, while it waits; left out if more than 64 shared grants wait between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Contender>,
    /// The first few grants ahead while it waits, in order: holders first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<Contender>,
    /// The estimated time until it is held, as in the entries of a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// When it queued.
    pub queued_at: String,
    /// When it was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since: Option<String>,
    /// Key-value pairs, for people.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// An administrator's request to a holder to release the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Revoked {
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
}

/// One lock of a request for several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"an object with a lock's name, such as {"name": "reports"}"#)]
pub struct Want {
    /// Its name.
    pub name: LockName,
    /// Exclusive or shared.
    #[serde(default)]
    pub mode: Mode,
}

/// A grant that holds a lock or is ahead of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Contender {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// When it was granted, or when it queued if it still waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Its token while it holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// How long it has held the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// Key-value pairs, for people; only for the first few grants ahead.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// A lock, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Lock {
    /// Its name.
    pub lock: LockName,
    /// A page of its holders.
    pub holders: Vec<QueueItem>,
    /// The number of holders.
    #[serde(default)]
    pub holder_count: u64,
    /// The number of waiters.
    pub queue_length: u64,
    /// How many permits the lock has.
    pub limit: u32,
    /// The maximum number of waiters, if an administrator set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiters: Option<u64>,
    /// The maximum hold time of a grant, if an administrator set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold: Option<String>,
    /// The last token issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_token: Option<FencingToken>,
    /// Its statistics; left out if the lock was never held, or was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<LockStatistics>,
    /// Where the next page of holders begins; `null` on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A fencing token was checked and belongs to a held grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct FenceCheck {
    /// Always true: a stale token gets a problem instead.
    pub current: bool,
}

/// A renewed grant. The answer names it, so you cannot mistake another answer for this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RenewedGrant {
    /// Its secret id, as in the request.
    pub id: GrantId,
    /// Its time to live without a renewal.
    pub ttl: String,
    /// The time until it expires without another renewal.
    pub expires_in: String,
    /// When it expires, by this node's clock, for people.
    pub expires_at: String,
}

/// A session that was kept alive. The answer names it, so you cannot mistake another answer for this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RenewedSession {
    /// Its secret id.
    pub id: SessionId,
    /// How long it lives without a keepalive.
    pub ttl: String,
    /// The time until it expires without another keepalive.
    pub expires_in: String,
    /// When it expires, by this node's clock, for people.
    pub expires_at: String,
}

/// A session that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct OpenedSession {
    /// Its secret id.
    pub id: SessionId,
    /// Its public number.
    pub number: SessionNumber,
    /// How long it lives without a keepalive.
    pub ttl: String,
    /// The time until it expires without a keepalive.
    pub expires_in: String,
}

/// The result of one keepalive for many sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct KeptAlive {
    /// The sessions that are alive.
    pub renewed: Vec<SessionId>,
    /// The time until each of them expires without another keepalive, in the same order.
    pub ttls: Vec<String>,
    /// The sessions that have ended or are unknown.
    pub expired: Vec<SessionId>,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{T}Page"))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Where the next page begins; `null` on the last one.
    pub next_cursor: Option<String>,
}

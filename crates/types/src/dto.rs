//! The JSON bodies of the API. Durations are text with a unit, times are RFC 3339 in UTC, and what is not known is left out.

use crate::{FencingToken, GrantId, GrantNumber, HoldingEnd, LockName, Mode, Path, Revision, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod cluster;
mod history;
mod sessions;
mod tree;

pub use cluster::{Cluster, Defect, Host, Leader, Member, Readiness, SnapshotTaken, Version};
pub use history::{Holding, LockStatistics, Spans};
pub use sessions::{Session, SessionGrant};
pub use tree::{Stat, Written};

/// Pairs of text, for people.
pub type Meta = BTreeMap<String, String>;

/// Where a grant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum Standing {
    /// It waits.
    Queued,
    /// It is held.
    Held,
    /// Its session expired while it held, and its lock delay runs.
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
    pub state: Standing,
    /// Its fencing token, while it is held; the same for several locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Alone or shared; so it has the first of several.
    pub mode: Mode,
    /// Where it has several: all its locks, in the order in which they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<Want>,
    /// How many holds its owner has of it, where there are several (`reentrant`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<u64>,
    /// An administrator asks to give it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// Who owns it, for people.
    pub owner: String,
    /// How long it lives without a further renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// The same by this node's wall clock, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Its public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// How many permits.
    pub permits: u32,
    /// Those ahead and 1, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// `false` while it waits and nobody checked whether it waits in a circle: too many wait for one another there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlock_checked: Option<bool>,
    /// The one that it waits for, while it waits; left out where more than 64 readers wait between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Contender>,
    /// The first of those ahead, in order, while it waits: holders first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<Contender>,
    /// How long it may wait yet, as a queue's entries have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// When it queued.
    pub queued_at: String,
    /// When it was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since: Option<String>,
    /// Pairs of text, for people.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// A polite word of an administrator to one who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Revoked {
    /// Who asks, in words.
    pub by: String,
    /// Why, in words; may be empty.
    pub reason: String,
}

/// A lock of a request for several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Want {
    /// Its name.
    pub name: LockName,
    /// Alone or shared.
    #[serde(default)]
    pub mode: Mode,
}

/// One who holds a lock or stands before the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Contender {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Who owns it, for people.
    pub owner: String,
    /// Since when it holds, or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Its token, while it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// For how long it has held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// Pairs of text, for people: of the first of those ahead.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// One who stands in a queue, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct QueueItem {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Held, queued or cooling.
    pub state: Standing,
    /// Those ahead, holders counted, and 1.
    pub position: u64,
    /// Its token, while it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Alone or shared.
    pub mode: Mode,
    /// How many permits.
    pub permits: u32,
    /// Who owns it, for people.
    pub owner: String,
    /// Since when it is in this state: granted, or queued while it waits.
    pub since: String,
    /// When it queued.
    pub queued_at: String,
    /// For how long it has held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// The one that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Contender>,
    /// How long it may wait yet, if each of those ahead holds for as long as was usual of late, readers one after the other. A
    /// guess for people; none where nobody held the lock before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// Pairs of text, for people.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// A lock, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Lock {
    /// Its name.
    pub lock: LockName,
    /// A page of its holders.
    pub holders: Vec<QueueItem>,
    /// How many hold it.
    #[serde(default)]
    pub holder_count: u64,
    /// How many wait.
    pub queue_length: u64,
    /// How many permits it has.
    pub limit: u32,
    /// How many may wait for it, where an administrator said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, where an administrator said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold: Option<String>,
    /// The token that was given out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_token: Option<FencingToken>,
    /// What is counted of it; none where it was never held, or is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<LockStatistics>,
    /// Where the next page of holders begins; `null` on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// What a lock is in the list of locks. One that is held or cools may be waited for too: `queue_length` says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum LockState {
    /// Somebody holds it.
    Held,
    /// Nobody holds it, and the lock delay of one who expired runs.
    Cooling,
    /// Nobody stands in it.
    Idle,
}

/// A lock in the list of locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ListedLock {
    /// Its name.
    pub lock: LockName,
    /// Held, cooling or idle.
    pub state: LockState,
    /// How many hold it.
    pub holders: u64,
    /// How many wait.
    pub queue_length: u64,
    /// How it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How many permits it has.
    pub limit: u32,
    /// The token that was given out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_token: Option<FencingToken>,
    /// Since when the first of those who hold it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// For how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// Since when somebody waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<String>,
    /// How long those who were granted have waited, all together.
    #[serde(default)]
    pub waited: String,
    /// How long those who have ended have held, all together.
    #[serde(default)]
    pub held: String,
    /// Grants to one who had to wait.
    #[serde(default)]
    pub hand_overs: u64,
}

/// A page of a lock's queue, in order, holders first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Queue {
    /// The lock's name.
    pub lock: LockName,
    /// Those who stand in it.
    pub items: Vec<QueueItem>,
    /// How many hold the lock.
    #[serde(default)]
    pub holder_count: u64,
    /// How many wait for it.
    #[serde(default)]
    pub queue_length: u64,
    /// Where the next page begins; `null` on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A fencing token was checked and is that of a held grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct FenceCheck {
    /// Always true; a stale token is answered with a problem.
    pub current: bool,
}

/// A grant that was renewed. It is named, so that no other answer can be taken for this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RenewedGrant {
    /// Its secret id, as it was renewed by.
    pub id: GrantId,
    /// How long it lives without a renewal.
    pub ttl: String,
    /// How long it lives from now on without a further one.
    pub expires_in: String,
    /// The same by this node's wall clock, for people.
    pub expires_at: String,
}

/// A session that was kept alive. It is named, so that no other answer can be taken for this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RenewedSession {
    /// Its secret id.
    pub id: SessionId,
    /// How long it lives without a keepalive.
    pub ttl: String,
    /// How long it lives from now on without a further one.
    pub expires_in: String,
    /// The same by this node's wall clock, for people.
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
    /// How long it lives from now on without a keepalive.
    pub expires_in: String,
}

/// What came of one keepalive for many sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct KeptAlive {
    /// Those that go on living.
    pub renewed: Vec<SessionId>,
    /// How long each of them lives from now on without a further keepalive, in the same order.
    pub ttls: Vec<String>,
    /// Those that have ended, and those that are not known.
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

//! The history and the statistics of a lock.

use super::{FencingToken, GrantNumber, HoldingEnd, LockName, Mode, Revision, SessionNumber};
use serde::{Deserialize, Serialize};

/// One period of holding a lock in one mode, past or present. A grant that changed its mode has one entry for each mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Holding {
    /// Its lock; left out in the history of one lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockName>,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// Its fencing token.
    pub token: FencingToken,
    /// When it queued.
    pub queued_at: String,
    /// When it was granted, or took this mode.
    pub from: String,
    /// The revision of that change.
    pub from_revision: Revision,
    /// When it ended; left out while it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The revision at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_revision: Option<Revision>,
    /// How long it was held, or has been held so far.
    pub held_for: String,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<HoldingEnd>,
    /// Which administrator ended it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The administrator's reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// One page of the history over all locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LockHistories {
    /// The holds, in the order of their locks' names. A page can be short or empty without being the last.
    pub items: Vec<Holding>,
    /// Where the next page begins; `null` on the last one.
    pub next_cursor: Option<String>,
    /// How many ended holds the cluster keeps for each lock. The oldest is dropped first.
    pub kept_per_lock: u64,
    /// When the oldest kept hold of all locks ended: holds that ended earlier may be missing. A lock with `kept_per_lock`
    /// ended holds may have lost later ones too. Left out if no hold has ended, or if you may not see all locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
}

/// Durations, counted in buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Spans {
    /// The number of durations.
    pub count: u64,
    /// Their sum, in milliseconds.
    pub sum_ms: u64,
    /// How many fell into each bucket: up to 1 ms, up to 4 ms, and so on, each bound four times the one before; the
    /// last bucket has none.
    pub buckets: Vec<u64>,
}

/// The statistics of a lock, kept as long as the lock or its history is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LockStatistics {
    /// The waiting times of grants that were granted.
    pub waited: Spans,
    /// The holding times of grants that have ended.
    pub held: Spans,
    /// Grants that had to wait.
    pub hand_overs: u64,
    /// Held grants that their owners released.
    pub released: u64,
    /// Held grants that ended because their session expired or they reached their maximum hold time.
    pub expired: u64,
    /// Held grants that an administrator broke.
    pub broken: u64,
    /// Held grants that ended because the caller had disconnected.
    pub abandoned: u64,
    /// Grants that left the queue without being held.
    pub gave_up: u64,
    /// How many times a holder changed its mode. Each change adds one to `held`.
    #[serde(default)]
    pub changed_mode: u64,
}

//! The history of a lock, and what is counted of it.

use super::{FencingToken, GrantNumber, HoldingEnd, Mode, Revision, SessionNumber};
use serde::{Deserialize, Serialize};

/// One time of holding in one mode: of one who holds the lock, or of one who held it. A grant that changed its mode has one for
/// each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Holding {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Who owned it, for people.
    pub owner: String,
    /// Alone or shared.
    pub mode: Mode,
    /// How many permits.
    pub permits: u32,
    /// Its fencing token.
    pub token: FencingToken,
    /// When it queued.
    pub queued_at: String,
    /// When it was granted, or took this mode.
    pub from: String,
    /// The revision of that.
    pub from_revision: Revision,
    /// When it ended; left out while it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The revision at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_revision: Option<Revision>,
    /// For how long it was held, or has been.
    pub held_for: String,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<HoldingEnd>,
    /// Which administrator ended it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Why, in his words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Spans of time in buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Spans {
    /// How many there are.
    pub count: u64,
    /// All together, in milliseconds.
    pub sum_ms: u64,
    /// How many fell into each bucket: up to 1 ms, up to 4 ms, and each next one up to four times as much; the last has no
    /// bound.
    pub buckets: Vec<u64>,
}

/// What is counted of a lock, as long as it or its history is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LockStatistics {
    /// How long those waited who were granted.
    pub waited: Spans,
    /// How long those held whose grants have ended.
    pub held: Spans,
    /// Grants to one who had to wait.
    pub hand_overs: u64,
    /// Held grants that were given back.
    pub released: u64,
    /// Held grants that were lost because their session expired.
    pub expired: u64,
    /// Held grants that an administrator took away.
    pub broken: u64,
    /// Held grants whose caller was found to have gone.
    pub abandoned: u64,
    /// Those who left the queue without having held.
    pub gave_up: u64,
    /// How often one who held went on holding in another mode. Each time is one more of `held`.
    #[serde(default)]
    pub changed_mode: u64,
}

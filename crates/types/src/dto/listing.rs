//! The lists of locks and of grants.

use super::{Contender, GrantState};
use crate::{FencingToken, GrantNumber, LockName, Mode, SessionNumber};
use serde::{Deserialize, Serialize};

/// The state of a lock in the list of locks. Grants may also wait for a held or cooling lock: see `queue_length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum LockState {
    /// A grant holds it.
    Held,
    /// Nobody holds it, and the lock delay of an expired holder is still running.
    Cooling,
    /// Nobody holds it. A grant of several locks may wait for it and for another one.
    Idle,
}

/// The grant that has held a lock longest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ListedHolder {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// Its session's public number, unless the session was made for this grant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionNumber>,
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
    /// The number of holders.
    pub holders: u64,
    /// The number of waiters.
    pub queue_length: u64,
    /// The mode in which it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How many permits the lock has.
    pub limit: u32,
    /// The last token issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_token: Option<FencingToken>,
    /// The owner of the grant that has held it longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// That grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<ListedHolder>,
    /// When that grant was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How long that grant has held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// How long recent holders have usually held the lock: the `usual` of the overview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_hold: Option<String>,
    /// When its longest waiter queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<String>,
    /// The total waiting time of all grants that were granted.
    #[serde(default)]
    pub waited: String,
    /// The total holding time of all grants that have ended.
    #[serde(default)]
    pub held: String,
    /// Grants that had to wait.
    #[serde(default)]
    pub hand_overs: u64,
}

/// A grant in one of its locks, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ListedGrant {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number. A grant of several locks has one entry for each of them.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// Held, queued or cooling.
    pub state: GrantState,
    /// If it is queued, its position: the number of grants ahead, including holders, plus 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Its token while it holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// When it was granted, or when it queued if it still waits.
    pub since: String,
    /// When it queued.
    pub queued_at: String,
    /// How long it has held the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// The grant that it waits for; left out if you may not see its lock, or if it is more than 64 shared grants away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Contender>,
}

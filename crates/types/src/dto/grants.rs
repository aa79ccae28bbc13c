//! The list of grants.

use super::{Contender, FencingToken, GrantNumber, GrantState, LockName, Mode, SessionNumber};
use serde::{Deserialize, Serialize};

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

//! The requests of administrators, as fields of commands. `command` exports them.

use crate::command::WriteKey;
use fairhold_types::{FencingToken, LockName, time::WallMillis};
use serde::{Deserialize, Serialize};

/// Takes a lock from its holders, and ends its lock delay. The waiters stay; the next are granted in the same step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    /// The caller's key, or one that the server generated: a repeated request must not end later holders.
    pub key: WriteKey,
    /// The lock.
    pub lock: LockName,
    /// If given, the request is refused unless a held grant has this token: it cannot end a holder that the
    /// administrator has not seen.
    pub token: Option<FencingToken>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// When the request was received.
    pub at: WallMillis,
}

/// Changes the settings of a lock. Fields that are `None` stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLock {
    /// The caller's key, if it gave one: a late repetition must not undo a newer request.
    pub key: Option<WriteKey>,
    /// The lock.
    pub lock: LockName,
    /// How many permits it has, at least 1.
    pub limit: Option<u32>,
    /// How many grants may wait for it.
    pub max_waiters: Option<u64>,
    /// How long later grants may hold it, in milliseconds; 0 for no limit.
    pub max_hold_ms: Option<u64>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// When the request was received.
    pub at: WallMillis,
}

/// Asks the holders of a lock to give it back, with a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// The caller's key, if it gave one: a late repetition must not reach later holders.
    pub key: Option<WriteKey>,
    /// The lock.
    pub lock: LockName,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// When the request was received.
    pub at: WallMillis,
}

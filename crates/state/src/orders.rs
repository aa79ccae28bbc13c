//! The orders of an administrator, as commands: part of `command`.

use crate::command::WriteKey;
use fairhold_types::{FencingToken, LockName, time::WallMillis};
use serde::{Deserialize, Serialize};

/// Takes a lock from its holders, and ends a lock delay too. The waiters stay, and get their turn in the same step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    /// The caller's key, or the server's own: a repeated order must not hit those who hold next.
    pub key: WriteKey,
    /// The lock.
    pub lock: LockName,
    /// Only while a held grant has this token: so the order cannot hit a holder that its sender has not seen.
    pub token: Option<FencingToken>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// When the request was taken.
    pub at: WallMillis,
}

/// Sets what a lock allows. What is not named stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLock {
    /// The caller's key, where it gave one: an order that arrives late must not undo a newer one.
    pub key: Option<WriteKey>,
    /// The lock.
    pub lock: LockName,
    /// How many permits it has, 1 at least.
    pub limit: Option<u32>,
    /// How many may wait for it.
    pub max_waiters: Option<u64>,
    /// How long a grant that is given from now on may hold it; 0: as long as it likes.
    pub max_hold_ms: Option<u64>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// When the request was taken.
    pub at: WallMillis,
}

/// Asks those who hold a lock to give it back, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// The caller's key, where it gave one: an order that arrives late must not be told to those who hold then.
    pub key: Option<WriteKey>,
    /// The lock.
    pub lock: LockName,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// When the request was taken.
    pub at: WallMillis,
}

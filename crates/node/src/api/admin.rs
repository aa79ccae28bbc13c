//! The calls of administrators.

use fairhold_types::{FencingToken, GrantId, LockName};
use std::time::Duration;

/// Takes a lock from its holders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// The lock.
    pub lock: LockName,
    /// If set, the call succeeds only if a held grant has this token.
    pub token: Option<FencingToken>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// Sets the limits of a lock. A limit of `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLockCall {
    /// The caller's idempotency key, if any.
    pub key: Option<GrantId>,
    /// The lock.
    pub lock: LockName,
    /// The number of its permits.
    pub limit: Option<u32>,
    /// How many contenders may wait for it.
    pub max_waiters: Option<u64>,
    /// How long a later grant may hold it; zero means no limit.
    pub max_hold: Option<Duration>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// Asks the holders of a lock to release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokeCall {
    /// The caller's idempotency key, if any.
    pub key: Option<GrantId>,
    /// The lock.
    pub lock: LockName,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

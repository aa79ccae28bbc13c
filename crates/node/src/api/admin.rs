//! The orders of an administrator, at the boundary.

use fairhold_types::{FencingToken, GrantId, LockName};
use std::time::Duration;

/// An administrator's order to take a lock from those who hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// The lock.
    pub lock: LockName,
    /// Only while a held grant has this token.
    pub token: Option<FencingToken>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// How long the server may work on it.
    pub timeout: Duration,
}

/// An administrator's order to set what a lock allows. What is not named stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLockCall {
    /// Its idempotency key, where the caller gave one.
    pub key: Option<GrantId>,
    /// The lock.
    pub lock: LockName,
    /// How many permits it has.
    pub limit: Option<u32>,
    /// How many may wait for it.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it that is given from now on; zero: as long as it likes.
    pub max_hold: Option<Duration>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// How long the server may work on it.
    pub timeout: Duration,
}

/// An administrator's request that the holders of a lock give it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokeCall {
    /// Its idempotency key, where the caller gave one.
    pub key: Option<GrantId>,
    /// The lock.
    pub lock: LockName,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
    /// How long the server may work on it.
    pub timeout: Duration,
}

//! Client requests on sessions, locks and elections, as the fields of commands. `command` exports them.
//!
//! The log encodes fields by position: change a struct only together with `LOG_FORMAT`.

use crate::{value::Value, write::WriteKey};
use fairhold_types::{GrantId, LockName, Mode, SessionId, time::WallMillis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pairs of text that an owner attaches to a session or a grant, for people to read.
pub type Meta = BTreeMap<String, String>;

/// Opens a named session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// The caller's idempotency key, if it gave one.
    pub key: Option<GrantId>,
    /// The new session's secret id.
    pub id: SessionId,
    /// How long it lives without a keepalive, in milliseconds.
    pub timeout_ms: u64,
    /// Its name, for people to read.
    pub name: String,
    /// Pairs of text, for people to read.
    pub meta: Meta,
    /// When the request was received.
    pub at: WallMillis,
}

/// The session that will own a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claimant {
    /// An open session.
    Session(SessionId),
    /// A new session, made for this grant alone.
    Anonymous {
        /// How long the grant lives without a renewal, in milliseconds.
        timeout_ms: u64,
    },
}

/// What to do if a request cannot be granted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IfBusy {
    /// Queue.
    Queue,
    /// Change nothing, and name the holder.
    Refuse,
}

/// The text that identifies a grant's owner to people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The text.
    pub text: String,
    /// Whether the caller gave it. Otherwise the server derived it from the connection, and a retry may have another.
    pub given: bool,
}

/// One lock of an acquire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The lock.
    pub lock: LockName,
    /// The requested mode.
    pub mode: Mode,
}

/// A request for a grant on one or more locks: it is granted, queued or refused. With `reentrant`, it may add a hold
/// to a held grant instead. An election has one name and a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// The grant's id. A repeated request with the same id creates no second grant.
    pub grant: GrantId,
    /// Whether the caller made that id. A request with an id that the server generated cannot be repeated.
    pub id_given: bool,
    /// The locks, all of them different.
    pub wants: Vec<Want>,
    /// The session that will own it.
    pub claimant: Claimant,
    /// What to do if it cannot be granted at once.
    pub if_busy: IfBusy,
    /// How many permits the lock has; `None`: the limit that is set, otherwise 1.
    pub limit: Option<u32>,
    /// The number of permits requested.
    pub permits: u32,
    /// A higher priority is served first.
    pub priority: i32,
    /// Its owner, for people to read.
    pub owner: Owner,
    /// Pairs of text, for people to read.
    pub meta: Meta,
    /// How long the lock stays blocked if the holder's session expires, in milliseconds.
    pub lock_delay_ms: u64,
    /// Whether it adds a hold if the same owner holds the lock already.
    pub reentrant: bool,
    /// The maximum hold time in milliseconds.
    pub max_hold_ms: Option<u64>,
    /// For an election: the candidate's value, which it proclaims when it leads.
    pub value: Option<Vec<u8>>,
    /// When the request was received.
    pub at: WallMillis,
}

/// Gives the leader of an election a new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proclaim {
    /// The caller's key, or one that the server generated: a repeated request proclaims the value once.
    pub key: WriteKey,
    /// The election.
    pub election: LockName,
    /// The leader's grant.
    pub grant: GrantId,
    /// The value.
    pub value: Value,
    /// When the request was received.
    pub at: WallMillis,
}

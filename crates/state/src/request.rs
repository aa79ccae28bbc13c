//! What clients ask of sessions, locks and elections, as the fields of commands: part of `command`.
//!
//! As there: change a struct only together with `LOG_FORMAT`.

use crate::{value::Value, write::WriteKey};
use fairhold_types::{GrantId, LockName, Mode, SessionId, time::WallMillis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pairs of text that an owner hangs on a session or a grant, for people to read.
pub type Meta = BTreeMap<String, String>;

/// Opens a named session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// The caller's idempotency key, where it gave one.
    pub key: Option<GrantId>,
    /// The new session's secret id.
    pub id: SessionId,
    /// How long it lives without a keepalive.
    pub timeout_ms: u64,
    /// Its name, for people.
    pub name: String,
    /// Its pairs of text, for people.
    pub meta: Meta,
    /// When the request was taken.
    pub at: WallMillis,
}

/// Who will own a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claimant {
    /// A session that was opened before.
    Session(SessionId),
    /// Nobody yet: a session is made for this grant alone.
    Anonymous {
        /// How long the grant lives without a renewal.
        timeout_ms: u64,
    },
}

/// What to do where a grant cannot be given at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IfBusy {
    /// Take a place in the queue.
    Queue,
    /// Change nothing and say who holds it.
    Refuse,
}

/// The text by which people know a grant's owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The text.
    pub text: String,
    /// Whether the caller gave it; else it was made from the connection, and a retry may come with another.
    pub given: bool,
}

/// One lock of an acquire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The lock.
    pub lock: LockName,
    /// Alone or shared.
    pub mode: Mode,
}

/// Takes a place in the queue of each lock, or a further hold. An election is one name, and has a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// The grant's id, which makes the command safe to repeat.
    pub grant: GrantId,
    /// Whether the caller made that id. Nobody can repeat a request whose id the server made.
    pub id_given: bool,
    /// The locks, all different.
    pub wants: Vec<Want>,
    /// Who will own it.
    pub claimant: Claimant,
    /// What to do where it must wait.
    pub if_busy: IfBusy,
    /// How many permits the lock has; `None`: what is set, else 1.
    pub limit: Option<u32>,
    /// How many permits are asked for.
    pub permits: u32,
    /// Higher stands before lower.
    pub priority: i32,
    /// Its owner, for people to read.
    pub owner: Owner,
    /// Pairs of text, for people.
    pub meta: Meta,
    /// How long the lock stays blocked when the holder's session expires.
    pub lock_delay_ms: u64,
    /// Another hold of a grant that the same owner has.
    pub reentrant: bool,
    /// The longest time of holding.
    pub max_hold_ms: Option<u64>,
    /// The value of a candidate, where it is for an election: what it proclaims when it leads.
    pub value: Option<Vec<u8>>,
    /// When the request was taken.
    pub at: WallMillis,
}

/// Gives the leader of an election another value to be known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proclaim {
    /// The caller's key, or the server's own: a value is told once, however often the order is repeated.
    pub key: WriteKey,
    /// The election.
    pub election: LockName,
    /// The leader's grant.
    pub grant: GrantId,
    /// The value.
    pub value: Value,
    /// When the request was taken.
    pub at: WallMillis,
}

//! Sessions, at the boundary.

use super::OwnedAfter;
use fairhold_state::command::Meta;
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Path, SessionId, SessionNumber, time::WallMillis};
use std::time::Duration;

/// Opens a named session.
#[derive(Debug, Clone)]
pub struct OpenSessionCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// Whether the caller gave the key, so that the session may be one that was opened before.
    pub key_given: bool,
    /// Its timeout.
    pub timeout: Duration,
    /// Its name.
    pub name: String,
    /// Its pairs of text.
    pub meta: Meta,
    /// How long the server may work on it.
    pub work_timeout: Duration,
}

/// A session that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// Its secret id.
    pub id: SessionId,
    /// Its public number.
    pub number: SessionNumber,
    /// Its timeout.
    pub timeout: Duration,
}

/// What is kept alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Renewal {
    /// A named session.
    Session(SessionId),
    /// A grant with a session of its own.
    Grant(GrantId),
    /// A session by number: for the requests that are open at a node.
    Number(SessionNumber),
}

/// A session, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its number.
    pub number: SessionNumber,
    /// Its name.
    pub name: String,
    /// Its pairs of text.
    pub meta: Meta,
    /// Its timeout.
    pub timeout: Duration,
    /// Whether it was made for one grant.
    pub anonymous: bool,
    /// When it was opened.
    pub opened_at: WallMillis,
    /// A page of its grants, by number, an entry for each lock: number, lock, token while held.
    pub grants: Vec<(GrantNumber, LockName, Option<FencingToken>)>,
    /// How many grants it has.
    pub grant_count: usize,
    /// A page of its ephemeral nodes, by path.
    pub ephemeral_nodes: Vec<Path>,
    /// How many ephemeral nodes it has.
    pub ephemeral_count: usize,
    /// The place behind which the next page begins, of both; none after the last.
    pub next: Option<OwnedAfter>,
}

/// A session by either of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRef {
    /// By its secret id.
    Id(SessionId),
    /// By its public number.
    Number(SessionNumber),
}

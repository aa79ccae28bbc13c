//! A session with its grants and ephemeral nodes.

use super::{GrantState, Meta};
use crate::{FencingToken, GrantNumber, LockName, Path, SessionNumber};
use serde::{Deserialize, Serialize};

/// A session, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Session {
    /// Its number.
    pub number: SessionNumber,
    /// Its name; missing if the session was opened for a single grant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How long it lives without a keepalive.
    pub ttl: String,
    /// Whether it was opened for a single grant.
    pub anonymous: bool,
    /// When it was opened.
    pub opened_at: String,
    /// How long ago the leader heard from it: its last keepalive, or its opening. Only for a single session. Left out
    /// if the server does not know: it reads its own state and does not lead, or the leader is new and has not heard
    /// from the session yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_ago: Option<String>,
    /// A page of its grants, by number; a grant of several locks has an entry for each lock.
    pub grants: Vec<SessionGrant>,
    /// How many grants it has; omitted if they are hidden from you.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_count: Option<usize>,
    /// A page of its ephemeral nodes, by path.
    pub ephemeral_nodes: Vec<Path>,
    /// How many ephemeral nodes it has; omitted if they are hidden from you.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_count: Option<usize>,
    /// Key-value pairs, for people.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Where the next page of its grants and nodes begins, for `GET /v1/sessions/{id}`; `null` if all are shown.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A grant, as its session lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SessionGrant {
    /// Its number.
    pub number: GrantNumber,
    /// The lock.
    pub lock: LockName,
    /// Held or queued.
    pub state: GrantState,
    /// Its token, while it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
}

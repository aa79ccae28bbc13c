//! The calls of the clients and their answers, with times: the only input of the checkers.
//!
//! An operation succeeded, failed, or has an unknown outcome. An unknown outcome is never guessed: its process sends
//! nothing more, and its client continues as a new process.

mod export;
mod recorder;
mod rights;

pub(crate) use export::write_files;
pub(crate) use recorder::{Recorder, Running};
pub(crate) use rights::{OpRights, Right, StreamEvent};

use crate::client::TTL;
use serde::Serialize;
use std::sync::Arc;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Call {
    /// Acquire a grant.
    Acquire,
    /// Release a grant.
    Release,
    /// Renew a grant.
    Renew,
    /// Upgrade a shared grant.
    Upgrade,
    /// Downgrade an exclusive grant.
    Downgrade,
    /// Write a node with the token of a grant.
    FencedWrite,
    /// Read a node.
    Read,
    /// Write a node, whatever its version.
    Write,
    /// Write a node at a version.
    Cas,
    /// Open a session.
    Open,
    /// Keep a session alive.
    Keepalive,
    /// Close a session.
    Close,
    /// Create an ephemeral node.
    Ephemeral,
    /// Proclaim another value as a leader.
    Proclaim,
    /// Read the leader of an election.
    Leader,
    /// Acquire with an id that was used before.
    Again,
    /// Write a pair of nodes in a transaction under two fences.
    Txn,
    /// Read the versions of a pair of nodes at one revision.
    ReadPair,
    /// Set the limit of a lock.
    SetLimit,
    /// Set the maximum hold time of a lock.
    SetMaxHold,
    /// Break a lock.
    Break,
    /// Revoke a lock.
    Revoke,
    /// End a session as an administrator.
    EndSession,
    /// Read a node from the state of one server, as it is.
    LocalRead,
    /// Watch nodes as a user.
    Watch,
    /// Take a right or a token from a user.
    Narrow,
    /// Give a user a right.
    Widen,
}

impl Call {
    /// Whether it writes a node that no client deletes.
    pub(crate) fn writes_for_good(self) -> bool {
        matches!(self, Call::FencedWrite | Call::Write | Call::Cas)
    }
}

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// It took effect.
    Ok,
    /// It certainly had no effect.
    Fail,
    /// It may have taken effect, or may still do so.
    Unknown,
}

/// One operation. Fields that do not apply are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Op {
    /// Its index in the history.
    pub(crate) index: usize,
    /// The process that made the call: it has one operation at a time.
    pub(crate) process: u64,
    /// The node that received it.
    pub(crate) node: usize,
    /// Its kind.
    pub(crate) call: Call,
    /// Its lock, node, election or session.
    pub(crate) key: String,
    /// When it was sent, in microseconds since the start of the run.
    pub(crate) start: u64,
    /// When the answer arrived, or the client gave up.
    pub(crate) end: u64,
    /// Its outcome.
    pub(crate) outcome: Outcome,
    /// Its grant: the index of the acquire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<usize>,
    /// Whether others may share it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shared: bool,
    /// The number of permits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permits: Option<u32>,
    /// The limit that the request passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    /// The requested ttl, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<u64>,
    /// The public number of a grant or a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    /// The fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// The revision in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<u64>,
    /// A node's version: written, read, or expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<i64>,
    /// The value written or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// The first operation of its batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
    /// The session that owns a grant, by its public number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
    /// The fences of a transaction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fences: Vec<FenceEvent>,
    /// Whether the conditions of a transaction held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) succeeded: Option<bool>,
    /// The caller and its rights, while rights change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rights: Option<OpRights>,
    /// Why it failed or its outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A fence of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FenceEvent {
    /// The lock.
    pub(crate) lock: String,
    /// The acquire that it belongs to, by its index in the history.
    pub(crate) grant: usize,
    /// The token.
    pub(crate) token: u64,
}

impl Op {
    /// Whether it certainly took effect.
    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Whether it granted a lock exclusively: an exclusive acquire, or an upgrade.
    pub(crate) fn is_exclusive_grant(&self) -> bool {
        matches!(self.call, Call::Acquire | Call::Upgrade) && self.is_ok() && !self.shared && self.permits.is_none()
    }

    /// Whether its grant had certainly ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.error.as_deref().is_some_and(|error| error.starts_with("410"))
    }
}

/// The two nodes that a transaction on this key writes.
pub(crate) fn pair(key: &str) -> [String; 2] {
    [format!("{key}/left"), format!("{key}/right")]
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Event {
    /// When it arrived, in microseconds since the start of the run.
    pub(crate) at: u64,
    /// The revision of the change.
    pub(crate) revision: u64,
    /// The line as received.
    pub(crate) line: Arc<serde_json::Value>,
}

impl Event {
    /// The kind of the change.
    pub(crate) fn kind(&self) -> &str {
        self.line["type"].as_str().unwrap_or_default()
    }

    /// A field that is a number.
    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.line[field].as_u64()
    }

    /// A field that is a text.
    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.line[field].as_str()
    }
}

/// A write at the external resource, which compares tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ResourceWrite {
    /// The time of arrival, in microseconds since the start of the run.
    pub(crate) at: u64,
    /// The lock that guards it.
    pub(crate) key: String,
    /// The acquire that it belongs to, by its index in the history.
    pub(crate) grant: usize,
    /// Its token.
    pub(crate) token: u64,
    /// The value that its writer had read before.
    pub(crate) based_on: u64,
    /// The written value.
    pub(crate) value: u64,
    /// Whether it was accepted.
    pub(crate) accepted: bool,
    /// Whether its writer believed that its lease was still good.
    pub(crate) believed: bool,
}

/// A node of the tree at the end of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    /// The key, as in the calls that wrote it.
    pub(crate) key: String,
    /// Whether it could be read; also true if it does not exist.
    pub(crate) known: bool,
    /// Its version; `None` if it does not exist.
    pub(crate) version: Option<i64>,
    /// Its value.
    pub(crate) value: String,
}

/// A period with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FaultSpan {
    /// The fault.
    pub(crate) fault: &'static str,
    /// Its target and details.
    pub(crate) detail: String,
    /// Its start, in microseconds since the start of the run.
    pub(crate) start: u64,
    /// When it was completely healed.
    pub(crate) end: u64,
    /// Whether clocks ran at a wrong rate. Leases then promise nothing.
    pub(crate) bends_time: bool,
    /// Its observed effect, or why there was none.
    pub(crate) effect: Result<String, String>,
}

/// A leader, as observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Leadership {
    /// When it was first observed, in microseconds since the start of the run.
    pub(crate) at: u64,
    /// Which node.
    pub(crate) node: usize,
    /// In which term.
    pub(crate) term: u64,
}

/// The end of a run, without clients and faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Rest {
    /// When the last client stopped, in microseconds since the start of the run.
    pub(crate) clients_ended: u64,
    /// Since when all nodes were ready, with the same state.
    pub(crate) calm: u64,
    /// The time up to which the watches have shown everything.
    pub(crate) until: u64,
    /// The final revision of all nodes.
    pub(crate) revision: u64,
}

/// Everything that a run has observed.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Operations, in order of sending.
    pub(crate) ops: Vec<Op>,
    /// The events of the watch at each node, in order of arrival.
    pub(crate) watches: Vec<Vec<Event>>,
    /// The events of the users' watches, in order of arrival.
    pub(crate) streams: Vec<StreamEvent>,
    /// Writes at the external resource, in order of arrival.
    pub(crate) resource: Vec<ResourceWrite>,
    /// How many of these writes were lost at the resource that does not compare tokens.
    pub(crate) lost_without_fence: u64,
    /// The faults.
    pub(crate) faults: Vec<FaultSpan>,
    /// The nodes of the tree at the end.
    pub(crate) found: Vec<Found>,
    /// The leader.
    pub(crate) leaders: Vec<Leadership>,
    /// `None` if the nodes did not converge.
    pub(crate) rest: Option<Rest>,
    /// How long the run took, in microseconds.
    pub(crate) length: u64,
}

impl History {
    /// Whether clocks ran at a wrong rate between two moments, or so shortly before that leases may depend on them.
    pub(crate) fn clocks_were_skewed(&self, from: u64, to: u64) -> bool {
        let aftermath = 2 * u64::try_from(TTL.as_micros()).unwrap_or(u64::MAX);
        self.faults.iter().any(|span| span.bends_time && span.start <= to && from <= span.end.saturating_add(aftermath))
    }

    /// The events of the watch that got furthest.
    pub(crate) fn longest_watch(&self) -> &[Event] {
        self.watches.iter().max_by_key(|events| events.len()).map_or(&[], Vec::as_slice)
    }
}

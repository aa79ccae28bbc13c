//! What the clients asked and were told, with times: the only thing that the checkers believe.
//!
//! An operation succeeded, failed, or nobody knows. What nobody knows is never guessed: the process that asked is never
//! heard of again, and its client goes on as a new one.

mod export;
mod recorder;

pub(crate) use export::write_files;
pub(crate) use recorder::{Recorder, Running};

use crate::client::TTL;
use serde::Serialize;
use std::sync::Arc;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Call {
    /// A grant.
    Acquire,
    /// The end of a grant.
    Release,
    /// A grant's further life.
    Renew,
    /// A shared grant becomes exclusive.
    Upgrade,
    /// An exclusive grant becomes shared.
    Downgrade,
    /// A write to a node, with the token of a grant.
    FencedWrite,
    /// A read of a node.
    Read,
    /// A write of a node, whatever it has.
    Write,
    /// A write of a node that has a certain version.
    Cas,
    /// A session.
    Open,
    /// A session's further life.
    Keepalive,
    /// The end of a session.
    Close,
    /// A node that lives and dies with a session.
    Ephemeral,
    /// Another value of an election's leader.
    Proclaim,
    /// Read the leader of an election.
    Leader,
    /// An acquire with an id that was used before.
    Again,
    /// A transaction that writes a pair of nodes under two fences.
    Txn,
    /// The versions of a pair of nodes, at one revision.
    ReadPair,
    /// Another limit of a lock.
    SetLimit,
    /// Another bound for how long a lock may be held.
    SetMaxHold,
    /// The end of all holds of a lock.
    Break,
    /// A request to the holders to release a lock.
    Revoke,
    /// The end of a session, by an administrator.
    EndSession,
}

impl Call {
    /// Whether it writes a node that nothing here removes again.
    pub(crate) fn writes_for_good(self) -> bool {
        matches!(self, Call::FencedWrite | Call::Write | Call::Cas)
    }
}

/// What is known of an operation's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// It happened.
    Ok,
    /// It surely did not.
    Fail,
    /// It may have happened, or may still happen.
    Unknown,
}

/// One operation. What does not apply is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Op {
    /// Its place in the history.
    pub(crate) index: usize,
    /// The process that made the call: it has one operation at a time.
    pub(crate) process: u64,
    /// The node that was asked.
    pub(crate) node: usize,
    /// What was asked.
    pub(crate) call: Call,
    /// The lock, node, election or session that it is about.
    pub(crate) key: String,
    /// When it was asked, in microseconds since the run began.
    pub(crate) start: u64,
    /// When the answer came, or was given up.
    pub(crate) end: u64,
    /// What is known of it.
    pub(crate) outcome: Outcome,
    /// Which grant: the operation that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<usize>,
    /// Whether others may share it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shared: bool,
    /// The number of permits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permits: Option<u32>,
    /// How many permits the lock has, as the request names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    /// The lease that was asked for, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<u64>,
    /// The public number of a grant or a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    /// The fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// The revision that the answer names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<u64>,
    /// A node's version: the one written, read, or asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<i64>,
    /// What was written or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// The first operation of the batch that it came with.
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
    /// Why it failed or is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A token with which a transaction wants to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FenceEvent {
    /// The lock.
    pub(crate) lock: String,
    /// The acquire that it belongs to, by its place in the history.
    pub(crate) grant: usize,
    /// The token.
    pub(crate) token: u64,
}

impl Op {
    /// Whether it happened for sure.
    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Whether it gave somebody a lock alone: the acquire of an exclusive grant, or an upgrade.
    pub(crate) fn is_exclusive_grant(&self) -> bool {
        matches!(self.call, Call::Acquire | Call::Upgrade) && self.is_ok() && !self.shared && self.permits.is_none()
    }

    /// Whether it surely found its grant ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.error.as_deref().is_some_and(|error| error.starts_with("410"))
    }
}

/// The two nodes that a transaction on this key writes.
pub(crate) fn pair(key: &str) -> [String; 2] {
    [format!("{key}/left"), format!("{key}/right")]
}

/// What was told by a watch, and when it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Event {
    /// When it came, in microseconds since the run began.
    pub(crate) at: u64,
    /// The revision of the change.
    pub(crate) revision: u64,
    /// The line, as it came.
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

/// A write at the resource outside, which compares tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ResourceWrite {
    /// When, in microseconds since the run began.
    pub(crate) at: u64,
    /// The lock that guards it.
    pub(crate) key: String,
    /// The acquire that it belongs to, by its place in the history.
    pub(crate) grant: usize,
    /// The token that came with it.
    pub(crate) token: u64,
    /// The value that the writer had read before.
    pub(crate) based_on: u64,
    /// The value that it wrote.
    pub(crate) value: u64,
    /// Whether it was let in.
    pub(crate) accepted: bool,
    /// Whether its writer's lease, by its own count, was still good.
    pub(crate) believed: bool,
}

/// What a node was found to have when all was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    /// The key, as in the calls that wrote it.
    pub(crate) key: String,
    /// Whether it could be read; also true if there is no such node.
    pub(crate) known: bool,
    /// Its version; none where there is no such node.
    pub(crate) version: Option<i64>,
    /// Its value.
    pub(crate) value: String,
}

/// A time in which something was wrong on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FaultSpan {
    /// The fault.
    pub(crate) fault: &'static str,
    /// Where and how.
    pub(crate) detail: String,
    /// From when, in microseconds since the run began.
    pub(crate) start: u64,
    /// Until when all that was done was undone.
    pub(crate) end: u64,
    /// Whether clocks ran at a wrong rate: then nothing is promised of leases.
    pub(crate) bends_time: bool,
    /// Whether it was seen to take effect; in words why not.
    pub(crate) effect: Result<String, String>,
}

/// A node was seen to lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Leadership {
    /// Since when, in microseconds since the run began.
    pub(crate) at: u64,
    /// Which node.
    pub(crate) node: usize,
    /// In which term.
    pub(crate) term: u64,
}

/// The end of a run, when clients ask no more and nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Rest {
    /// When the last client came to its end, in microseconds since the run began.
    pub(crate) clients_ended: u64,
    /// Since when all nodes were ready, with the same state.
    pub(crate) calm: u64,
    /// What happened until then was told by the watches.
    pub(crate) until: u64,
    /// The revision of all nodes in the end.
    pub(crate) revision: u64,
}

/// All that a run has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Operations, in the order in which they were asked.
    pub(crate) ops: Vec<Op>,
    /// What the watch at each node told, in the order in which it came.
    pub(crate) told: Vec<Vec<Event>>,
    /// Writes at the resource outside, in the order in which they came there.
    pub(crate) resource: Vec<ResourceWrite>,
    /// The same writes at a resource that compares nothing: how many were lost there.
    pub(crate) lost_without_fence: u64,
    /// The faults.
    pub(crate) faults: Vec<FaultSpan>,
    /// What nodes had when all was over.
    pub(crate) found: Vec<Found>,
    /// The leader.
    pub(crate) leaders: Vec<Leadership>,
    /// None where the nodes did not come to rest.
    pub(crate) rest: Option<Rest>,
    /// How long the run took, in microseconds.
    pub(crate) length: u64,
}

impl History {
    /// Whether clocks ran at a wrong rate between two moments, or so shortly before that leases may have been counted
    /// by them.
    pub(crate) fn time_was_bent(&self, from: u64, to: u64) -> bool {
        let echo = 2 * u64::try_from(TTL.as_micros()).unwrap_or(u64::MAX);
        self.faults.iter().any(|span| span.bends_time && span.start <= to && from <= span.end.saturating_add(echo))
    }

    /// What was told by the watch that told most.
    pub(crate) fn longest_told(&self) -> &[Event] {
        self.told.iter().max_by_key(|told| told.len()).map_or(&[], Vec::as_slice)
    }
}

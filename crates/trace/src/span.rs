//! Finished spans, and the stages of a request.

use fairhold_types::trace_context::{SpanId, TraceContext};
use std::{borrow::Cow, time::Duration};

/// A stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A command waits in the queue of a node until it is in a batch.
    Queue,
    /// The batch is at the leader, which is another node.
    Forward,
    /// The leader writes the batch to the log, until a majority has it.
    Commit,
    /// A node applies it to the state, or the request waits until this node has applied it.
    Apply,
    /// A read waits for the proof that the state is new enough.
    Read,
    /// The request waits for others: in the queue of a lock, or for a change.
    Wait,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub const ALL: [Stage; 6] = [Stage::Queue, Stage::Forward, Stage::Commit, Stage::Apply, Stage::Read, Stage::Wait];

    /// Its name in a trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Queue => "queue",
            Stage::Forward => "forward",
            Stage::Commit => "commit",
            Stage::Apply => "apply",
            Stage::Read => "read",
            Stage::Wait => "wait",
        }
    }
}

/// A stage that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// How long it took.
    pub took: Duration,
    /// How long ago it ended.
    pub ended_ago: Duration,
    /// The id of its span, if another node already knows it.
    pub span: Option<SpanId>,
}

impl StageTime {
    /// A stage that ends now.
    #[must_use]
    pub fn now(stage: Stage, took: Duration) -> StageTime {
        StageTime { stage, took, ended_ago: Duration::ZERO, span: None }
    }
}

/// What a span is to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A part of its work, in the same process.
    Internal,
    /// The work of a server for a client.
    Server,
    /// A call to another process.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// A finished span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSpan {
    /// Its trace and its own id.
    pub context: TraceContext,
    /// The parent span.
    pub parent: Option<SpanId>,
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it is to its parent.
    pub kind: SpanKind,
    /// Its start, in nanoseconds of Unix time.
    pub started_at: u64,
    /// Its end.
    pub ended_at: u64,
    /// Its attributes.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Whether the work failed.
    pub is_error: bool,
}

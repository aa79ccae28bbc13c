//! The kinds of failure of asking Raft. A caller can always tell whether it happened.
//!
//! A storage failure is none of them: the node stops.

/// A proposal that got no answer from the machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum ProposeError {
    /// Surely not in the log: asking again is harmless.
    #[error("not proposed: {0}")]
    NotProposed(#[from] NotProposed),
    /// May have been committed, or may be yet: ask again with the same key.
    #[error("the outcome is unknown: {0}")]
    Unknown(#[from] UnknownReason),
}

/// Why a command surely did not get into the log, or a read was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum NotProposed {
    /// No leader is known, or none could be reached, within the time given.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// Too much is waiting to be proposed.
    #[error("too many commands are waiting: try again after a pause, or try another node")]
    Overloaded,
    /// Too few nodes have space on their disks, and the command would need more of it.
    #[error("too few nodes have space on their disks: the leader refuses writes that need more")]
    DiskLow,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The leadership under which it was to be proposed is over.
    #[error("this node no longer leads")]
    Deposed,
}

/// Why it is not known whether a command gets committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum UnknownReason {
    /// The deadline passed after the command was handed over.
    #[error("no answer within the time given")]
    Deadline,
    /// The connection to the leader broke after the command was handed over.
    #[error("the connection to the leader broke")]
    ConnectionLost,
    /// The leader lost its leadership with the command in its log.
    #[error("the leader was deposed")]
    Deposed,
}

/// A read that could not be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum ReadError {
    /// No leader could prove its leadership within the time given.
    #[error("{0}")]
    NotServed(#[from] NotProposed),
    /// The state here did not get there within the time given.
    #[error("this node did not catch up within the time given")]
    Deadline,
}

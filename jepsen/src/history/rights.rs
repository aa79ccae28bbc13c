//! Calls while rights change: their users, the rights that they need, and the users whose rights they change.

use super::Call;
use serde::Serialize;

/// A right of a user that changes during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Right {
    /// To acquire locks, and to check their tokens: one role has both.
    Locks,
    /// To read nodes and to watch them.
    Read,
    /// To write nodes.
    Write,
}

/// Whose rights count for a call, or are changed by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OpRights {
    /// The number of the user.
    pub(crate) user: u64,
    /// The number of the token that the call shows, or that a change ends. `None` if a change is about no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<u64>,
    /// The rights that the call needs, or that the change takes or gives.
    pub(crate) rights: Vec<Right>,
}

/// An event that a watch of a user showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct StreamEvent {
    /// When it arrived, in microseconds since the start of the run.
    pub(crate) at: u64,
    /// The operation that opened the watch, by its index in the history.
    pub(crate) stream: usize,
    /// The revision of the change.
    pub(crate) revision: u64,
}

impl Call {
    /// The rights that it needs.
    pub(crate) fn needs(self) -> &'static [Right] {
        if self == Call::Acquire {
            &[Right::Locks]
        } else if matches!(self, Call::Read | Call::LocalRead | Call::Watch) {
            &[Right::Read]
        } else if matches!(self, Call::Write | Call::Cas) {
            &[Right::Write]
        } else if self == Call::FencedWrite {
            &[Right::Locks, Right::Write]
        } else {
            &[]
        }
    }
}

//! The kind of a request. It decides what an error means to the caller.

use fairhold_types::{GrantId, time::WallMillis};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// An acquire with this id.
    Acquire {
        /// The grant's id.
        id: GrantId,
        /// Whether the caller chose the id. If so, a repeated request names the same grant.
        id_given: bool,
        /// The time of the answer. Holding times are computed from it.
        now: WallMillis,
    },
    /// An acquire in a batch. It has no `wait`, and its id is not in a header.
    AcquireInBatch {
        /// The grant's id, which the caller chose.
        id: GrantId,
        /// The time of the answer.
        now: WallMillis,
    },
    /// A change that is safe to repeat: a release, a renewal, a keepalive, the end of a session.
    Change,
    /// A write that happens again if it is repeated without its key.
    Write {
        /// The caller's idempotency key, or the one that the server generated.
        key: GrantId,
    },
    /// A read, or the check of a token.
    Read,
}

impl RequestKind {
    /// The key with which the caller can safely repeat the request.
    pub(crate) fn key(self) -> Option<GrantId> {
        match self {
            RequestKind::Acquire { id, .. } | RequestKind::AcquireInBatch { id, .. } => Some(id),
            RequestKind::Write { key } => Some(key),
            RequestKind::Change | RequestKind::Read => None,
        }
    }

    /// The time of the answer to an acquire.
    pub(crate) fn now(self) -> Option<WallMillis> {
        match self {
            RequestKind::Acquire { now, .. } | RequestKind::AcquireInBatch { now, .. } => Some(now),
            RequestKind::Change | RequestKind::Write { .. } | RequestKind::Read => None,
        }
    }

    pub(crate) fn key_given(self) -> bool {
        matches!(self, RequestKind::Acquire { id_given: true, .. } | RequestKind::AcquireInBatch { .. })
    }
}

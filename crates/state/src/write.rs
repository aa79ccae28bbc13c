//! Writes to the tree's nodes, and their results. `command` exports them.
//!
//! The log and the frames encode variants and fields by position: add variants at the end, and change a struct only
//! together with `LOG_FORMAT`.

use crate::value::Value;
use fairhold_types::{FencingToken, GrantId, LockName, Path, Revision, SessionId, SessionNumber, time::WallMillis};
use serde::{Deserialize, Serialize};

/// Conditions, then operations: all or nothing, at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transact {
    /// The caller's idempotency key with the fingerprint of its request, if it gave one.
    pub key: Option<WriteKey>,
    /// The conditions that must hold.
    pub conditions: Vec<Condition>,
    /// The operations if all conditions hold.
    pub then: Vec<Operation>,
    /// The operations if a condition does not hold; `None`: the transaction is refused with that condition's rejection.
    pub otherwise: Option<Vec<Operation>>,
    /// When the request was received; this becomes `ctime` and `mtime`.
    pub at: WallMillis,
}

/// The idempotency key of a write, with a fingerprint of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteKey {
    /// The caller's key.
    pub key: GrantId,
    /// The first 128 bits of SHA-256 over the request.
    pub fingerprint: [u8; 16],
}

/// A condition of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// A held grant has this token. If `grant` is given, it is that grant.
    Fence {
        /// The lock.
        lock: LockName,
        /// The token.
        token: FencingToken,
        /// The grant, to tell apart shared grants with the same token.
        grant: Option<GrantId>,
    },
    /// The node has this data version.
    Version {
        /// The node.
        path: Path,
        /// Its version; `None`: the node must not exist.
        version: Option<i32>,
    },
    /// The node exists, whatever its version.
    Exists {
        /// The node.
        path: Path,
    },
    /// The session is open.
    Session {
        /// The session.
        session: SessionKey,
    },
}

/// A session by its id or its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionKey {
    /// By its secret id.
    Id(SessionId),
    /// By its public number.
    Number(SessionNumber),
}

/// How long a written node lives. A node keeps the lifetime with which it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// Until it is removed. For a put to an existing node, this accepts any lifetime.
    Persistent,
    /// As long as this session.
    Ephemeral {
        /// The session's secret id.
        session: SessionId,
    },
    /// Until it has had no children for some time, after its first child.
    Container,
    /// Until it has had no children and no change for this long.
    Ttl {
        /// Its time to live in milliseconds.
        ttl_ms: u64,
    },
}

/// One change of the tree, or a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Writes a node's value, and creates the node if it does not exist.
    Put {
        /// The node.
        path: Path,
        /// Its new value.
        value: Value,
        /// Whether missing parents are created too, as persistent nodes.
        parents: bool,
        /// How long it lives.
        lifetime: Lifetime,
    },
    /// Creates a node.
    Create {
        /// The node.
        path: Path,
        /// Its value.
        value: Value,
        /// Whether missing parents are created too, as persistent nodes.
        parents: bool,
        /// How long it lives.
        lifetime: Lifetime,
    },
    /// Creates a node whose name ends with the parent's counter, the number of children ever created in it.
    CreateSequential {
        /// The parent.
        parent: Path,
        /// The beginning of the name; may be empty.
        prefix: String,
        /// Its value.
        value: Value,
        /// Whether the parent and its missing ancestors are created too, as persistent nodes.
        parents: bool,
        /// How long it lives.
        lifetime: Lifetime,
    },
    /// Writes the value of an existing node.
    Set {
        /// The node.
        path: Path,
        /// Its new value.
        value: Value,
        /// The version that it must have; `None`: any.
        version: Option<i32>,
    },
    /// Removes a node.
    Delete {
        /// The node.
        path: Path,
        /// The version that it must have; `None`: any.
        version: Option<i32>,
        /// Whether to remove everything below it too.
        recursive: bool,
    },
    /// Changes nothing: checks that the node exists.
    Check {
        /// The node.
        path: Path,
        /// The version that it must have; `None`: any.
        version: Option<i32>,
    },
}

impl Condition {
    /// Its approximate size in bytes: the name in it.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Condition::Fence { lock, .. } => lock.as_str().len(),
            Condition::Version { path, .. } | Condition::Exists { path } => path.as_str().len(),
            Condition::Session { .. } => 0,
        }
    }
}

impl Operation {
    /// Its approximate size in bytes: its path and its value.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Operation::Put { path, value, .. } | Operation::Create { path, value, .. } | Operation::Set { path, value, .. } => {
                path.as_str().len() + value.len()
            }
            Operation::CreateSequential { parent, prefix, value, .. } => parent.as_str().len() + prefix.len() + value.len(),
            Operation::Delete { path, .. } | Operation::Check { path, .. } => path.as_str().len(),
        }
    }
}

/// A container or TTL node that may be removed once it has stayed unchanged for long enough.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sweepable {
    /// The node.
    pub path: Path,
    /// The last change of its value or its children.
    pub since: Revision,
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationResult {
    /// The node has a new value.
    Put {
        /// Whether the operation created it.
        created: bool,
        /// Its new version.
        version: i32,
    },
    /// The node was created.
    Created {
        /// Its path. For a sequential node, only this result has it.
        path: Path,
    },
    /// The node has a new value.
    Set {
        /// Its new version.
        version: i32,
    },
    /// The node was removed.
    Deleted {
        /// How many nodes were removed, including itself.
        count: u32,
    },
    /// The check passed.
    Checked {
        /// Its version.
        version: i32,
    },
}

/// A part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The conditions.
    Conditions,
    /// The operations if all conditions hold.
    Then,
    /// The operations if a condition does not hold.
    Otherwise,
}

//! What is asked of the tree's nodes and what comes of it: the part of the machine's boundary that is about nodes. `command` has
//! all of it.
//!
//! As there: add variants at the end, and change a struct only together with `LOG_FORMAT`.

use crate::value::Value;
use fairhold_types::{FencingToken, GrantId, LockName, Path, Revision, SessionId, SessionNumber, time::WallMillis};
use serde::{Deserialize, Serialize};

/// Conditions, then operations: all or nothing, one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transact {
    /// The caller's idempotency key and what it is the key of, where it gave one.
    pub key: Option<WriteKey>,
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// What is done where all hold.
    pub then: Vec<Operation>,
    /// What is done where one does not; `None`: it is refused with that condition's rejection.
    pub otherwise: Option<Vec<Operation>>,
    /// When the request was taken; it becomes `ctime` and `mtime`.
    pub at: WallMillis,
}

/// An idempotency key of a write, with a fingerprint of the request that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteKey {
    /// The caller's key.
    pub key: GrantId,
    /// The first 128 bits of SHA-256 over the request.
    pub fingerprint: [u8; 16],
}

/// Something that must hold for a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// A held grant with that token exists, and it is this grant where one is named.
    Fence {
        /// The lock.
        lock: LockName,
        /// The token.
        token: FencingToken,
        /// The grant, to be exact among readers who share a token.
        grant: Option<GrantId>,
    },
    /// The node's data version is this one.
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

/// A session by either of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionKey {
    /// By its secret id.
    Id(SessionId),
    /// By its public number.
    Number(SessionNumber),
}

/// How long a node that is written is to live. A node keeps what it was created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// Until it is removed. A put takes it for "whatever the node is, if it exists".
    Persistent,
    /// As long as this session.
    Ephemeral {
        /// The session's secret id.
        session: SessionId,
    },
    /// Until it has been without children for some time, after it had some.
    Container,
    /// Until it has been without children and without a change for this long.
    Ttl {
        /// How long.
        ttl_ms: u64,
    },
}

/// One change of the tree, or a question to it.
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
    /// Creates a node whose name ends with the parent's counter: the number of children that were ever created in it.
    CreateSequential {
        /// The parent.
        parent: Path,
        /// What the name begins with; it may be empty.
        prefix: String,
        /// Its value.
        value: Value,
        /// Whether the parent and what is missing above it are created too, as persistent nodes.
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
    /// Changes nothing: asks that the node exists.
    Check {
        /// The node.
        path: Path,
        /// The version that it must have; `None`: any.
        version: Option<i32>,
    },
}

impl Condition {
    /// About how many bytes it has: the name in it.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Condition::Fence { lock, .. } => lock.as_str().len(),
            Condition::Version { path, .. } | Condition::Exists { path } => path.as_str().len(),
            Condition::Session { .. } => 0,
        }
    }
}

impl Operation {
    /// About how many bytes it has: its path and its value.
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

/// A container or TTL node that may be removed once it has stayed as it is for long enough.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sweepable {
    /// The node.
    pub path: Path,
    /// The last change of its value or of its children.
    pub since: Revision,
}

/// What one operation of a write did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationResult {
    /// The node has a new value.
    Put {
        /// Whether it was created by it.
        created: bool,
        /// Its version now.
        version: i32,
    },
    /// The node was created.
    Created {
        /// Its path, which a sequential one has from here alone.
        path: Path,
    },
    /// The node has a new value.
    Set {
        /// Its version now.
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
    /// The operations to run when all conditions hold.
    Then,
    /// The operations to run when a condition does not hold.
    Otherwise,
}

//! The calls for the tree, and their answers: a node, a listing, one write, a transaction.

use fairhold_state::{
    command::{Condition, Operation, OperationResult},
    record::Znode,
};
use fairhold_types::{FencingToken, GrantId, LockName, Path, Revision};
use std::time::Duration;

/// A node of the tree with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its stat and value.
    pub node: Znode,
}

/// A node of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Its path.
    pub path: Path,
    /// Its stat and value.
    pub node: Znode,
}

/// A page of the nodes below a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// The node that was listed.
    pub parent: Znode,
    /// Nodes below it, in the order of their paths.
    pub rows: Vec<NodeRow>,
    /// Whether more nodes follow.
    pub more: bool,
}

/// Performs one operation on the tree.
#[derive(Debug, Clone)]
pub struct WriteCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// The operation.
    pub operation: Operation,
    /// From `If-Match` or `If-None-Match`.
    pub precondition: Option<Precondition>,
    /// From `Fairhold-Fence`.
    pub fence: Option<Fence>,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// A condition on a node, checked before a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// The node has this version.
    Version(Path, i32),
    /// The node does not exist.
    Absent(Path),
    /// The node exists, with any version.
    Exists(Path),
}

/// Checks conditions and performs operations in one step.
#[derive(Debug, Clone)]
pub struct TransactCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// The conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// The operations if all conditions hold.
    pub then: Vec<Operation>,
    /// The operations otherwise; `None` means that the transaction is refused.
    pub otherwise: Option<Vec<Operation>>,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transacted {
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The results of the operations that were performed, in order.
    pub results: Vec<OperationResult>,
    /// The revision of the transaction; for a repeated request, that of the first one.
    pub at: Revision,
    /// Whether the request was repeated and its results were too many to be remembered: then `results` is empty.
    pub replayed: bool,
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operated {
    /// The result.
    pub result: OperationResult,
    /// The revision of the operation; for a repeated request, that of the first one.
    pub at: Revision,
}

/// A `Fairhold-Fence` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lock.
    pub lock: LockName,
    /// The token that a held grant must have.
    pub token: FencingToken,
    /// The grant that must have it, if named.
    pub grant: Option<GrantId>,
}

//! What can be asked of the tree: a node, a listing, one write, a transaction.

use fairhold_state::{
    command::{Condition, Operation, OperationResult},
    record::Znode,
};
use fairhold_types::{FencingToken, GrantId, LockName, Path, Revision};
use std::time::Duration;

/// A node of the tree with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its stat and value, as the state has them.
    pub node: Znode,
}

/// A node of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Its path.
    pub path: Path,
    /// Its stat and value, as the state has them.
    pub node: Znode,
}

/// A part of what is below a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// The node whose children they are.
    pub parent: Znode,
    /// They, in the order of their paths.
    pub rows: Vec<NodeRow>,
    /// Whether there are more behind the last.
    pub more: bool,
}

/// Does one operation on the tree.
#[derive(Debug, Clone)]
pub struct WriteCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// What is done.
    pub operation: Operation,
    /// `If-Match` and `If-None-Match`.
    pub precondition: Option<Precondition>,
    /// `Fairhold-Fence`.
    pub fence: Option<Fence>,
    /// How long the server may work on it.
    pub timeout: Duration,
}

/// What a node must be before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// It has this version.
    Version(Path, i32),
    /// It does not exist.
    Absent(Path),
    /// It exists, whatever its version.
    Exists(Path),
}

/// Checks conditions and does operations in one step.
#[derive(Debug, Clone)]
pub struct TransactCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// What is done where all hold.
    pub then: Vec<Operation>,
    /// What is done where one does not; `None`: it is refused.
    pub otherwise: Option<Vec<Operation>>,
    /// How long the server may work on it.
    pub timeout: Duration,
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transacted {
    /// Whether all conditions held.
    pub succeeded: bool,
    /// What each operation of the branch that was taken did, in order.
    pub results: Vec<OperationResult>,
    /// The revision at which that was: the first time, where the request is repeated.
    pub at: Revision,
    /// The request is repeated, and its results were too many to be remembered: `results` is empty.
    pub replayed: bool,
}

/// What one operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operated {
    /// What.
    pub result: OperationResult,
    /// The revision at which that was: the first time, where the request is repeated.
    pub at: Revision,
}

/// `Fairhold-Fence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lock.
    pub lock: LockName,
    /// The token.
    pub token: FencingToken,
    /// The grant, where it is named.
    pub grant: Option<GrantId>,
}

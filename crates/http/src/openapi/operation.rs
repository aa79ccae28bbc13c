//! One call of the API, described.

use http::Method;
use serde_json::Value;

/// The description of one call.
pub(super) struct DescribedCall {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) value: Value,
}

/// What a call answers, apart from its own refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// It asks the cluster, or the state of this server.
    Read,
    /// It changes something, and is safe to repeat.
    Change,
    /// It changes something, and needs its key to be repeated.
    Keyed,
    /// It says what this server knows, and never waits for another.
    Here,
}

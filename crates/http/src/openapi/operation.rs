//! The description of one call of the API.

use http::Method;
use serde_json::Value;

/// The description of one call.
pub(super) struct DescribedCall {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) value: Value,
}

/// The kind of a call: it decides the headers and refusals that the call shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// It reads the state of the cluster or of this server.
    Read,
    /// It changes something and is safe to repeat.
    Change,
    /// It changes something; a repeat needs the idempotency key.
    Keyed,
    /// This server answers by itself.
    Here,
}

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
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// A GET that reads the state of the cluster or of this server.
    Read,
    /// It changes something and is safe to repeat.
    Change(Method),
    /// It changes something; a repeat needs the idempotency key.
    Keyed(Method),
    /// A GET that this server answers by itself.
    Here,
}

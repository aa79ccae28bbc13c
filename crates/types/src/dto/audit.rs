//! The JSON bodies about the audit of administrative acts.

use crate::Revision;
use serde::{Deserialize, Serialize};

/// The newest entry of the audit of administrative acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AuditChainHead {
    /// Its sequence number: how many entries there were.
    pub seq: u64,
    /// Its hash, 64 hexadecimal digits. Keep it elsewhere, and compare it with later exports.
    pub hash: String,
}

/// An administrative act. The fields have this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AuditedAct {
    /// Its sequence number: 1 for the first one.
    pub seq: u64,
    /// The revision that it made. A refused act makes one too.
    pub revision: Revision,
    /// When the server received the request.
    pub time: String,
    /// The principal, such as `user:ci`; `anonymous` without a credential.
    pub principal: String,
    /// The network address of the caller.
    pub address: String,
    /// The id of the request, as in the header `Fairhold-Request-Id` of its answer.
    pub request: String,
    /// What was done, such as `break` or `tokens.revoke`.
    pub verb: String,
    /// What it acted on, such as `locks:orders/42`; may be empty.
    pub on: String,
    /// Further facts, such as `limit=3`; may be empty.
    pub detail: String,
    /// The reason that the administrator gave; may be empty.
    pub reason: String,
    /// `ok`, or the code of the refusal. `unknown` if the act had begun, and its end is unknown.
    pub result: String,
    /// The hash of the entry before; zeros for the first one.
    pub previous: String,
    /// The SHA-256 of this line without `previous` and `hash`, followed by `previous`; 64 hexadecimal digits.
    pub hash: String,
}

//! The answer to one call.

use super::failure::Failure;
use fairhold_types::problem::Effect;
use reqwest::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};

/// An answer that says yes.
#[derive(Debug)]
pub(crate) struct ApiReply {
    /// The body, byte for byte.
    pub(crate) body: Vec<u8>,
}

impl ApiReply {
    /// The body as what it should be.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::Ended(format!("the answer is not valid, so the server may be newer: {error}")))
    }
}

/// What a node says that does not do it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutcomeProblem {
    pub(super) code: String,
    /// `/readyz?verbose` has it under this name.
    #[serde(alias = "reason")]
    pub(super) detail: String,
    pub(super) outcome: Option<Effect>,
}

pub(super) fn problem(status: StatusCode, body: &[u8]) -> OutcomeProblem {
    let problem: OutcomeProblem = serde_json::from_slice(body).unwrap_or_default();
    if problem.detail.is_empty() { OutcomeProblem { detail: status.to_string(), ..problem } } else { problem }
}

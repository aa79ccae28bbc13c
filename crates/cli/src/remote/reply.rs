//! The answer to a successful call.

use super::failure::Failure;
use serde::de::DeserializeOwned;

/// A successful answer.
#[derive(Debug)]
pub(crate) struct ApiReply {
    /// The body, byte for byte.
    pub(crate) body: Vec<u8>,
    /// The URL of the node that answered.
    pub(crate) endpoint: String,
}

impl ApiReply {
    /// Parses the body.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::Ended(format!("the answer is not valid, so the server may be newer: {error}")))
    }
}

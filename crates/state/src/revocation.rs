//! The trace that an administrator's request to release a lock leaves in the contender.

use fairhold_types::Revision;
use serde::{Deserialize, Serialize};

/// An administrator's request to a holder to release the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The revision of the request.
    pub revision: Revision,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
}

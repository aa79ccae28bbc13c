//! The access rights of a node, as ZooKeeper has them.

use serde::{Deserialize, Serialize};

/// The operations that an identity may perform on a node, in ZooKeeper's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    /// The allowed operations: read 1, write 2, create 4, delete 8, administer 16.
    pub permissions: u32,
    /// The authentication scheme, like `world` or `digest`.
    pub scheme: String,
    /// The identity, in the terms of the scheme.
    pub id: String,
}

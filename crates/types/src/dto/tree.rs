//! The tree of nodes.

use super::{Path, Revision, SessionNumber};
use serde::{Deserialize, Serialize};

/// A node of the tree without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Stat {
    /// Its path.
    pub path: Path,
    /// The revision that created it.
    pub czxid: Revision,
    /// The revision that last wrote its value.
    pub mzxid: Revision,
    /// The revision that last added or removed a child.
    pub pzxid: Revision,
    /// When it was created.
    pub ctime: String,
    /// When its value was last written.
    pub mtime: String,
    /// How many times its value was written.
    pub version: i32,
    /// How many times a child was created or removed.
    pub cversion: i32,
    /// How many times its access list was written.
    pub aversion: i32,
    /// The session that owns it, if it is ephemeral; 0 for none.
    pub ephemeral_owner: SessionNumber,
    /// The size of its value in bytes.
    pub data_length: usize,
    /// How many children it has.
    pub num_children: u32,
}

/// A node of the tree was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Written {
    /// Its path.
    pub path: Path,
    /// Its version now.
    pub version: i32,
    /// The revision of the write.
    pub revision: Revision,
}

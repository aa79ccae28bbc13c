//! The file `MEMBERS`: the addresses of the node and of the members that it knew last. With it, a node starts again
//! without a list of members.
//!
//! It does not say which nodes are members: only the replicated membership does. A wrong address in it does no harm,
//! because a connection begins with the id and the data directory of the node that answers.

use crate::durable;
use fairhold_types::NodeId;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path};

/// The version byte of the `MEMBERS` file.
pub const MEMBERS_FORMAT: u8 = 1;

const MEMBERS: &str = "MEMBERS";

/// What to do about a damaged file.
const ADVICE: &str = "Look for a failing disk. The file only helps a start: to start without it, remove it, and pass the list \
                      of all nodes with --member";

/// The addresses of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAddresses {
    /// Its address for clients: `http://HOST:PORT`.
    pub url: String,
    /// Its address for the other nodes: `HOST:PORT`.
    pub peer: String,
}

/// The content of `MEMBERS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownMembers {
    /// Whether the node joined a running cluster. Otherwise it formed the cluster with these members, or will form it.
    pub joined: bool,
    /// The addresses of the members, and of the node itself.
    pub members: BTreeMap<NodeId, KnownAddresses>,
}

/// Reads the file of a data directory; `None` if there is none.
pub(crate) fn read(directory: &Path) -> io::Result<Option<KnownMembers>> {
    let path = directory.join(MEMBERS);
    let Some(bytes) = durable::read(&path)? else { return Ok(None) };
    let decoded = fairhold_codec::decode(MEMBERS_FORMAT, &bytes);
    decoded.map(Some).map_err(|error| durable::damaged(&path, format!("{error}. {ADVICE}")))
}

/// Writes the file durably.
pub(crate) fn write(directory: &Path, members: &KnownMembers) -> io::Result<()> {
    durable::write(&directory.join(MEMBERS), &[&encode(members)?])
}

/// The bytes of the file.
pub(crate) fn encode(members: &KnownMembers) -> io::Result<Vec<u8>> {
    fairhold_codec::encode(MEMBERS_FORMAT, members).map_err(io::Error::other)
}

//! Why a data directory cannot be used, each with advice.

use fairhold_codec::DecodeError;
use fairhold_types::{ClusterId, NodeId};
use std::{io, path::PathBuf};

/// The file that marks a directory whose node has lost entries.
pub(super) const LOST_ENTRIES: &str = "LOST-ENTRIES";

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has the directory open.
    #[error("{path} is in use by another fairhold process{}: stop that one first", pid_text(*pid))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other process, if known.
        pid: Option<u32>,
    },
    /// The directory belongs to another node.
    #[error("{path} belongs to node {recorded}, but this is node {own}: start the node with its own data directory")]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// The node that created it.
        recorded: NodeId,
        /// The node that tried to open it.
        own: NodeId,
    },
    /// The node of the directory has not joined its cluster yet.
    #[error(
        "{path} belongs to a node that has not joined its cluster yet: start it with --join-file and --advertise as before, or \
         give fairhold an empty directory"
    )]
    NotJoined {
        /// The directory.
        path: PathBuf,
    },
    /// A node with an id has used the directory, but never in a cluster.
    #[error(
        "{path} was made by node {node}, which belongs to no cluster: to join a running one, delete the directory first. To form \
         a cluster with it, start node {node} with --member"
    )]
    NoCluster {
        /// The directory.
        path: PathBuf,
        /// The node that made it.
        node: NodeId,
    },
    /// The directory belongs to another cluster.
    #[error("{path} belongs to cluster {recorded}, not to {own}")]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// The cluster that it belongs to.
        recorded: ClusterId,
        /// The cluster of the node that tried to open it.
        own: ClusterId,
    },
    /// The directory has files but no identity.
    #[error(
        "{path} is not empty ({found}) and has no IDENTITY file. If a `fairhold backup restore` was interrupted, delete the \
         directory and restore again: with an empty one, an empty cluster forms. If it was this node's, the file was lost: \
         restore it, or replace the node, `fairhold cluster replace N`. If it was not, give fairhold an empty directory"
    )]
    NoIdentity {
        /// The directory.
        path: PathBuf,
        /// A file that is in it.
        found: String,
    },
    /// The directory has files, but a restore needs an empty one.
    #[error("{path} is not empty ({found}): restore into a new directory, or an empty one")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// A file that is in it.
        found: String,
    },
    /// There is no node in the directory.
    #[error("{path} is not the data directory of a node: it has no IDENTITY file")]
    NoNode {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has lost entries that its node had acknowledged.
    #[error(
        "{path} must not be used any more: {why}. Remove the file {LOST_ENTRIES} from it only when you have put the newest files \
         of this node back"
    )]
    LostEntries {
        /// The directory.
        path: PathBuf,
        /// What was lost, and what to do.
        why: String,
    },
    /// The node of the directory was removed from its cluster.
    #[error("{path} must not be used any more: {why}")]
    Removed {
        /// The directory.
        path: PathBuf,
        /// What happened, and what to do.
        why: String,
    },
    /// The `IDENTITY` file is damaged.
    #[error("{path} is damaged: {source}. Restore the file, or replace the node: `fairhold cluster replace N`")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// An operation of the operating system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

//! The data directory: one process, one node, one identity.

use crate::durable;
use fairhold_codec::DecodeError;
use fairhold_types::{ClusterId, Incarnation, NodeId, failpoint};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The version byte of the `IDENTITY` file.
pub const IDENTITY_FORMAT: u8 = 1;

const LOCK: &str = "LOCK";
const IDENTITY: &str = "IDENTITY";
const LOST_ENTRIES: &str = "LOST-ENTRIES";
const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";

/// The files allowed in an unused directory: leftovers of an interrupted first start, and those of a new file system.
const ALLOWED_NAMES: [&str; 3] = [LOCK, "IDENTITY.new", "lost+found"];

/// A data directory that this process uses exclusively, and its identity.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: Identity,
    is_new: bool,
    /// The lock is held while the file is open.
    _lock: File,
}

/// The content of `IDENTITY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) cluster: Option<ClusterId>,
    /// Whether the log must exist. This distinguishes a log that was not created yet from a lost one.
    pub(crate) has_log: bool,
}

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
        "{path} is not empty ({found}) and has no IDENTITY file. If it was this node's, the file was lost: restore it, or remove \
         the node from the cluster and add it again with an empty directory. If it was not, give fairhold an empty directory"
    )]
    NoIdentity {
        /// The directory.
        path: PathBuf,
        /// A file that is in it.
        found: String,
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
    /// The `IDENTITY` file is damaged.
    #[error("{path} is damaged: {source}")]
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

impl DataDir {
    /// Opens a directory for one node, or creates it.
    pub fn open(path: &Path, node: NodeId) -> Result<DataDir, DataDirError> {
        create_directory(path)?;
        let lock = lock(path)?;
        refuse_lost_entries(path)?;
        let file = path.join(IDENTITY);
        let (identity, is_new) = match durable::read(&file)? {
            Some(bytes) => (decode(&file, &bytes)?, false),
            None => {
                refuse_other_files(path)?;
                (Identity { node, incarnation: Incarnation(rand::random()), cluster: None, has_log: false }, true)
            }
        };
        if identity.node != node {
            return Err(DataDirError::OtherNode { path: path.to_owned(), recorded: identity.node, own: node });
        }
        let mut directory = DataDir { path: path.to_owned(), identity, is_new, _lock: lock };
        if is_new {
            directory.write(identity)?;
        }
        for name in [LOG, SNAPSHOT] {
            create_directory(&path.join(name))?;
        }
        Ok(directory)
    }

    /// Whether the directory exists and has an identity.
    pub(crate) fn is_initialized(path: &Path) -> bool {
        path.join(IDENTITY).is_file()
    }

    /// The random identity of this directory, made when it was created.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.identity.incarnation
    }

    /// The node that it belongs to.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.identity.node
    }

    /// The cluster that it belongs to, once it is set.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.identity.cluster
    }

    /// Whether `open` created it. An older directory may still have no other files.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Binds the directory to a cluster, durably and permanently.
    pub fn set_cluster(&mut self, cluster: ClusterId) -> Result<(), DataDirError> {
        match self.identity.cluster {
            Some(recorded) if recorded == cluster => Ok(()),
            Some(recorded) => Err(DataDirError::OtherCluster { path: self.path.clone(), recorded, own: cluster }),
            None => self.write(Identity { cluster: Some(cluster), ..self.identity }),
        }
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join(LOG)
    }

    pub(crate) fn snapshot_path(&self) -> PathBuf {
        self.path.join(SNAPSHOT)
    }

    pub(crate) fn has_log(&self) -> bool {
        self.identity.has_log
    }

    /// Records durably that the log exists: from now on, a missing log is a lost log.
    pub(crate) fn set_has_log(&mut self) -> Result<(), DataDirError> {
        if self.identity.has_log {
            return Ok(());
        }
        self.write(Identity { has_log: true, ..self.identity })
    }

    fn write(&mut self, identity: Identity) -> Result<(), DataDirError> {
        failpoint!(StorageIdentityWrite)?;
        let bytes = encode(&identity)?;
        durable::write(&self.path.join(IDENTITY), &[&bytes])?;
        self.identity = identity;
        Ok(())
    }
}

/// Marks a directory durably as unusable, because it lacks entries that its node had acknowledged. `why` is for people.
/// The caller holds the directory's lock.
pub fn mark_lost_entries(path: &Path, why: &str) -> io::Result<()> {
    durable::write(&path.join(LOST_ENTRIES), &[why.as_bytes(), b"\n"])
}

fn refuse_lost_entries(directory: &Path) -> Result<(), DataDirError> {
    let Some(why) = durable::read(&directory.join(LOST_ENTRIES))? else { return Ok(()) };
    let why = String::from_utf8_lossy(&why).trim().to_owned();
    Err(DataDirError::LostEntries { path: directory.to_owned(), why })
}

/// The bytes of an `IDENTITY` file.
pub(crate) fn encode(identity: &Identity) -> io::Result<Vec<u8>> {
    fairhold_codec::encode(IDENTITY_FORMAT, identity).map_err(io::Error::other)
}

fn decode(file: &Path, bytes: &[u8]) -> Result<Identity, DataDirError> {
    fairhold_codec::decode(IDENTITY_FORMAT, bytes).map_err(|source| DataDirError::Damaged { path: file.to_owned(), source })
}

/// Only the owner may read the log: it contains ids, which are secrets.
fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if path.exists() {
        return Err(durable::with_path(path, io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory")));
    }
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
    {
        create_directory(parent)?;
    }
    // Recursive, so that an existing directory is not an error.
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| durable::with_path(path, error))?;
    durable::sync_parent(path)
}

fn lock(directory: &Path) -> Result<File, DataDirError> {
    let path = directory.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| durable::with_path(&path, error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(DataDirError::InUse { path: directory.to_owned(), pid });
        }
        Err(error) => return Err(durable::with_path(&path, error.into()).into()),
    }
    // The pid is for people. The kernel holds the lock itself, and releases it however the process ends.
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(|error| durable::with_path(&path, error))?;
    Ok(file)
}

fn refuse_other_files(directory: &Path) -> Result<(), DataDirError> {
    let found = durable::names(directory)?.into_iter().find(|name| !ALLOWED_NAMES.contains(&name.as_str()));
    found.map_or(Ok(()), |found| Err(DataDirError::NoIdentity { path: directory.to_owned(), found }))
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

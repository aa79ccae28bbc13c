//! The data directory: one process, one node, one identity.
//!
//! A node that joins a running cluster gets its id from the cluster. Until then, `IDENTITY` has the id 0: the
//! incarnation is durable before the cluster sees it, so a repeated join gets the same id. The file with the id is
//! written last, after `MEMBERS`.

mod error;

pub use error::DataDirError;

use crate::{
    durable,
    known_members::{self, KnownMembers},
    timing_file,
};
use error::LOST_ENTRIES;
use fairhold_types::{ClusterId, Incarnation, NodeId, Timing, failpoint};
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

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const IDENTITY: &str = "IDENTITY";
const REMOVED: &str = "REMOVED";
const LOG: &str = "log";
pub(crate) const SNAPSHOT: &str = "snapshot";

/// The files allowed in an unused directory: leftovers of an interrupted first start, and those of a new file system.
const ALLOWED_NAMES: [&str; 3] = [LOCK, "IDENTITY.new", "lost+found"];

/// The id in `IDENTITY` until the cluster has given the node one. Real ids start at 1.
const JOINING: NodeId = 0;

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

/// What a data directory knows about its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedNode {
    /// The node's id; `None` while it joins its cluster.
    pub id: Option<NodeId>,
    /// Its cluster, once it is set.
    pub cluster: Option<ClusterId>,
    /// The members that it knew last. A directory of an older program has none.
    pub members: Option<KnownMembers>,
    /// The cluster's timing profile, if it was ever another one than the default.
    pub timing: Option<Timing>,
}

impl DataDir {
    /// Opens a directory for one node, or creates it.
    pub fn open(path: &Path, node: NodeId) -> Result<DataDir, DataDirError> {
        let directory = DataDir::open_for(path, node)?;
        let recorded = directory.identity.node;
        if recorded == node {
            return Ok(directory);
        }
        let path = path.to_owned();
        match recorded {
            JOINING => Err(DataDirError::NotJoined { path }),
            recorded => Err(DataDirError::OtherNode { path, recorded, own: node }),
        }
    }

    /// Opens a directory for a node that joins a cluster, or creates it. Its incarnation is durable afterwards.
    pub fn open_to_join(path: &Path) -> Result<DataDir, DataDirError> {
        DataDir::open_for(path, JOINING)
    }

    /// Opens a directory, or creates it for this node.
    fn open_for(path: &Path, node: NodeId) -> Result<DataDir, DataDirError> {
        create_directory(path)?;
        let lock = lock(path)?;
        refuse_unusable(path)?;
        let (identity, is_new) = match read_identity(path)? {
            Some(identity) => (identity, false),
            None => {
                refuse_other_files(path)?;
                (Identity { node, incarnation: Incarnation(rand::random()), cluster: None, has_log: false }, true)
            }
        };
        let mut directory = DataDir { path: path.to_owned(), identity, is_new, _lock: lock };
        if is_new {
            directory.write(identity)?;
        }
        for name in [LOG, SNAPSHOT] {
            create_directory(&path.join(name))?;
        }
        Ok(directory)
    }

    /// Reads what a directory knows about its node, without opening it; `None` if it has no identity yet.
    pub fn recorded(path: &Path) -> Result<Option<RecordedNode>, DataDirError> {
        let Some(identity) = read_identity(path)? else { return Ok(None) };
        Ok(Some(RecordedNode {
            id: (identity.node != JOINING).then_some(identity.node),
            cluster: identity.cluster,
            members: known_members::read(path)?,
            timing: timing_file::read(path)?,
        }))
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

    /// The node that it belongs to; 0 until the cluster has given it an id.
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

    /// Records durably that the node has joined: its id, its cluster, and the members that it knows.
    ///
    /// If the process crashes before the id is durable, the node joins again and gets the same id.
    pub fn set_joined(&mut self, node: NodeId, cluster: ClusterId, members: &KnownMembers) -> Result<(), DataDirError> {
        let recorded = self.identity.node;
        if recorded != JOINING && recorded != node {
            return Err(DataDirError::OtherNode { path: self.path.clone(), recorded, own: node });
        }
        self.set_members(members)?;
        self.write(Identity { node, cluster: Some(cluster), ..self.identity })
    }

    /// Records the members that the node knows, for a start without a list of members. Writes nothing if they are the
    /// recorded ones.
    pub fn set_members(&self, members: &KnownMembers) -> Result<(), DataDirError> {
        if known_members::read(&self.path)?.as_ref() != Some(members) {
            known_members::write(&self.path, members)?;
        }
        Ok(())
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

/// Marks a directory durably as that of a node that was removed from its cluster. `why` is for people. The caller holds
/// the directory's lock.
pub fn mark_removed(path: &Path, why: &str) -> io::Result<()> {
    durable::write(&path.join(REMOVED), &[why.as_bytes(), b"\n"])
}

fn refuse_unusable(directory: &Path) -> Result<(), DataDirError> {
    if let Some(why) = read_mark(directory, REMOVED)? {
        return Err(DataDirError::Removed { path: directory.to_owned(), why });
    }
    match read_mark(directory, LOST_ENTRIES)? {
        Some(why) => Err(DataDirError::LostEntries { path: directory.to_owned(), why }),
        None => Ok(()),
    }
}

fn read_mark(directory: &Path, name: &str) -> io::Result<Option<String>> {
    let text = durable::read(&directory.join(name))?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).trim().to_owned()))
}

fn read_identity(directory: &Path) -> Result<Option<Identity>, DataDirError> {
    let file = directory.join(IDENTITY);
    durable::read(&file)?.map(|bytes| decode(&file, &bytes)).transpose()
}

/// The bytes of an `IDENTITY` file.
pub(crate) fn encode(identity: &Identity) -> io::Result<Vec<u8>> {
    fairhold_codec::encode(IDENTITY_FORMAT, identity).map_err(io::Error::other)
}

fn decode(file: &Path, bytes: &[u8]) -> Result<Identity, DataDirError> {
    fairhold_codec::decode(IDENTITY_FORMAT, bytes).map_err(|source| DataDirError::Damaged { path: file.to_owned(), source })
}

/// Only the owner may read the log: it contains ids, which are secrets.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
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

pub(crate) fn lock(directory: &Path) -> Result<File, DataDirError> {
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

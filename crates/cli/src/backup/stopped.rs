//! The state in the data directory of a stopped node.

use super::error::BackupError;
use fairhold_backup::{BackupMember, BackupOrigin, BackupSource};
use fairhold_raft::{StoppedMember, StoppedNode};
use fairhold_storage::{
    Storage,
    data_dir::{DataDir, DataDirError},
};
use fairhold_types::{NodeId, time::WallMillis};
use openraft_rt_tokio::TokioRuntime;
use std::{io, path::Path};

/// Reads the state of a stopped node. While it is read, no node starts with the directory. It changes nothing that a node
/// has stored.
pub(super) fn read(data: &Path) -> Result<(NodeId, StoppedNode), BackupError> {
    let path = data.to_owned();
    let recorded = DataDir::recorded(data)?.ok_or_else(|| DataDirError::NoNode { path: path.clone() })?;
    let id = recorded.id.ok_or(DataDirError::NotJoined { path })?;
    let failed = |error: io::Error| BackupError::State { data: data.to_owned(), error };
    let Storage { data_dir, mut log, snapshots, faults: _ } =
        Storage::open(data, id).map_err(|error| BackupError::of_storage(data, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let node = runtime.block_on(StoppedNode::read::<TokioRuntime, _>(&mut log, &snapshots)).map_err(failed)?;
    drop((log, snapshots, data_dir));
    Ok((id, node))
}

/// The origin of a backup of this node.
pub(super) fn origin(id: NodeId, node: &StoppedNode, at: WallMillis) -> BackupOrigin {
    let member = |StoppedMember { id, member, voter }: &StoppedMember| BackupMember {
        id: *id,
        url: member.url.clone(),
        address: member.address.clone(),
        voter: *voter,
    };
    BackupOrigin {
        node: id,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        source: BackupSource::Stopped,
        log: node.last,
        members: node.members.iter().map(member).collect(),
        at,
    }
}

//! A snapshot file that is being written.

use super::{
    directory::{Directory, SnapshotFile},
    layout::Composer,
    stored::Stored,
};
use crate::durable::NewFile;
use bytes::Bytes;
use fairhold_raft::snapshot::{SnapshotDraft, StoredSnapshot};
use fairhold_types::failpoint;
use std::{io, sync::Arc};

/// An incomplete snapshot.
pub(super) struct Draft {
    directory: Arc<Directory>,
    meta: Bytes,
    composer: Composer,
    /// The first write creates it, because a draft begins on Raft's thread.
    file: Option<(SnapshotFile, NewFile)>,
}

impl Draft {
    pub(super) fn new(directory: Arc<Directory>, meta: Bytes) -> Draft {
        Draft { directory, meta, composer: Composer::default(), file: None }
    }

    /// The file, with its header.
    fn take_file(&mut self) -> io::Result<(SnapshotFile, NewFile)> {
        if let Some(file) = self.file.take() {
            return Ok(file);
        }
        failpoint!(StorageSnapshotWrite)?;
        let (named, mut file) = SnapshotFile::create(&self.directory)?;
        file.write(&self.composer.begin(&self.meta)?)?;
        file.write(&self.meta)?;
        Ok((named, file))
    }

    pub(super) fn append(&mut self, block: &[u8]) -> io::Result<()> {
        let (named, mut file) = self.take_file()?;
        file.write(&self.composer.block(block)?)?;
        file.write(block)?;
        self.file = Some((named, file));
        Ok(())
    }

    pub(super) fn complete(mut self) -> io::Result<Arc<Stored>> {
        let (named, mut file) = self.take_file()?;
        let (footer, layout) = self.composer.end()?;
        file.write(&footer)?;
        file.finish()?;
        Ok(Arc::new(Stored::written(named, self.meta, layout)?))
    }
}

impl SnapshotDraft for Draft {
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.append(block).inspect_err(|error| self.directory.faults.record(error))
    }

    fn finish(self: Box<Self>) -> io::Result<Arc<dyn StoredSnapshot>> {
        let directory = Arc::clone(&self.directory);
        let whole = self.complete().inspect_err(|error| directory.faults.record(error))?;
        Ok(whole)
    }
}

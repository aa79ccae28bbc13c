//! A snapshot file that is being written.

use super::{directory::Directory, layout::Composer, stored::Stored};
use crate::durable::NewFile;
use bytes::Bytes;
use fairhold_raft::snapshot::{SnapshotDraft, StoredSnapshot};
use fairhold_types::failpoint;
use std::{io, path::PathBuf, sync::Arc};

/// An incomplete snapshot.
pub(super) struct Draft {
    directory: Arc<Directory>,
    meta: Bytes,
    writing: Option<Writing>,
}

struct Writing {
    /// `None` once the file is complete.
    path: Option<PathBuf>,
    /// `None` once the file is complete.
    file: Option<NewFile>,
    composer: Composer,
    directory: Arc<Directory>,
}

impl Draft {
    pub(super) fn new(directory: Arc<Directory>, meta: Bytes) -> Draft {
        Draft { directory, meta, writing: None }
    }

    fn start_writing(&mut self) -> io::Result<&mut Writing> {
        if self.writing.is_none() {
            failpoint!(StorageSnapshotWrite)?;
            let path = self.directory.temporary();
            let file = NewFile::create(&path)?;
            let directory = Arc::clone(&self.directory);
            let mut writing = Writing { path: Some(path), file: Some(file), composer: Composer::default(), directory };
            let header = writing.composer.begin(&self.meta)?;
            writing.write(&[&header, &self.meta])?;
            self.writing = Some(writing);
        }
        self.writing.as_mut().ok_or_else(gone)
    }

    fn append(&mut self, block: &[u8]) -> io::Result<()> {
        let writing = self.start_writing()?;
        let length = writing.composer.block(block)?;
        writing.write(&[&length, block])
    }

    fn complete(mut self) -> io::Result<Arc<Stored>> {
        self.start_writing()?;
        let mut writing = self.writing.take().ok_or_else(gone)?;
        let (footer, layout) = std::mem::take(&mut writing.composer).end()?;
        writing.write(&[&footer])?;
        writing.file.take().ok_or_else(gone)?.finish()?;
        // From here on, the stored snapshot removes the file.
        let path = writing.path.take().ok_or_else(gone)?;
        Ok(Arc::new(Stored::written(&self.directory, path, self.meta, layout)?))
    }
}

impl Writing {
    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let file = self.file.as_mut().ok_or_else(gone)?;
        parts.iter().try_for_each(|part| file.write(part))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            self.directory.remove_abandoned(path);
        }
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

fn gone() -> io::Error {
    io::Error::other("the snapshot is complete already")
}

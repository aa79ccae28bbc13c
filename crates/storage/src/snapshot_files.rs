//! Snapshots, one checksummed file each. Only the newest is kept.
//!
//! ```text
//! "FAIRSNAP" │ version (1) │ meta │ block │ block │ … │ count of blocks (4) │ CRC-32 of all before it (4)
//! meta, block = length (4) │ bytes                                            all little endian
//! ```
//!
//! A file gets its name, `snapshot/<number>.snap`, only when it is whole and durable, and the ones before it go only then. So
//! the one with the highest number is the newest, and it is whole. If it is not, the disk has damaged it, and that is an
//! error even where an older one is left: the log in between may be gone.

use crate::{aside::Aside, durable, fault::Faults};
use bytes::Bytes;
use fairhold_codec::RunningChecksum;
use fairhold_raft::snapshot::{SnapshotImage, SnapshotStore};
use fairhold_types::failpoint;
use futures_util::future::BoxFuture;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The version byte of a snapshot file.
pub const SNAPSHOT_FILE_FORMAT: u8 = 1;

const MAGIC: &[u8; 8] = b"FAIRSNAP";
const HEADER_BYTES: usize = MAGIC.len() + 1;
const FOOTER_BYTES: usize = 4 + 4;
const SUFFIX: &str = ".snap";
const TEMPORARY_SUFFIX: &str = ".snap.new";

/// The snapshots in one directory.
#[derive(Debug, Clone)]
pub struct SnapshotFiles {
    directory: Arc<Directory>,
    /// Where all is done, one thing at a time: a save removes what a load could be reading.
    aside: Aside,
    faults: Faults,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
}

/// What is wrong with a snapshot file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Something is missing.
    #[error("it is cut off, or a length in it is wrong")]
    Length,
    /// It begins otherwise.
    #[error("it is no snapshot file")]
    Magic,
    /// Another version of the program wrote it.
    #[error("its format version is {found}, this program knows {SNAPSHOT_FILE_FORMAT}")]
    Version {
        /// The version that it says.
        found: u8,
    },
    /// Its bytes are not those that were written.
    #[error("wrong checksum")]
    Checksum,
    /// It has more blocks than it says, or fewer.
    #[error("the count of its blocks is wrong")]
    Count,
}

impl SnapshotFiles {
    /// Opens a directory that exists, and removes what an interrupted save left there.
    pub(crate) fn open(path: &Path) -> io::Result<SnapshotFiles> {
        failpoint!(StorageSnapshotClean)?;
        for name in names(path)? {
            if name.ends_with(TEMPORARY_SUFFIX) {
                let leftover = path.join(name);
                std::fs::remove_file(&leftover).map_err(|error| durable::naming(&leftover, error))?;
            }
        }
        // A name whose directory could not be synced is seen again after a start, and may be gone after a loss of power. The
        // log behind the newest snapshot is purged, so that its name must last.
        durable::sync_directory(path)?;
        let directory = Arc::new(Directory { path: path.to_owned() });
        Ok(SnapshotFiles { directory, aside: Aside::start()?, faults: Faults::default() })
    }

    /// The same, and the first error is noted there.
    pub(crate) fn noting(self, faults: Faults) -> SnapshotFiles {
        SnapshotFiles { faults, ..self }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.directory.numbers()?.is_empty())
    }
}

impl SnapshotStore for SnapshotFiles {
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>> {
        let SnapshotFiles { directory, faults, .. } = self.clone();
        let saved = self.aside.run(move || directory.save(&image).inspect_err(|error| faults.note(error)));
        Box::pin(async move { saved.await? })
    }

    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>> {
        let SnapshotFiles { directory, faults, .. } = self.clone();
        let loaded = self.aside.run(move || directory.load().inspect_err(|error| faults.note(error)));
        Box::pin(async move { loaded.await? })
    }

    fn aside(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        self.aside.run(work)
    }
}

impl Directory {
    fn save(&self, image: &SnapshotImage) -> io::Result<()> {
        failpoint!(StorageSnapshotWrite)?;
        let older = self.numbers()?;
        let number = older.last().map_or(1, |newest| newest + 1);
        let parts = Parts::of(image)?;
        durable::write(&self.temporary(number), &self.file(number), &parts.in_order(image))?;
        failpoint!(StorageSnapshotOlder)?;
        for number in older {
            durable::remove(&self.temporary(number), &self.file(number))?;
        }
        Ok(())
    }

    fn load(&self) -> io::Result<Option<SnapshotImage>> {
        failpoint!(StorageSnapshotLoad)?;
        let Some(newest) = self.numbers()?.pop() else { return Ok(None) };
        let path = self.file(newest);
        let bytes = std::fs::read(&path).map_err(|error| durable::naming(&path, error))?;
        parse(&Bytes::from(bytes)).map(Some).map_err(|damage| durable::damaged(&path, damage))
    }

    /// The numbers of the files that are there, in order.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for name in names(&self.path)? {
            if let Some(number) = name.strip_suffix(SUFFIX) {
                let number = number.parse().map_err(|_| durable::damaged(&self.path.join(&name), "its name is no number"))?;
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn temporary(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{TEMPORARY_SUFFIX}"))
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SUFFIX}"))
    }
}

/// The bytes of an image's file.
pub fn bytes_of(image: &SnapshotImage) -> io::Result<Vec<u8>> {
    Ok(Parts::of(image)?.in_order(image).concat())
}

/// What stands between the image's own bytes in the file, so that those need no copy.
#[derive(Debug)]
pub(crate) struct Parts {
    header: Vec<u8>,
    meta_length: [u8; 4],
    block_lengths: Vec<[u8; 4]>,
    footer: Vec<u8>,
}

impl Parts {
    pub(crate) fn of(image: &SnapshotImage) -> io::Result<Parts> {
        let mut parts = Parts {
            header: [MAGIC.as_slice(), &[SNAPSHOT_FILE_FORMAT]].concat(),
            meta_length: length(image.meta.len())?,
            block_lengths: image.blocks.iter().map(|block| length(block.len())).collect::<io::Result<_>>()?,
            footer: length(image.blocks.len())?.to_vec(),
        };
        let mut checksum = RunningChecksum::default();
        parts.in_order(image).iter().for_each(|part| checksum.update(part));
        parts.footer.extend_from_slice(&checksum.value().to_le_bytes());
        Ok(parts)
    }

    pub(crate) fn in_order<'a>(&'a self, image: &'a SnapshotImage) -> Vec<&'a [u8]> {
        let mut parts: Vec<&[u8]> = vec![&self.header, &self.meta_length, &image.meta];
        for (length, block) in self.block_lengths.iter().zip(&image.blocks) {
            parts.push(length);
            parts.push(block);
        }
        parts.push(&self.footer);
        parts
    }
}

/// Reads a snapshot file, all of it.
pub fn parse(bytes: &Bytes) -> Result<SnapshotImage, Damage> {
    let Some((header, _)) = bytes.split_at_checked(HEADER_BYTES) else { return Err(Damage::Length) };
    if !header.starts_with(MAGIC) {
        return Err(Damage::Magic);
    }
    let Some((covered, checksum)) = bytes.split_last_chunk::<4>() else { return Err(Damage::Length) };
    if fairhold_codec::checksum(covered) != u32::from_le_bytes(*checksum) {
        return Err(Damage::Checksum);
    }
    if header[MAGIC.len()] != SNAPSHOT_FILE_FORMAT {
        return Err(Damage::Version { found: header[MAGIC.len()] });
    }
    let blocks_end = bytes.len().checked_sub(FOOTER_BYTES).filter(|end| *end >= HEADER_BYTES).ok_or(Damage::Length)?;
    let mut rest = bytes.slice(HEADER_BYTES..blocks_end);
    let meta = take_block(&mut rest)?;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        blocks.push(take_block(&mut rest)?);
    }
    let count = bytes.slice(blocks_end..blocks_end + 4);
    if length(blocks.len()).ok().is_none_or(|expected| count != expected.as_slice()) {
        return Err(Damage::Count);
    }
    Ok(SnapshotImage { meta, blocks })
}

fn take_block(rest: &mut Bytes) -> Result<Bytes, Damage> {
    let length = *rest.first_chunk::<4>().ok_or(Damage::Length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| Damage::Length)?;
    let mut block = rest.split_off(4);
    if block.len() < length {
        return Err(Damage::Length);
    }
    *rest = block.split_off(length);
    Ok(block)
}

fn length(length: usize) -> io::Result<[u8; 4]> {
    u32::try_from(length).map(u32::to_le_bytes).map_err(|_| io::Error::other(format!("a block of {length} bytes is too large")))
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| durable::naming(directory, error))? {
        let name = entry.map_err(|error| durable::naming(directory, error))?.file_name();
        names.extend(name.into_string().ok());
    }
    Ok(names)
}

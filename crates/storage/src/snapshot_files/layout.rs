//! The bytes of a snapshot file.
//!
//! ```text
//! "FAIRSNAP" │ version (1) │ meta │ block │ block │ … │ count of blocks (4) │ CRC-32 of all before it (4)
//! meta, block = length (4) │ bytes                                            all little endian
//! ```

use bytes::Bytes;
use fairhold_codec::RunningChecksum;
use fairhold_raft::snapshot::SnapshotImage;
use std::{io, ops::Range};

/// The version byte of a snapshot file.
pub const SNAPSHOT_FILE_FORMAT: u8 = 1;

const MAGIC: &[u8; 8] = b"FAIRSNAP";
const HEADER_BYTES: usize = MAGIC.len() + 1;
const FOOTER_BYTES: u64 = 4 + CHECKSUM_BYTES;
const CHECKSUM_BYTES: u64 = 4;

/// Bytes per read when a whole file is read.
const READ_BYTES: usize = 256 * 1024;

/// An error in a snapshot file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file is too short.
    #[error("it is truncated, or a length in it is wrong")]
    Length,
    /// The file does not begin with the magic.
    #[error("it is not a snapshot file")]
    Magic,
    /// Another version of the program wrote it.
    #[error("its format version is {0}, but this program supports {SNAPSHOT_FILE_FORMAT}")]
    Version(u8),
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The block count is wrong.
    #[error("its block count is wrong")]
    Count,
}

/// The positions of all parts of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) meta: Range<u64>,
    pub(super) blocks: Vec<Range<u64>>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum Unreadable {
    Damaged(#[from] Damage),
    Failed(#[from] io::Error),
}

impl Layout {
    /// Verifies a whole file of that length. `read` fills a buffer from a position.
    pub(super) fn verified(length: u64, read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> Result<Layout, Unreadable> {
        let mut header = [0; HEADER_BYTES];
        if length < HEADER_BYTES as u64 + CHECKSUM_BYTES {
            return Err(Damage::Length.into());
        }
        read(&mut header, 0)?;
        if !header.starts_with(MAGIC) {
            return Err(Damage::Magic.into());
        }
        if checksum(length - CHECKSUM_BYTES, &read)? != number_at(length - CHECKSUM_BYTES, &read)? {
            return Err(Damage::Checksum.into());
        }
        if header[MAGIC.len()] != SNAPSHOT_FILE_FORMAT {
            return Err(Damage::Version(header[MAGIC.len()]).into());
        }
        let end = length.checked_sub(FOOTER_BYTES).filter(|end| *end >= HEADER_BYTES as u64).ok_or(Damage::Length)?;
        let meta = part(HEADER_BYTES as u64, end, &read)?;
        let mut at = meta.end;
        let mut blocks = Vec::new();
        while at < end {
            let block = part(at, end, &read)?;
            at = block.end;
            blocks.push(block);
        }
        if blocks.len() as u64 != u64::from(number_at(end, &read)?) {
            return Err(Damage::Count.into());
        }
        Ok(Layout { meta, blocks })
    }
}

/// The bytes after the length at a position.
fn part(at: u64, end: u64, read: &impl Fn(&mut [u8], u64) -> io::Result<()>) -> Result<Range<u64>, Unreadable> {
    let start = at.checked_add(4).filter(|start| *start <= end).ok_or(Damage::Length)?;
    let stop = start + u64::from(number_at(at, read)?);
    if stop > end { Err(Damage::Length.into()) } else { Ok(start..stop) }
}

fn number_at(at: u64, read: &impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<u32> {
    let mut bytes = [0; 4];
    read(&mut bytes, at)?;
    Ok(u32::from_le_bytes(bytes))
}

fn checksum(length: u64, read: &impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<u32> {
    let mut checksum = RunningChecksum::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < length {
        let some = usize::try_from(length - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        read(&mut buffer[..some], at)?;
        checksum.update(&buffer[..some]);
        at += some as u64;
    }
    Ok(checksum.value())
}

/// Encodes a file part by part, and tracks the positions.
#[derive(Debug, Default)]
pub(super) struct Composer {
    layout: Layout,
    checksum: RunningChecksum,
    at: u64,
}

impl Composer {
    /// The bytes before the meta.
    pub(super) fn begin(&mut self, meta: &[u8]) -> io::Result<Vec<u8>> {
        let header = [MAGIC.as_slice(), &[SNAPSHOT_FILE_FORMAT], &length(meta)?].concat();
        self.layout.meta = self.add(&header, meta);
        Ok(header)
    }

    /// The bytes before a block.
    pub(super) fn block(&mut self, block: &[u8]) -> io::Result<[u8; 4]> {
        let length = length(block)?;
        let range = self.add(&length, block);
        self.layout.blocks.push(range);
        Ok(length)
    }

    /// The bytes after all blocks, the positions of all parts, and the length of the file.
    pub(super) fn end(mut self) -> io::Result<(Vec<u8>, Layout)> {
        let too_many = |_| io::Error::other("a snapshot with too many blocks");
        let count = u32::try_from(self.layout.blocks.len()).map_err(too_many)?.to_le_bytes();
        self.checksum.update(&count);
        Ok(([count, self.checksum.value().to_le_bytes()].concat(), self.layout))
    }

    fn add(&mut self, before: &[u8], bytes: &[u8]) -> Range<u64> {
        self.checksum.update(before);
        self.checksum.update(bytes);
        let start = self.at + before.len() as u64;
        self.at = start + bytes.len() as u64;
        start..self.at
    }
}

fn length(bytes: &[u8]) -> io::Result<[u8; 4]> {
    let too_large = |_| io::Error::other(format!("a block of {} bytes is too large", bytes.len()));
    u32::try_from(bytes.len()).map(u32::to_le_bytes).map_err(too_large)
}

/// The bytes of an image's file.
pub fn bytes_of(image: &SnapshotImage) -> io::Result<Vec<u8>> {
    let mut composer = Composer::default();
    let mut bytes = composer.begin(&image.meta)?;
    bytes.extend_from_slice(&image.meta);
    for block in &image.blocks {
        bytes.extend_from_slice(&composer.block(block)?);
        bytes.extend_from_slice(block);
    }
    bytes.extend_from_slice(&composer.end()?.0);
    Ok(bytes)
}

/// Decodes a whole snapshot file.
pub fn parse(bytes: &Bytes) -> Result<SnapshotImage, Damage> {
    let slice = |start: u64, end: u64| Some(bytes.slice(usize::try_from(start).ok()?..usize::try_from(end).ok()?));
    let read = |buffer: &mut [u8], at: u64| {
        let part = slice(at, at + buffer.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(&part);
        Ok(())
    };
    let layout = Layout::verified(bytes.len() as u64, read).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(damage) => damage,
        Unreadable::Failed(_) => Damage::Length,
    })?;
    let part = |range: &Range<u64>| slice(range.start, range.end).ok_or(Damage::Length);
    Ok(SnapshotImage { meta: part(&layout.meta)?, blocks: layout.blocks.iter().map(part).collect::<Result<_, _>>()? })
}

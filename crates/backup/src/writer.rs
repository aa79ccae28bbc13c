//! Writes a backup, piece by piece.

use crate::{
    backup::{Backup, BackupSummary},
    format::{BACKUP_FORMAT, HEADER_BYTES_MAX, HEADER_FORMAT, MAGIC, NO_BLOCK, Progress, reversed_magic},
    header::{BackupHeader, BackupOrigin},
};
use fairhold_state::State;
use std::{
    fmt,
    io::{self, Write},
};

/// The pieces of a backup file, in order.
///
/// A piece is at most a few MiB: the file's beginning, one block, or the trailer. After the last one, `summary` describes
/// the file.
pub struct BackupPieces<'a> {
    beginning: Option<io::Result<Vec<u8>>>,
    blocks: Box<dyn Iterator<Item = Vec<u8>> + Send + 'a>,
    progress: Progress,
    summary: Option<BackupSummary>,
}

impl fmt::Debug for BackupPieces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupPieces")
            .field("bytes", &self.progress.bytes)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

impl Backup {
    /// The backup of a state. It costs time in proportion to the sessions, grants and ephemeral nodes, and one walk over
    /// all nodes: call it where blocking does no harm.
    #[must_use]
    pub fn new(state: &State, origin: BackupOrigin) -> Backup {
        let kept = state.for_backup(origin.at);
        Backup { header: BackupHeader::new(origin, state, &kept), state: kept }
    }

    /// Its file, piece by piece. Only the beginning can be an error: a header that is too large.
    #[must_use]
    pub fn pieces(&self) -> BackupPieces<'_> {
        BackupPieces {
            beginning: Some(beginning(&self.header)),
            blocks: Box::new(self.state.snapshot_blocks()),
            progress: Progress::default(),
            summary: None,
        }
    }

    /// Writes the whole file.
    pub fn write(&self, out: &mut impl Write) -> io::Result<BackupSummary> {
        let mut pieces = self.pieces();
        for piece in pieces.by_ref() {
            out.write_all(&piece?)?;
        }
        out.flush()?;
        pieces.summary().ok_or_else(|| io::Error::other("the backup has no trailer"))
    }
}

impl BackupPieces<'_> {
    /// What the file has; `None` before its last piece.
    #[must_use]
    pub fn summary(&self) -> Option<BackupSummary> {
        self.summary
    }

    fn trailer(&mut self) -> Vec<u8> {
        let mut piece = NO_BLOCK.to_vec();
        piece.extend_from_slice(&self.progress.blocks.to_le_bytes());
        self.progress.add(&piece);
        let sha256 = self.progress.sha256();
        piece.extend_from_slice(&sha256);
        piece.extend_from_slice(&reversed_magic());
        let bytes = self.progress.bytes + (sha256.len() + MAGIC.len()) as u64;
        self.summary = Some(BackupSummary { blocks: self.progress.blocks, bytes, sha256 });
        piece
    }
}

impl Iterator for BackupPieces<'_> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        if self.summary.is_some() {
            return None;
        }
        let piece = match self.beginning.take() {
            Some(beginning) => beginning,
            None => match self.blocks.next() {
                Some(block) => {
                    self.progress.blocks += 1;
                    with_length(&block)
                }
                None => return Some(Ok(self.trailer())),
            },
        };
        Some(piece.inspect(|piece| self.progress.add(piece)))
    }
}

fn beginning(header: &BackupHeader) -> io::Result<Vec<u8>> {
    let header = fairhold_codec::encode(HEADER_FORMAT, header).map_err(io::Error::other)?;
    if header.len() > HEADER_BYTES_MAX {
        return Err(io::Error::other(format!("a header of {} bytes is too large", header.len())));
    }
    let mut piece = MAGIC.to_vec();
    piece.push(BACKUP_FORMAT);
    piece.extend_from_slice(&with_length(&header)?);
    Ok(piece)
}

fn with_length(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes(), bytes].concat())
}

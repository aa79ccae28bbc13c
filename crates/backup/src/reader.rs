//! Reads a backup, and verifies all of it.

use crate::{
    backup::{Backup, BackupSummary},
    damage::{BackupDamage, BackupPart, ReadBackupError},
    format::{BACKUP_FORMAT, BLOCK_BYTES_MAX, HEADER_BYTES_MAX, HEADER_FORMAT, MAGIC, Progress, reversed_magic},
    header::BackupHeader,
};
use fairhold_state::snapshot::{SnapshotDecoder, SnapshotError};
use fairhold_types::SupportedVersions;
use std::{
    io::{self, Read},
    panic::resume_unwind,
    thread,
};

type Result<T> = std::result::Result<T, ReadBackupError>;

/// A source of bytes that counts and hashes what it gives.
struct Source<R> {
    input: R,
    progress: Progress,
}

impl Backup {
    /// Reads a backup to its end, and verifies every checksum, the counts and the state. It blocks, and holds the state
    /// and one block in memory.
    pub fn read(input: impl Read) -> Result<(Backup, BackupSummary)> {
        let (backup, summary) = read_unchecked(input)?;
        backup.check()?;
        Ok((backup, summary))
    }

    /// The same, with the digest of the state. A second thread computes it while this one checks the state.
    pub fn read_with_digest(input: impl Read) -> Result<(Backup, BackupSummary, String)> {
        let (backup, summary) = read_unchecked(input)?;
        let (checked, digest) = thread::scope(|scope| {
            let digest = scope.spawn(|| backup.state.digest());
            (backup.check(), digest.join())
        });
        checked?;
        Ok((backup, summary, digest.unwrap_or_else(|panic| resume_unwind(panic))))
    }

    /// Reads only the header, which is enough to tell what a backup is. The rest may be damaged.
    pub fn read_header(input: impl Read) -> Result<BackupHeader> {
        read_header(&mut Source { input, progress: Progress::default() })
    }

    fn check(&self) -> std::result::Result<(), BackupDamage> {
        let Backup { header, state } = self;
        let agrees = state.cluster() == header.cluster
            && state.cluster_version() == header.version
            && header.revision.0.checked_add(1) == Some(state.revision().0)
            && state.node_count() as u64 == header.nodes
            && state.value_bytes() == header.value_bytes;
        if !agrees {
            return Err(BackupDamage::State("the state differs from what the header says about it".to_owned()));
        }
        state.check_for_backup().map_err(BackupDamage::State)
    }
}

/// Reads a backup to its end, and verifies every checksum and the counts, but not yet the state.
fn read_unchecked(input: impl Read) -> Result<(Backup, BackupSummary)> {
    let mut source = Source { input, progress: Progress::default() };
    let header = read_header(&mut source)?;
    let mut decoder = SnapshotDecoder::default();
    // Its memory serves for all blocks.
    let mut block = Vec::new();
    while source.sized(BackupPart::Block(source.progress.blocks), BLOCK_BYTES_MAX, &mut block)? {
        source.progress.blocks += 1;
        decoder.add(&block).map_err(|error| damage_of(&error))?;
    }
    let state = decoder.finish().map_err(|error| damage_of(&error))?;
    let summary = read_trailer(&mut source)?;
    Ok((Backup { header, state }, summary))
}

fn read_header(source: &mut Source<impl Read>) -> Result<BackupHeader> {
    let mut beginning = [0; MAGIC.len() + 1];
    let (magic, format) = match source.fill(&mut beginning, BackupPart::Magic) {
        Ok(()) => beginning.split_at(MAGIC.len()),
        // A short file of another kind is no truncated backup.
        Err(ReadBackupError::Damaged(_)) => return Err(BackupDamage::NotABackup.into()),
        Err(error) => return Err(error),
    };
    if magic != MAGIC {
        return Err(BackupDamage::NotABackup.into());
    }
    if format != [BACKUP_FORMAT] {
        return Err(BackupDamage::Format(format.first().copied().unwrap_or_default()).into());
    }
    let part = BackupPart::Header;
    let mut bytes = Vec::new();
    if !source.sized(part, HEADER_BYTES_MAX, &mut bytes)? {
        return Err(damaged(part, "it is empty"));
    }
    let header: BackupHeader = fairhold_codec::decode(HEADER_FORMAT, &bytes).map_err(|error| damaged(part, error))?;
    let (version, supports) = (header.version, SupportedVersions::OWN);
    if !supports.includes(version) {
        return Err(BackupDamage::Version { version, supports }.into());
    }
    Ok(header)
}

fn read_trailer(source: &mut Source<impl Read>) -> Result<BackupSummary> {
    let part = BackupPart::Trailer;
    let mut count = [0; 8];
    source.fill(&mut count, part)?;
    let expected = source.progress.sha256();
    let blocks = source.progress.blocks;
    if u64::from_le_bytes(count) != blocks {
        return Err(damaged(part, format_args!("it counts {} blocks, not {blocks}", u64::from_le_bytes(count))));
    }
    let mut sha256 = [0; 32];
    source.fill(&mut sha256, part)?;
    if sha256 != expected {
        return Err(damaged(part, "its SHA-256 is not that of the bytes before"));
    }
    let mut magic = [0; MAGIC.len()];
    source.fill(&mut magic, part)?;
    if magic != reversed_magic() {
        return Err(damaged(part, "its last bytes are wrong"));
    }
    let bytes = source.progress.bytes;
    match source.fill(&mut [0], part) {
        Ok(()) => Err(BackupDamage::Trailing.into()),
        Err(ReadBackupError::Damaged(_)) => Ok(BackupSummary { blocks, bytes, sha256 }),
        Err(error) => Err(error),
    }
}

impl<R: Read> Source<R> {
    fn fill(&mut self, buffer: &mut [u8], part: BackupPart) -> Result<()> {
        match self.input.read_exact(buffer) {
            Ok(()) => {
                self.progress.add(buffer);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(BackupDamage::Truncated(part).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads bytes after their length into `bytes`. Returns false if the length is 0. Memory grows only with the bytes
    /// that arrive.
    fn sized(&mut self, part: BackupPart, bytes_max: usize, bytes: &mut Vec<u8>) -> Result<bool> {
        let mut length = [0; 4];
        self.fill(&mut length, part)?;
        let length = u32::from_le_bytes(length);
        if length == 0 {
            return Ok(false);
        }
        if length as usize > bytes_max {
            return Err(damaged(part, format_args!("its length of {length} bytes exceeds {bytes_max}")));
        }
        bytes.clear();
        self.input.by_ref().take(u64::from(length)).read_to_end(bytes)?;
        if bytes.len() < length as usize {
            return Err(BackupDamage::Truncated(part).into());
        }
        self.progress.add(bytes);
        Ok(true)
    }
}

fn damaged(part: BackupPart, reason: impl ToString) -> ReadBackupError {
    BackupDamage::Part { part, reason: reason.to_string() }.into()
}

fn damage_of(error: &SnapshotError) -> ReadBackupError {
    match error {
        SnapshotError::Block { block, source } => damaged(BackupPart::Block(*block as u64), source),
        SnapshotError::Header | SnapshotError::Incomplete { .. } => BackupDamage::State(error.to_string()).into(),
    }
}

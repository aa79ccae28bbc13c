//! Verifies an export: each entry against its hash, against the one before it, and all of them against the head line.
//!
//! The head line tells which entries the file has. Somebody who alters the file can alter this line too: the hash that was
//! kept elsewhere (`--head`) shows that.

use fairhold_state::audit::{ChainHash, HASH_PART_BYTES, PREVIOUS_PART_BYTES};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the format.
const FORMAT: u32 = 1;

/// The first line of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExportHead {
    /// The number of the first entry.
    pub(super) first: u64,
    /// The hash before it.
    pub(super) previous: ChainHash,
    /// The number of the last entry; one less than `first` if there are none.
    pub(super) last: u64,
    /// Its hash.
    pub(super) head: ChainHash,
}

/// The same as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadLine {
    fairhold_audit: u32,
    first: u64,
    previous: String,
    last: u64,
    head: String,
}

impl ExportHead {
    /// The line, with its end.
    pub(super) fn line(self) -> String {
        let ExportHead { first, previous, last, head } = self;
        format!(
            "{{\"fairhold_audit\":{FORMAT},\"first\":{first},\"previous\":\"{previous}\",\"last\":{last},\"head\":\"{head}\"}}\n"
        )
    }

    fn read(line: &[u8]) -> Result<ExportHead, String> {
        let no_head = || "line 1 is not the head line of an export: make one with fairhold audit export".to_owned();
        let found: HeadLine = serde_json::from_slice(line).map_err(|_| no_head())?;
        if found.fairhold_audit != FORMAT {
            return Err(format!("the export has format {}, and this program reads format {FORMAT}", found.fairhold_audit));
        }
        let previous = found.previous.parse().map_err(|_| no_head())?;
        let head = found.head.parse().map_err(|_| no_head())?;
        Ok(ExportHead { first: found.first, previous, last: found.last, head })
    }
}

/// An export that is whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VerifiedExport {
    head: ExportHead,
    /// How many entries follow the one that was to be there.
    after_kept: Option<u64>,
}

impl fmt::Display for VerifiedExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExportHead { first, last, head, .. } = self.head;
        let count = (last + 1).saturating_sub(first);
        let (word, kept) = (if count == 1 { "entry" } else { "entries" }, self.after_kept);
        writeln!(f, "whole: {count} {word}, {first} to {last}; head {head}")?;
        kept.map_or(Ok(()), |after| writeln!(f, "it has the given head, and {after} later"))
    }
}

/// One line of the export.
struct ExportedLine<'e> {
    canonical: Vec<u8>,
    previous: &'e [u8],
    hash: &'e [u8],
}

impl ExportedLine<'_> {
    /// Takes a line apart. `None` if it is none of an export.
    fn split(line: &[u8]) -> Option<ExportedLine<'_>> {
        let body = line.strip_suffix(b"}")?;
        let (body, hash) = body.split_at_checked(body.len().checked_sub(HASH_PART_BYTES)?)?;
        let (body, previous) = body.split_at_checked(body.len().checked_sub(PREVIOUS_PART_BYTES)?)?;
        let hash = hash.strip_prefix(b",\"hash\":\"")?.strip_suffix(b"\"")?;
        let previous = previous.strip_prefix(b",\"previous\":\"")?.strip_suffix(b"\"")?;
        let canonical = [body, b"}"].concat();
        Some(ExportedLine { canonical, previous, hash })
    }
}

#[derive(Deserialize)]
struct Number {
    seq: u64,
}

fn read_hash(text: &[u8]) -> Option<ChainHash> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The number, the hash before, and the hash of an entry that fits its own hash.
fn read_entry(line: &[u8]) -> Option<(u64, ChainHash, ChainHash)> {
    let line = ExportedLine::split(line)?;
    let (previous, hash) = (read_hash(line.previous)?, read_hash(line.hash)?);
    let Number { seq } = serde_json::from_slice(&line.canonical).ok()?;
    (ChainHash::of(&line.canonical, previous) == hash).then_some((seq, previous, hash))
}

/// Verifies an export. The error names the first entry that is wrong.
pub(super) fn verify(export: &[u8], kept: Option<ChainHash>) -> Result<VerifiedExport, String> {
    let mut lines = export.strip_suffix(b"\n").unwrap_or(export).split(|byte| *byte == b'\n');
    let head = ExportHead::read(lines.next().unwrap_or_default())?;
    let (mut expected, mut previous) = (head.first, head.previous);
    let mut kept_at = kept.filter(|kept| *kept == previous).map(|_| expected.saturating_sub(1));
    for (index, line) in lines.enumerate() {
        let at = format!("line {}", index + 2);
        let (seq, before, hash) = read_entry(line).ok_or_else(|| format!("entry {expected} was altered ({at})"))?;
        if seq > expected {
            return Err(format!("entry {expected} is missing: {at} has entry {seq}, so entries were cut out or exchanged"));
        }
        if seq < expected {
            return Err(format!("entry {seq} is in the wrong place ({at}): entry {expected} belongs there"));
        }
        if before != previous {
            return Err(format!("entry {seq} does not follow the entry before ({at}): one of them was replaced"));
        }
        if kept == Some(hash) {
            kept_at = Some(seq);
        }
        (expected, previous) = (seq + 1, hash);
    }
    if expected <= head.last {
        return Err(format!("entry {expected} is missing: the file ends before entry {}", head.last));
    }
    if expected != head.last + 1 || previous != head.head {
        return Err(format!("entry {} is not the last one that the head line names", expected.saturating_sub(1)));
    }
    let after_kept = kept.map(|kept| {
        let missing =
            format!("the entry with the hash {kept} is missing after entry {}: the end of the file was cut off", head.last);
        kept_at.map(|at| head.last - at.min(head.last)).ok_or(missing)
    });
    Ok(VerifiedExport { head, after_kept: after_kept.transpose()? })
}

#[cfg(test)]
mod tests;

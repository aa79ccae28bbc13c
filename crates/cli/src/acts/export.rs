//! An export: a head line, and then the lines of the API, byte for byte.

use super::verify::ExportHead;
use crate::remote::{Api, ApiRequest, Failure, ReadArgs};
use fairhold_state::audit::{ChainHash, GENESIS};
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

pub(super) const PATH: &str = "/v1/audit";
/// Only the owner may read and write the file of an export.
const MODE: u32 = 0o600;

/// An export, and what a person should keep of it.
pub(super) struct Exported {
    pub(super) bytes: Vec<u8>,
    pub(super) summary: String,
}

/// The part of a line that an export needs.
#[derive(Deserialize)]
struct Place {
    seq: u64,
    previous: String,
    hash: String,
}

/// Reads all entries, page by page.
pub(super) async fn export(api: &Api, read: &ReadArgs) -> Result<Exported, Failure> {
    let mut lines = Vec::new();
    let mut first: Option<(u64, ChainHash)> = None;
    let mut last = (0, GENESIS);
    loop {
        let page = api.call(&read.apply(ApiRequest::get(PATH).parameter("cursor", Some(last.0)))).await?.body;
        if page.is_empty() {
            break;
        }
        for line in page.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let place = read_place(line)?;
            if first.is_some() && place.0 != last.0 + 1 {
                let why = "the oldest entries were dropped during the export, because many acts were made: export again";
                return Err(Failure::Ended(why.to_owned()));
            }
            first.get_or_insert((place.0, place.1));
            last = (place.0, place.2);
        }
        lines.extend_from_slice(&page);
    }
    let (first, previous) = first.unwrap_or((1, GENESIS));
    let (last, head) = last;
    let count = (last + 1).saturating_sub(first);
    let mut bytes = ExportHead { first, previous, last, head }.line().into_bytes();
    bytes.extend_from_slice(&lines);
    Ok(Exported { bytes, summary: format!("{count} acts, {first} to {last}; keep this elsewhere: --head {head}") })
}

fn read_place(line: &[u8]) -> Result<(u64, ChainHash, ChainHash), Failure> {
    let newer = |error: String| Failure::Ended(format!("the answer is not valid, so the server may be newer: {error}"));
    let Place { seq, previous, hash } = serde_json::from_slice(line).map_err(|error| newer(error.to_string()))?;
    Ok((seq, previous.parse().map_err(newer)?, hash.parse().map_err(newer)?))
}

/// Writes the file of an export. It appears, or replaces an earlier one, when it is complete.
pub(super) fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    // A pipe or a device stays what it is.
    if fs::metadata(file).is_ok_and(|entry| !entry.is_file()) {
        return fs::write(file, bytes);
    }
    let mut new = OsString::from(file);
    new.push(".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut opened = File::options().write(true).create_new(true).mode(MODE).open(&new)?;
    opened.write_all(bytes)?;
    opened.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_owner_can_read_an_export() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.ndjson");
        fs::write(&file, "earlier").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(folder.path().join("audit.ndjson.new"), "unfinished").unwrap();
        write(&file, b"acts\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "acts\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(folder.path(), b"acts\n").is_err());
        write(Path::new("/dev/null"), b"acts\n").unwrap();
    }
}

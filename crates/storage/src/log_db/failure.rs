//! The errors of the log store, with advice for people.

use crate::durable;
use fairhold_codec::DecodeError;
use std::{io, path::Path};

/// The error for a value that cannot be read.
pub(super) fn damaged_value(path: &Path, key: &[u8], error: &DecodeError) -> io::Error {
    if let DecodeError::Version { found, expected } = error {
        let text = format!(
            "{}: the log was written by another version of fairhold, in format {found}; this one reads format {expected}. Start \
             the version that wrote it, or give this node an empty directory",
            path.display()
        );
        return io::Error::new(io::ErrorKind::Unsupported, text);
    }
    durable::damaged(path, format_args!("{}: {error}", String::from_utf8_lossy(key)))
}

/// RocksDB names the file if it knows it. If it does not, the error lists the candidates.
pub(super) fn failed(path: &Path, error: &rocksdb::Error) -> io::Error {
    let text = error.to_string();
    // The binding does not expose RocksDB's subcodes, but its text has the system's message.
    let kind = if text.contains("No space left on device") {
        io::ErrorKind::StorageFull
    } else if text.contains("Disk quota exceeded") {
        io::ErrorKind::QuotaExceeded
    } else if text.contains("Read-only file system") {
        io::ErrorKind::ReadOnlyFilesystem
    } else if error.kind() == rocksdb::ErrorKind::Corruption {
        io::ErrorKind::InvalidData
    } else {
        io::ErrorKind::Other
    };
    // The write-ahead logs and the manifest were verified before RocksDB read them, whatever it reports about the
    // manifest now.
    let unnamed = matches!(kind, io::ErrorKind::InvalidData) && !text.contains(".sst");
    let hint = if unnamed { format!(". One of its tables is damaged: {}", table_names(path)) } else { String::new() };
    io::Error::new(kind, format!("{}: {text}{hint}", path.display()))
}

fn table_names(path: &Path) -> String {
    let Ok(mut names) = durable::names(path) else { return "(none can be listed)".to_owned() };
    names.retain(|name| name.ends_with(".sst"));
    names.sort();
    names.join(", ")
}

//! What a node reports about its machine.

use super::{audit, certificate_alarm::OwnCertificates, open_files};
use crate::config::exposure::Exposure;
use fairhold_http::Audit;
use fairhold_types::dto::Host;
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A process runs one node, so it has one data directory.
static DATA_DIR: OnceLock<PathBuf> = OnceLock::new();
/// Its certificates.
static CERTIFICATES: OnceLock<OwnCertificates> = OnceLock::new();
/// What that node leaves unprotected.
static EXPOSURES: OnceLock<Vec<String>> = OnceLock::new();
/// Its audit log.
static AUDIT: OnceLock<Audit> = OnceLock::new();

/// Sets the directory whose free space `read` reports, what the node leaves unprotected, its certificates, and its
/// audit log.
pub(super) fn set(data_dir: &Path, exposures: &[Exposure], certificates: OwnCertificates, log: Audit) {
    AUDIT.get_or_init(|| log);
    DATA_DIR.get_or_init(|| data_dir.to_owned());
    CERTIFICATES.get_or_init(|| certificates);
    EXPOSURES.get_or_init(|| exposures.iter().map(|exposure| exposure.as_str().to_owned()).collect());
}

/// What the node leaves unprotected where other machines can reach it.
pub(super) fn exposures() -> Vec<String> {
    EXPOSURES.get().cloned().unwrap_or_default()
}

/// Reads the state of the machine.
pub(super) fn read() -> Host {
    let disk = DATA_DIR.get().and_then(|path| rustix::fs::statvfs(path).ok());
    Host {
        time: None,
        disk_free_bytes: disk.as_ref().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        disk_bytes: disk.as_ref().map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize)),
        open_files: open_files::count(),
        certificates: CERTIFICATES.get().map(OwnCertificates::statuses).unwrap_or_default(),
        audit: AUDIT.get().and_then(audit::status),
        open_files_max: open_files::limit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_disk_and_open_files() {
        set(Path::new("/"), &[], OwnCertificates::default(), Audit::off());
        let host = read();
        assert!(host.disk_bytes > Some(0) && host.disk_free_bytes <= host.disk_bytes, "{host:?}");
        assert!(host.open_files > Some(0), "{host:?}");
    }
}

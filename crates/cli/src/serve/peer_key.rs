//! The peer key of the cluster: read from a file at startup, and reloaded when the file changes. It is never logged.

use super::secret_file;
use crate::config::peer_trust::PeerTrust;
use fairhold_peer::key::{KEY_BYTES_MIN, KeyError, PeerKeys};
use fairhold_trust::{
    file_check::DOES_NOT_ANSWER,
    late::{LATE_AFTER, say_if_late},
};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

/// How often the node checks whether the file has changed.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The largest file, in bytes.
const FILE_BYTES_MAX: usize = 16 * 1024;

/// Why a file has no valid key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerKeyError {
    /// The file cannot be read.
    #[error("--peer-key-file {path} cannot be read: {error}. {}", secret_file::advice(error))]
    Unreadable { path: String, error: io::Error },
    /// Other users could read the key and authenticate as a node.
    #[error("users other than its owner can read or write --peer-key-file {path}: chmod 600 {path}")]
    Open { path: String },
    /// The file has no valid key.
    #[error(
        "--peer-key-file {path} {fault}: write one line of at least {KEY_BYTES_MIN} bytes, such as `openssl rand -hex 32` prints"
    )]
    NoKey { path: String, fault: KeyError },
    /// The file is too large.
    #[error("--peer-key-file {path} has more than {FILE_BYTES_MAX} bytes: is that the right file?")]
    TooLong { path: String },
}

/// Reads the keys, and logs how nodes authenticate.
pub(super) fn load(trust: &PeerTrust) -> Result<PeerKeys, PeerKeyError> {
    match trust {
        PeerTrust::Key(file) => {
            let keys = read(file)?;
            tracing::info!(file = %file.display(), "the nodes of this cluster authenticate each other with the peer key");
            Ok(keys)
        }
        PeerTrust::Nothing | PeerTrust::Certificates => Ok(PeerKeys::none()),
    }
}

/// Reads the file as a start does, and uses nothing of it.
pub(super) fn check(trust: &PeerTrust) -> Result<(), PeerKeyError> {
    match trust {
        PeerTrust::Key(file) => read(file).map(drop),
        PeerTrust::Nothing | PeerTrust::Certificates => Ok(()),
    }
}

/// Loads new keys when the file changes. A file without valid keys, or one that is partly written, changes nothing.
pub(super) fn watch(trust: &PeerTrust, keys: PeerKeys) -> Option<JoinHandle<()>> {
    let file = match trust {
        PeerTrust::Key(file) => file.clone(),
        PeerTrust::Nothing | PeerTrust::Certificates => return None,
    };
    Some(tokio::spawn(reload(file, keys)))
}

async fn reload(file: PathBuf, keys: PeerKeys) {
    let mut failed = None;
    loop {
        sleep(CHECK_EVERY).await;
        let path = file.clone();
        let looking = spawn_blocking(move || read(&path).map_err(|error| error.to_string()));
        let say = || tracing::error!(file = %file.display(), "the file with the peer key {DOES_NOT_ANSWER}");
        let Ok(found) = say_if_late(looking, LATE_AFTER, say).await else { return };
        match found {
            Ok(found) => {
                failed = None;
                if keys.replace(&found) {
                    tracing::info!(file = %file.display(), "reloaded the peer key: it applies to new connections");
                }
            }
            Err(error) if failed.as_ref() == Some(&error) => {}
            Err(error) => {
                tracing::error!("{error}; the node keeps the last valid keys");
                failed = Some(error);
            }
        }
    }
}

fn read(file: &Path) -> Result<PeerKeys, PeerKeyError> {
    let path = file.display().to_string();
    let (text, metadata) = match secret_file::read(file, FILE_BYTES_MAX) {
        Ok(found) => found,
        Err(error) => return Err(PeerKeyError::Unreadable { path, error }),
    };
    if secret_file::is_open_to_others(&metadata) {
        return Err(PeerKeyError::Open { path });
    }
    if text.len() > FILE_BYTES_MAX {
        return Err(PeerKeyError::TooLong { path });
    }
    PeerKeys::parse(&text).map_err(|fault| PeerKeyError::NoKey { path, fault })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn a_key_file_must_be_readable_only_by_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("peer.key");
        let of = |content: &str, mode: u32| {
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            load(&PeerTrust::Key(file.clone())).map(|keys| keys.now()).map_err(|error| error.to_string())
        };
        let key = "0123456789abcdef0123456789abcdef";
        assert_eq!(of(&format!("{key}\n"), 0o600).unwrap(), of(key, 0o400).unwrap());
        for mode in [0o640, 0o604, 0o644] {
            let error = of(key, mode).unwrap_err();
            assert!(error.contains("chmod 600") && !error.contains(key), "{error}");
        }
        for (content, says) in
            [("", "is empty"), ("too short\n", "a line of 9 bytes"), (&*format!("{key}\nx"), "a line of 1 bytes")]
        {
            let error = of(content, 0o600).unwrap_err();
            assert!(error.contains(says) && error.contains("openssl rand -hex 32"), "{error}");
        }
        assert!(of(&"x".repeat(FILE_BYTES_MAX + 1), 0o600).unwrap_err().contains("the right file?"));
        let absent = load(&PeerTrust::Key(directory.path().join("absent"))).unwrap_err().to_string();
        assert!(absent.contains("absent cannot be read") && absent.ends_with("of the cluster: scp -p"), "{absent}");
    }
}

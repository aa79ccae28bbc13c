//! The file of `--config`: its keys are the names of the flags.

use super::error::ConfigError;
use fairhold_types::{NodeId, Timing};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
};
use strsim::levenshtein;

/// The valid keys of the file: the names of the flags.
const FILE_KEYS: [&str; 18] = [
    "id",
    "data",
    "member",
    "join-file",
    "advertise",
    "timing",
    "listen",
    "peer-listen",
    "listen-status",
    "allowed-host",
    "peer-key-file",
    "insecure",
    "connections-max",
    "connections-per-address-max",
    "event-ring-bytes",
    "state-bytes-max",
    "log",
    "admin-token-file",
];

/// The most edits between an unknown key and the one that is suggested.
const EDITS_MAX: usize = 2;

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct FileConfig {
    pub(super) id: Option<NodeId>,
    pub(super) data: Option<PathBuf>,
    pub(super) member: Vec<String>,
    pub(super) join_file: Option<PathBuf>,
    pub(super) advertise: Option<String>,
    pub(super) timing: Option<Timing>,
    pub(super) listen: Option<String>,
    pub(super) peer_listen: Option<String>,
    pub(super) listen_status: Option<String>,
    pub(super) allowed_host: Vec<String>,
    pub(super) peer_key_file: Option<PathBuf>,
    pub(super) insecure: bool,
    pub(super) connections_max: Option<u32>,
    pub(super) connections_per_address_max: Option<u32>,
    pub(super) event_ring_bytes: Option<u64>,
    pub(super) state_bytes_max: Option<u64>,
    pub(super) log: Option<String>,
    pub(super) admin_token_file: Option<PathBuf>,
}

/// Reads and checks the file.
pub(super) fn read_file(path: &Path) -> Result<FileConfig, ConfigError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| ConfigError::Unreadable { path: name.clone(), error })?;
    let malformed = |error| ConfigError::File { path: name.clone(), error };
    let table: toml::Table = toml::from_str(&text).map_err(malformed)?;
    if let Some(key) = table.keys().find(|key| !FILE_KEYS.contains(&key.as_str())) {
        return Err(ConfigError::UnknownKey { path: name, key: key.clone(), advice: suggest(key) });
    }
    toml::from_str(&text).map_err(malformed)
}

/// Suggests the most similar key, or lists all keys if none is similar.
fn suggest(key: &str) -> String {
    let written = key.to_lowercase().replace('_', "-");
    let prefixed = FILE_KEYS.iter().find(|known| known.starts_with(&written)).copied();
    let near =
        || FILE_KEYS.iter().map(|known| (levenshtein(&written, known), *known)).min().filter(|(count, _)| *count <= EDITS_MAX);
    match prefixed.or_else(|| near().map(|(_, known)| known)) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("the valid keys are {}", FILE_KEYS.join(", ")),
    }
}

//! The file of `--config`: its keys are the names of the flags. Some are in a table of their own.

use super::{
    audit::AuditTable,
    backup::BackupTable,
    error::ConfigError,
    jwt::{JWT_KEYS, JwtTable},
    peer_tls::PeerTlsMode,
};
use fairhold_types::{NodeId, Timing, duration};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use strsim::levenshtein;

/// The valid keys of the file outside its tables: the names of the flags.
const FILE_KEYS: [&str; 28] = [
    "id",
    "data",
    "member",
    "join-file",
    "advertise",
    "timing",
    "listen",
    "listen-plain",
    "cert",
    "key",
    "client-ca",
    "tls-min",
    "peer-listen",
    "listen-status",
    "allowed-host",
    "peer-key-file",
    "peer-cert",
    "peer-key",
    "peer-ca",
    "peer-tls",
    "cluster-name",
    "insecure",
    "connections-max",
    "connections-per-address-max",
    "event-ring-bytes",
    "state-bytes-max",
    "log",
    "admin-token-file",
];

/// The tables of the file, with their valid keys.
const TABLES: [(&str, &[&str]); 3] =
    [("audit", &["file", "what", "required"]), ("backup", &["dir", "every", "keep"]), ("upgrade", &["finalize-after"])];

/// The table whose own tables each have the keys `JWT_KEYS`.
const JWT: &str = "jwt";

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
    pub(super) listen_plain: Option<String>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) tls_min: Option<String>,
    pub(super) peer_listen: Option<String>,
    pub(super) listen_status: Option<String>,
    pub(super) allowed_host: Vec<String>,
    pub(super) peer_key_file: Option<PathBuf>,
    pub(super) peer_cert: Option<PathBuf>,
    pub(super) peer_key: Option<PathBuf>,
    pub(super) peer_ca: Option<PathBuf>,
    pub(super) peer_tls: Option<PeerTlsMode>,
    pub(super) cluster_name: Option<String>,
    pub(super) insecure: bool,
    pub(super) connections_max: Option<u32>,
    pub(super) connections_per_address_max: Option<u32>,
    pub(super) event_ring_bytes: Option<u64>,
    pub(super) state_bytes_max: Option<u64>,
    pub(super) log: Option<String>,
    pub(super) admin_token_file: Option<PathBuf>,
    pub(super) audit: Option<AuditTable>,
    pub(super) backup: Option<BackupTable>,
    pub(super) upgrade: UpgradeTable,
    pub(super) jwt: BTreeMap<String, JwtTable>,
}

/// The table `[upgrade]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct UpgradeTable {
    finalize_after: Option<String>,
}

impl UpgradeTable {
    /// The time until an upgrade is finalized.
    pub(super) fn finalize_after(self) -> Result<Option<Duration>, ConfigError> {
        let parse = |text: String| {
            duration::parse(&text).map_err(|_| ConfigError::Duration { key: "upgrade.finalize-after", text: text.clone() })
        };
        self.finalize_after.map(parse).transpose()
    }
}

/// Reads and checks the file.
pub(super) fn read_file(path: &Path) -> Result<FileConfig, ConfigError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| ConfigError::Unreadable { path: name.clone(), error })?;
    let malformed = |error: toml::de::Error| {
        let begin = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = begin.bytes().filter(|byte| *byte == b'\n').count() + 1;
        // A known key is no secret, and a person looks for it.
        let key = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
        let key = key.filter(|key| FILE_KEYS.contains(key)).map_or_else(String::new, |key| format!("{key}: "));
        ConfigError::File { path: name.clone(), line, fault: format!("{key}{}", error.message()) }
    };
    let table: toml::Table = toml::from_str(&text).map_err(malformed)?;
    if let Some((key, advice)) = unknown_key(&table) {
        return Err(ConfigError::UnknownKey { path: name, key, advice });
    }
    toml::from_str(&text).map_err(malformed)
}

/// The first unknown key, and what may be meant by it.
fn unknown_key(table: &toml::Table) -> Option<(String, String)> {
    let tables = TABLES.map(|(name, _)| name);
    let outside = [&FILE_KEYS[..], &tables, &[JWT]].concat();
    for (key, value) in table {
        if key == JWT {
            if let Some(found) = unknown_in_providers(value) {
                return Some(found);
            }
        } else if let Some((name, keys)) = TABLES.iter().find(|(name, _)| name == key) {
            let mut inside = value.as_table().into_iter().flat_map(toml::Table::keys);
            if let Some(unknown) = inside.find(|inner| !keys.contains(&inner.as_str())) {
                return Some((format!("{name}.{unknown}"), suggest(unknown, keys)));
            }
        } else if let Some((name, _)) = TABLES.iter().find(|(_, keys)| keys.contains(&key.as_str())) {
            return Some((key.clone(), format!("it belongs to the table [{name}]")));
        } else if !outside.contains(&key.as_str()) {
            return Some((key.clone(), suggest(key, &outside)));
        }
    }
    None
}

/// The first unknown key in a table `[jwt.NAME]`.
fn unknown_in_providers(providers: &toml::Value) -> Option<(String, String)> {
    for (name, table) in providers.as_table()? {
        let mut keys = table.as_table().into_iter().flat_map(toml::Table::keys);
        if let Some(unknown) = keys.find(|key| !JWT_KEYS.contains(&key.as_str())) {
            return Some((format!("{JWT}.{name}.{unknown}"), suggest(unknown, &JWT_KEYS)));
        }
    }
    None
}

/// Suggests the most similar key, or lists all keys if none is similar.
fn suggest(key: &str, valid: &[&str]) -> String {
    let written = key.to_lowercase().replace('_', "-");
    let prefixed = valid.iter().find(|known| known.starts_with(&written)).copied();
    let near = || valid.iter().map(|known| (levenshtein(&written, known), *known)).min().filter(|(count, _)| *count <= EDITS_MAX);
    match prefixed.or_else(|| near().map(|(_, known)| known)) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("the valid keys are {}", valid.join(", ")),
    }
}

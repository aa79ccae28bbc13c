//! The file of `--config`: its keys are the names of the flags. Some are in a table of their own.

use super::{
    audit::AuditTable,
    backup::BackupTable,
    error::ConfigError,
    jwt::{JWT_KEYS, JwtTable},
    peer_tls::PeerTlsMode,
    trace::TraceTable,
};
use crate::regular_file;
use fairhold_types::{NodeId, Timing, duration};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};
use strsim::levenshtein;
use toml::de::DeTable;

/// The valid keys of the file outside its tables: the names of the flags.
const FILE_KEYS: [&str; 30] = [
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
    "ui",
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
    "slow-request",
    "admin-token-file",
];

/// The tables of the file, with their valid keys.
const TABLES: [(&str, &[&str]); 4] = [
    ("audit", &["file", "what", "required"]),
    ("backup", &["dir", "every", "keep"]),
    ("trace", &["endpoint", "sample", "names"]),
    ("upgrade", &["finalize-after"]),
];

/// The table whose own tables each have the keys `JWT_KEYS`.
const JWT: &str = "jwt";

/// What to write for each key, as an example. The keys of providers are without the name of the provider.
const EXAMPLES: [(&str, &str); 45] = [
    ("id", "1"),
    ("data", "\"/var/lib/fairhold\""),
    ("member", "[\"1=http://a:7171,a:7271\"]"),
    ("join-file", "\"join.token\""),
    ("advertise", "\"http://a:7171,a:7271\""),
    ("timing", "\"lan\""),
    ("listen", "\"0.0.0.0:7171\""),
    ("listen-plain", "\"127.0.0.1:7170\""),
    ("cert", "\"node.crt\""),
    ("key", "\"node.key\""),
    ("client-ca", "\"ca.crt\""),
    ("tls-min", "\"1.3\""),
    ("peer-listen", "\"0.0.0.0:7271\""),
    ("listen-status", "\"0.0.0.0:7371\""),
    ("allowed-host", "[\"locks.example.com\"]"),
    ("ui", "false"),
    ("peer-key-file", "\"peer.key\""),
    ("peer-cert", "\"node.crt\""),
    ("peer-key", "\"node.key\""),
    ("peer-ca", "\"ca.crt\""),
    ("peer-tls", "\"required\""),
    ("cluster-name", "\"prod\""),
    ("insecure", "true"),
    ("connections-max", "10000"),
    ("connections-per-address-max", "1000"),
    ("event-ring-bytes", "67108864"),
    ("state-bytes-max", "1073741824"),
    ("log", "\"info\""),
    ("slow-request", "\"1s\""),
    ("admin-token-file", "\"admin.token\""),
    ("audit.file", "\"/var/log/fairhold/audit.log\""),
    ("audit.what", "\"writes\""),
    ("audit.required", "true"),
    ("backup.dir", "\"/var/backups/fairhold\""),
    ("backup.every", "\"1h\""),
    ("backup.keep", "48"),
    ("trace.endpoint", "\"http://collector:4318\""),
    ("trace.sample", "0.01"),
    ("trace.names", "true"),
    ("upgrade.finalize-after", "\"24h\""),
    ("jwt.issuer", "\"https://issuer.example.com\""),
    ("jwt.audience", "\"fairhold\""),
    ("jwt.jwks", "\"jwks.json\""),
    ("jwt.user-claim", "\"sub\""),
    ("jwt.attributes", "{ team = \"/team\" }"),
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
    pub(super) listen_plain: Option<String>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) tls_min: Option<String>,
    pub(super) peer_listen: Option<String>,
    pub(super) listen_status: Option<String>,
    pub(super) allowed_host: Vec<String>,
    pub(super) ui: Option<bool>,
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
    pub(super) slow_request: Option<String>,
    pub(super) admin_token_file: Option<PathBuf>,
    pub(super) audit: Option<AuditTable>,
    pub(super) backup: Option<BackupTable>,
    pub(super) trace: Option<TraceTable>,
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

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct FileRead {
    /// The values of the keys without a fault.
    pub(super) config: FileConfig,
    /// All values, as they are written.
    pub(super) values: toml::Table,
    /// Every unknown key and every value of a wrong type, in the order of their lines.
    pub(super) faults: Vec<ConfigError>,
}

/// Reads and checks the file.
pub(super) fn read_file(path: &Path) -> Result<FileRead, ConfigError> {
    let name = path.display().to_string();
    let text = regular_file::read_to_string(path).map_err(|error| ConfigError::Unreadable { path: name.clone(), error })?;
    let malformed = |error: toml::de::Error| {
        let line = line_at(&text, error.span().map_or(0, |span| span.start));
        // A known key is no secret, and a person looks for it.
        let key = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
        let key = key.filter(|key| FILE_KEYS.contains(key)).map_or_else(String::new, |key| format!("{key}: "));
        ConfigError::File { path: name.clone(), line, fault: format!("{key}{}", error.message()) }
    };
    let spans = DeTable::parse(&text).map_err(malformed)?;
    let values: toml::Table = toml::from_str(&text).map_err(malformed)?;
    let mut good = toml::Table::new();
    let mut faults = Vec::new();
    for key in keys(&values) {
        let line = span_of(spans.get_ref(), &key).map_or(1, |start| line_at(&text, start));
        match key.fault() {
            None => key.add_to(&mut good),
            Some(KeyFault::Unknown(advice)) => {
                faults.push((line, ConfigError::UnknownKey { path: name.clone(), key: key.dotted(), advice }));
            }
            Some(KeyFault::Value(fault)) => faults.push((line, ConfigError::File { path: name.clone(), line, fault })),
        }
    }
    faults.sort_by_key(|(line, _)| *line);
    let config = good.try_into().map_err(malformed)?;
    Ok(FileRead { config, values, faults: faults.into_iter().map(|(_, fault)| fault).collect() })
}

/// The line of a byte of the text, from 1.
fn line_at(text: &str, start: usize) -> usize {
    text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1
}

/// Where a key is written.
fn span_of(table: &DeTable<'_>, key: &FileKey<'_>) -> Option<usize> {
    let mut table = table;
    let mut start = None;
    for name in &key.path {
        let (written, value) = table.iter().find(|(written, _)| written.get_ref() == name)?;
        start = Some(written.span().start);
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    start
}

/// A key of the file, with the tables that it is in.
#[derive(Debug)]
struct FileKey<'t> {
    path: Vec<&'t str>,
    value: &'t toml::Value,
}

/// What is wrong with a key.
#[derive(Debug)]
enum KeyFault {
    /// There is no such key; with a suggestion.
    Unknown(String),
    /// Its value.
    Value(String),
}

/// The keys of the file. A table that the file may have is taken apart.
fn keys(values: &toml::Table) -> Vec<FileKey<'_>> {
    let mut keys = Vec::new();
    for (name, value) in values {
        let is_known = TABLES.iter().any(|(table, _)| table == name);
        match value.as_table() {
            Some(table) if name == JWT => {
                for (provider, value) in table {
                    let path = vec![name.as_str(), provider.as_str()];
                    match value.as_table().filter(|table| !table.is_empty()) {
                        Some(inner) => keys.extend(inner.iter().map(|(key, value)| FileKey { path: with(&path, key), value })),
                        None => keys.push(FileKey { path, value }),
                    }
                }
            }
            Some(table) if is_known && !table.is_empty() => {
                keys.extend(table.iter().map(|(key, value)| FileKey { path: vec![name, key], value }));
            }
            Some(_) | None => keys.push(FileKey { path: vec![name], value }),
        }
    }
    keys
}

fn with<'t>(path: &[&'t str], key: &'t str) -> Vec<&'t str> {
    path.iter().copied().chain([key]).collect()
}

impl FileKey<'_> {
    fn dotted(&self) -> String {
        self.path.join(".")
    }

    /// Adds it and its value to a table.
    fn add_to(&self, table: &mut toml::Table) {
        let Some((last, tables)) = self.path.split_last() else { return };
        let mut table = table;
        for name in tables {
            let inner = table.entry(*name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            let toml::Value::Table(inner) = inner else { return };
            table = inner;
        }
        table.insert((*last).to_owned(), self.value.clone());
    }

    fn fault(&self) -> Option<KeyFault> {
        if let Some(advice) = self.unknown() {
            return Some(KeyFault::Unknown(advice));
        }
        let mut alone = toml::Table::new();
        self.add_to(&mut alone);
        let error = alone.try_into::<FileConfig>().err()?;
        // The name of a provider is free.
        let name = match &*self.path {
            [JWT, _, key] => format!("{JWT}.{key}"),
            path => path.join("."),
        };
        let example = EXAMPLES.iter().find(|(key, _)| *key == name).map(|(_, example)| *example);
        let key = self.path.last().copied().unwrap_or_default();
        let advice = example.map(|example| format!(": write it like `{key} = {example}`")).unwrap_or_default();
        Some(KeyFault::Value(format!("{}: {}{advice}", self.dotted(), error.message())))
    }

    /// What may be meant by it, if it is unknown.
    fn unknown(&self) -> Option<String> {
        let tables = TABLES.map(|(name, _)| name);
        let outside = [&FILE_KEYS[..], &tables, &[JWT]].concat();
        match &*self.path {
            [JWT, _, key] => (!JWT_KEYS.contains(key)).then(|| suggest(key, &JWT_KEYS)),
            [JWT, ..] => None,
            [table, key] => {
                let (_, keys) = TABLES.iter().find(|(name, _)| name == table)?;
                (!keys.contains(key)).then(|| suggest(key, keys))
            }
            [key] if outside.contains(key) => None,
            [key] => Some(match TABLES.iter().find(|(_, keys)| keys.contains(key)) {
                Some((name, _)) => format!("it belongs to the table [{name}]"),
                None => suggest(key, &outside),
            }),
            _ => None,
        }
    }
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

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;

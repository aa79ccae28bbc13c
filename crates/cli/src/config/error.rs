//! Why a configuration is invalid, each with what to write instead.

use super::exposure::Exposure;
use crate::{
    exit,
    member::{AddressFault, AdvertiseError, MemberError},
};
use fairhold_storage::data_dir::DataDirError;
use fairhold_trust::{client_port::ParseTlsVersionError, name::ParseNameError};
use fairhold_types::{
    ClusterId, NodeId, duration,
    limits::{BACKUP_EVERY_MAX, BACKUP_EVERY_MIN, EVENT_RING_BYTES_MIN, FINALIZE_AFTER_MIN, STATE_BYTES_MIN},
};
use std::io;

/// How an operator gets a join token.
pub(crate) const CREATE_JOIN_TOKEN: &str = "On a machine that reaches the cluster, create a join token: `fairhold cluster invite \
                                            --out FILE`, or `fairhold cluster replace N --out FILE` to replace member N";

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// Several reasons.
    #[error("{}", lines(.0))]
    Several(Vec<ConfigError>),
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {error}")]
    Unreadable { path: String, error: io::Error },
    /// The file is not TOML, or a value has the wrong type.
    #[error("the configuration file {path} is not valid: line {line}: {fault}")]
    File {
        path: String,
        line: usize,
        /// The reason, without the line itself: another file may be named by mistake, such as one with a token.
        fault: String,
    },
    /// The file has an unknown key.
    #[error("the configuration file {path} has the unknown key `{key}`: {advice}")]
    UnknownKey {
        path: String,
        key: String,
        /// A suggestion.
        advice: String,
    },
    /// A required value is missing.
    #[error("{name} is missing: pass --{name} {form}, set {variable}, or add it to the --config file{}", other_way(name))]
    Missing {
        name: &'static str,
        /// The placeholder of its value.
        form: &'static str,
        /// Its environment variable.
        variable: &'static str,
    },
    /// The id in the file is 0.
    #[error("id is 0 in the configuration file: node numbers start at 1")]
    IdZero,
    /// The list of members.
    #[error(transparent)]
    Members(#[from] MemberError),
    /// The advertised addresses.
    #[error(transparent)]
    Advertise(#[from] AdvertiseError),
    /// The advertised addresses contradict the list of members.
    #[error(
        "--advertise has {advertised}, but --member has {listed} for this node: leave out --advertise, or correct one of the two"
    )]
    AdvertiseDiffers {
        advertised: String,
        /// This node's addresses in the list.
        listed: String,
    },
    /// Both a list of members and a join token.
    #[error(
        "pass either --member or --join-file, not both: --member forms a new cluster, and --join-file joins a running one. A \
         node that has joined needs neither"
    )]
    MemberAndJoin,
    /// The addresses of a node that joins, without a join token.
    #[error(
        "--join-file is missing: pass --join-file FILE, set FAIRHOLD_JOIN_FILE, or add it to the --config file. \
         {CREATE_JOIN_TOKEN}. To form a new cluster, pass --id and --member instead of --advertise"
    )]
    JoinFileMissing,
    /// A token in the place of a file's name. The text does not have the token.
    #[error("--{name}: pass the name of a file that has the {token}, not the token itself")]
    TokenAsFile {
        /// The option.
        name: &'static str,
        /// What the file has.
        token: &'static str,
    },
    /// An id for a node that joins.
    #[error("leave out --id {id}: the cluster gives a node that joins its number")]
    IdAndJoin {
        /// The given id.
        id: NodeId,
    },
    /// The data directory and the join token are of different clusters.
    #[error(
        "{data} is the data directory of node {node} of the cluster {recorded}, but the join token in {file} is of the cluster \
         {named}. To join that cluster, delete the directory if its data is not needed, or pass another one, and start again. To \
         continue as node {node} of the cluster {recorded}, for example after a restore, leave out --join-file \
         (FAIRHOLD_JOIN_FILE)"
    )]
    TokenOfOtherCluster {
        data: String,
        /// The node of the directory.
        node: NodeId,
        /// The cluster of the directory.
        recorded: ClusterId,
        /// The file with the token.
        file: String,
        /// The cluster of the token.
        named: ClusterId,
    },
    /// What the data directory knows about its node cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// An invalid listen address.
    #[error("--{name}: {fault}")]
    Listen { name: &'static str, fault: AddressFault },
    /// A certificate without its key, or a key without its certificate.
    #[error("--{given} is given without --{missing}: pass both --cert and --key, the files of a certificate and of its key")]
    CertOrKey {
        /// The option that is given.
        given: &'static str,
        /// The option that is missing.
        missing: &'static str,
    },
    /// An option for TLS without a certificate.
    #[error("--{name} needs --cert and --key: without a certificate, clients connect to this node without TLS")]
    NeedsCert {
        /// The option.
        name: &'static str,
    },
    /// A version of TLS in the file that does not exist.
    #[error("tls-min in the configuration file: `{text}`: {error}")]
    TlsMin {
        text: String,
        /// What is valid.
        error: ParseTlsVersionError,
    },
    /// Other machines can reach a port that is not protected.
    #[error("other machines can reach --{option} {address}, so {}. {}", exposure.danger(), exposure.advice())]
    Exposed {
        /// The option with the address.
        option: &'static str,
        address: String,
        exposure: Exposure,
    },
    /// A part of TLS between nodes is missing.
    #[error(
        "TLS between the nodes is not complete: pass --{name}. It needs --peer-cert, --peer-key, --peer-ca and --cluster-name; \
         `fairhold cert` makes the files"
    )]
    PeerTlsIncomplete {
        /// The missing option.
        name: &'static str,
    },
    /// The name of the cluster cannot be in a certificate.
    #[error("--cluster-name {name}: {fault}")]
    ClusterName { name: String, fault: ParseNameError },
    /// A provider of JWTs.
    #[error("jwt.{name} in the configuration file: {fault}")]
    Jwt { name: String, fault: String },
    /// Invalid limits on connections.
    #[error(
        "connections-max is {connections} and connections-per-address-max {per_address}: both must be at least 1, and the second \
         must not exceed the first"
    )]
    Connections {
        /// The limit in total.
        connections: usize,
        /// The limit for one address.
        per_address: usize,
    },
    /// An invalid host name.
    #[error("--allowed-host {host}: write only the host, such as `locks.example.com`, without a scheme, port or path")]
    AllowedHost { host: String },
    /// Dashboard files from a directory, where other machines could load them.
    #[error("--ui-dir: {address} is not a loopback address: listen on 127.0.0.1, or remove --ui-dir for the built-in dashboard")]
    UiDirExposed { address: String },
    /// An event ring that is too small for even a few events.
    #[error("--event-ring-bytes {bytes}: the minimum is {EVENT_RING_BYTES_MIN}")]
    RingTooSmall { bytes: u64 },
    /// A state too small for even a few locks.
    #[error("--state-bytes-max {bytes}: the minimum is {STATE_BYTES_MIN}")]
    StateTooSmall { bytes: u64 },
    /// A time in the file that is not a duration.
    #[error("{key} in the configuration file: `{text}` is not a duration: write it like 90s or 24h")]
    Duration { key: &'static str, text: String },
    /// A time until an upgrade is finalized that leaves no way back.
    #[error("--finalize-after {given}: the minimum is {}", duration::format(FINALIZE_AFTER_MIN))]
    FinalizeTooSoon { given: String },
    /// The table of the audit log names no file.
    #[error("the table [audit] in the configuration file needs the key `file`: the file of the audit log")]
    AuditWithoutFile,
    /// The file of the audit log is a directory.
    #[error("audit.file in the configuration file: {file} is a directory: name a file in it, such as {file}/audit.log")]
    AuditDirectory { file: String },
    /// An unknown scope of the audit log.
    #[error("audit.what in the configuration file: `{text}` is not known: write denied, writes or all")]
    AuditScope { text: String },
    /// The table of scheduled backups names no folder.
    #[error("the table [backup] in the configuration file needs the key `dir`: the folder of the backups")]
    BackupWithoutDir,
    /// The folder of the backups is in the data directory.
    #[error(
        "backup.dir in the configuration file: {dir} is in the data directory, and would be lost with it: name a folder elsewhere"
    )]
    BackupInData { dir: String },
    /// Scheduled backups that are too frequent or too rare.
    #[error(
        "backup.every in the configuration file: {given}: write a time from {}s to {}h",
        BACKUP_EVERY_MIN.as_secs(),
        BACKUP_EVERY_MAX.as_secs() / 3_600
    )]
    BackupEvery { given: String },
    /// No backup would be kept.
    #[error("backup.keep in the configuration file is 0: the minimum is 1")]
    BackupKeep,
    /// The table of traces names no collector.
    #[error("the table [trace] in the configuration file needs the key `endpoint`: the URL of a collector of traces")]
    TraceWithoutEndpoint,
    /// The collector's URL.
    #[error(
        "trace.endpoint in the configuration file{}: write the URL of a collector, like http://collector:4318, without a user, a \
         query or /v1/traces",
        origin.as_ref().map_or_else(String::new, |origin| format!(" names {origin}"))
    )]
    TraceEndpoint {
        /// Its scheme, host and port. The rest may be a secret.
        origin: Option<String>,
    },
    /// A part that is none.
    #[error("trace.sample in the configuration file: {part}: write the part of all requests, from 0 to 1, like 0.01")]
    TraceSample { part: String },
    /// An invalid log filter.
    #[error("--log {filter}: {reason}; write it as LEVEL, or as MODULE=LEVEL,… with off, error, warn, info, debug or trace")]
    Log { filter: String, reason: String },
}

/// One line for each reason.
fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\nfairhold: ")
}

/// What else a node can be started with.
fn other_way(name: &str) -> &'static str {
    if name == "id" { ". To join a running cluster, pass --join-file FILE and --advertise instead" } else { "" }
}

impl ConfigError {
    /// Each reason alone.
    pub(crate) fn findings(self) -> Vec<String> {
        if let ConfigError::Several(errors) = self {
            return errors.into_iter().flat_map(ConfigError::findings).collect();
        }
        vec![self.to_string()]
    }

    /// Whether the reason may only be that a key of the file is misspelt, or has a value of a wrong type.
    pub(super) fn may_follow_from_the_file(&self) -> bool {
        if let ConfigError::Several(errors) = self {
            return errors.iter().all(ConfigError::may_follow_from_the_file);
        }
        matches!(
            self,
            ConfigError::Missing { .. }
                | ConfigError::Members(_)
                | ConfigError::JoinFileMissing
                | ConfigError::CertOrKey { .. }
                | ConfigError::NeedsCert { .. }
                | ConfigError::PeerTlsIncomplete { .. }
                | ConfigError::Exposed { .. }
                | ConfigError::AuditWithoutFile
                | ConfigError::TraceWithoutEndpoint
                | ConfigError::Jwt { .. }
                | ConfigError::DataDir(_)
        )
    }

    /// The exit code of a command that fails for this reason.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            ConfigError::DataDir(DataDirError::Io(_)) => exit::FAILURE,
            // It stays as it is until somebody restores the file, replaces the node, or chooses one of two clusters.
            ConfigError::DataDir(DataDirError::Damaged { .. }) | ConfigError::TokenOfOtherCluster { .. } => {
                exit::CANNOT_TAKE_PART
            }
            ConfigError::DataDir(
                DataDirError::InUse { .. }
                | DataDirError::OtherNode { .. }
                | DataDirError::NotJoined { .. }
                | DataDirError::NoCluster { .. }
                | DataDirError::OtherCluster { .. }
                | DataDirError::Removed { .. }
                | DataDirError::LostEntries { .. }
                | DataDirError::NotEmpty { .. }
                | DataDirError::NoNode { .. }
                | DataDirError::NoIdentity { .. },
            )
            // One reason of several is the configuration.
            | ConfigError::Several(_)
            | ConfigError::Unreadable { .. }
            | ConfigError::File { .. }
            | ConfigError::UnknownKey { .. }
            | ConfigError::Missing { .. }
            | ConfigError::IdZero
            | ConfigError::Members(_)
            | ConfigError::Advertise(_)
            | ConfigError::AdvertiseDiffers { .. }
            | ConfigError::MemberAndJoin
            | ConfigError::JoinFileMissing
            | ConfigError::TokenAsFile { .. }
            | ConfigError::IdAndJoin { .. }
            | ConfigError::Listen { .. }
            | ConfigError::CertOrKey { .. }
            | ConfigError::NeedsCert { .. }
            | ConfigError::TlsMin { .. }
            | ConfigError::Exposed { .. }
            | ConfigError::PeerTlsIncomplete { .. }
            | ConfigError::ClusterName { .. }
            | ConfigError::Jwt { .. }
            | ConfigError::Connections { .. }
            | ConfigError::AllowedHost { .. }
            | ConfigError::UiDirExposed { .. }
            | ConfigError::RingTooSmall { .. }
            | ConfigError::StateTooSmall { .. }
            | ConfigError::Duration { .. }
            | ConfigError::FinalizeTooSoon { .. }
            | ConfigError::AuditWithoutFile
            | ConfigError::AuditDirectory { .. }
            | ConfigError::AuditScope { .. }
            | ConfigError::BackupWithoutDir
            | ConfigError::BackupInData { .. }
            | ConfigError::BackupEvery { .. }
            | ConfigError::BackupKeep
            | ConfigError::TraceWithoutEndpoint
            | ConfigError::TraceEndpoint { .. }
            | ConfigError::TraceSample { .. }
            | ConfigError::Log { .. } => exit::USAGE,
        }
    }
}

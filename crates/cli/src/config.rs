//! The configuration of `serve`: flag, environment, file, default, in this order, resolved once into plain values.

use crate::{
    member::{AddressFault, MemberError, ServeMember, check_address, client_address, parse_members},
    serve::{args::ServeArgs, memory},
    telemetry,
};
use fairhold_http::Limits;
use fairhold_types::{
    NodeId,
    limits::{CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, EVENT_RING_BYTES_MIN, STATE_BYTES_MIN},
    memory_plan::MemoryPlan,
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};
use strsim::levenshtein;

/// The default log filter. openraft warns twenty times a second while a node is down.
const LOG_DEFAULT: &str = "info,openraft=error";

/// By default, one address may have this fraction of all connections.
const PER_ADDRESS_PART: usize = CONNECTIONS_MAX / CONNECTIONS_PER_ADDRESS_MAX;

/// The valid keys of the file: the names of the flags.
const FILE_KEYS: [&str; 15] = [
    "id",
    "data",
    "member",
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

/// The configuration of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeConfig {
    /// The number of this node.
    pub(crate) id: NodeId,
    /// Its data directory.
    pub(crate) data: PathBuf,
    /// All nodes, including this one.
    pub(crate) members: BTreeMap<NodeId, ServeMember>,
    /// The address at which it listens for clients.
    pub(crate) listen: String,
    /// The address at which it listens for the other nodes.
    pub(crate) peer_listen: String,
    /// The separate address for `/livez`, `/readyz` and `/metrics`.
    pub(crate) listen_status: Option<String>,
    /// Additional host names of this cluster.
    pub(crate) allowed_hosts: Vec<String>,
    /// How the other nodes authenticate.
    pub(crate) peers: PeerTrust,
    /// The limits on client connections and their memory.
    pub(crate) limits: Limits,
    /// How many bytes of events it keeps for watches.
    pub(crate) event_ring_bytes: u64,
    /// The largest state that it can hold, in bytes.
    pub(crate) state_bytes_max: u64,
    /// How many bytes of commands may wait here to be proposed.
    pub(crate) proposal_bytes: usize,
    /// The log filter.
    pub(crate) log: String,
    /// The file with the administrators' token; none: anyone who can reach the port may make their calls.
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Whether it stops when standard input closes.
    pub(crate) exit_with_parent: bool,
}

/// How a node authenticates the other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerTrust {
    /// With the key in this file.
    Key(PathBuf),
    /// Not at all: its peer address is a loopback address.
    Loopback,
    /// Not at all: its operator passed `--insecure`.
    Insecure,
}

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {error}")]
    Unreadable { path: String, error: io::Error },
    /// The file is not TOML, or a value has the wrong type.
    #[error("the configuration file {path} is not valid: {error}")]
    File {
        path: String,
        /// The place and the reason.
        error: toml::de::Error,
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
    #[error("{name} is missing: pass --{name} {form}, set {variable}, or add it to the --config file")]
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
    /// An invalid listen address.
    #[error("--{name}: {fault}")]
    Listen { name: &'static str, fault: AddressFault },
    /// Other machines can reach the peer port, and there is no key.
    #[error(
        "other machines can reach --peer-listen {address}, and without a key anyone who reaches it can do anything \
         with the cluster. Either give every node the same --peer-key-file (`openssl rand -hex 32 > peer.key; chmod 600 \
         peer.key`), or pass --insecure if a firewall admits nobody but the nodes"
    )]
    NoPeerKey {
        /// The peer address.
        address: String,
    },
    /// Both a key and `--insecure`.
    #[error("pass either --insecure or --peer-key-file, not both")]
    KeyAndInsecure,
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
    /// An event ring that is too small for even a few events.
    #[error("--event-ring-bytes {bytes}: the minimum is {EVENT_RING_BYTES_MIN}")]
    RingTooSmall { bytes: u64 },
    /// A state too small for even a few locks.
    #[error("--state-bytes-max {bytes}: the minimum is {STATE_BYTES_MIN}")]
    StateTooSmall { bytes: u64 },
    /// An invalid log filter.
    #[error("--log {filter}: {reason}; write it as LEVEL, or as MODULE=LEVEL,… with off, error, warn, info, debug or trace")]
    Log { filter: String, reason: String },
}

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct FileConfig {
    id: Option<NodeId>,
    data: Option<PathBuf>,
    member: Vec<String>,
    listen: Option<String>,
    peer_listen: Option<String>,
    listen_status: Option<String>,
    allowed_host: Vec<String>,
    peer_key_file: Option<PathBuf>,
    insecure: bool,
    connections_max: Option<u32>,
    connections_per_address_max: Option<u32>,
    event_ring_bytes: Option<u64>,
    state_bytes_max: Option<u64>,
    log: Option<String>,
    admin_token_file: Option<PathBuf>,
}

impl ServeConfig {
    /// Reads the file, if there is one, and resolves every value. `args` already has the flags and the environment.
    pub(crate) fn resolve(args: ServeArgs) -> Result<ServeConfig, ConfigError> {
        ServeConfig::resolve_within(memory::plan(), args)
    }

    /// The same with these memory budgets.
    fn resolve_within(plan: MemoryPlan, args: ServeArgs) -> Result<ServeConfig, ConfigError> {
        let file = match &args.config {
            Some(path) => read_file(path)?,
            None => FileConfig::default(),
        };
        let missing = |name, form, variable| ConfigError::Missing { name, form, variable };
        let id = args.id.or(file.id).ok_or_else(|| missing("id", "N", "FAIRHOLD_ID"))?;
        if id == 0 {
            return Err(ConfigError::IdZero);
        }
        let data = args.data.or(file.data).ok_or_else(|| missing("data", "DIR", "FAIRHOLD_DATA"))?;
        let members = parse_members(id, if args.member.is_empty() { &file.member } else { &args.member })?;
        let Some(own) = members.get(&id) else {
            return Err(MemberError::OwnMissing { id, known: members.into_keys().collect() }.into());
        };
        let listen = address("listen", args.listen.or(file.listen), client_address(own))?;
        let peer_listen = address("peer-listen", args.peer_listen.or(file.peer_listen), &own.peer)?;
        let listen_status = args.listen_status.or(file.listen_status);
        let listen_status = listen_status.map(|given| address("listen-status", Some(given), "")).transpose()?;
        let allowed_hosts = if args.allowed_host.is_empty() { file.allowed_host } else { args.allowed_host };
        if let Some(host) = allowed_hosts.iter().find(|host| !is_host(host)) {
            return Err(ConfigError::AllowedHost { host: host.clone() });
        }
        let event_ring_bytes = args.event_ring_bytes.or(file.event_ring_bytes).unwrap_or(plan.event_ring_bytes);
        if event_ring_bytes < EVENT_RING_BYTES_MIN {
            return Err(ConfigError::RingTooSmall { bytes: event_ring_bytes });
        }
        let state_bytes_max = args.state_bytes_max.or(file.state_bytes_max);
        if let Some(bytes) = state_bytes_max.filter(|bytes| *bytes < STATE_BYTES_MIN) {
            return Err(ConfigError::StateTooSmall { bytes });
        }
        let state_bytes_max = state_bytes_max.unwrap_or(plan.state_bytes);
        let log = args.log.or(file.log).unwrap_or_else(|| LOG_DEFAULT.to_owned());
        if let Err(reason) = telemetry::filter(&log) {
            return Err(ConfigError::Log { filter: log, reason });
        }
        let limits = limits(
            plan,
            args.connections_max.or(file.connections_max),
            args.connections_per_address_max.or(file.connections_per_address_max),
        )?;
        let peers = peer_trust(args.peer_key_file.or(file.peer_key_file), args.insecure || file.insecure, &peer_listen)?;
        let admin_token_file = args.admin_token_file.or(file.admin_token_file);
        let exit_with_parent = args.exit_with_parent;
        Ok(ServeConfig {
            id,
            data,
            members,
            listen,
            peer_listen,
            listen_status,
            allowed_hosts,
            peers,
            limits,
            event_ring_bytes,
            state_bytes_max,
            proposal_bytes: plan.proposal_bytes,
            log,
            admin_token_file,
            exit_with_parent,
        })
    }
}

/// Whether this is a host name without scheme, port and path.
fn is_host(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn peer_trust(key_file: Option<PathBuf>, insecure: bool, peer_listen: &str) -> Result<PeerTrust, ConfigError> {
    match key_file {
        Some(_) if insecure => Err(ConfigError::KeyAndInsecure),
        Some(file) => Ok(PeerTrust::Key(file)),
        None if insecure => Ok(PeerTrust::Insecure),
        None if is_loopback(peer_listen) => Ok(PeerTrust::Loopback),
        None => Err(ConfigError::NoPeerKey { address: peer_listen.to_owned() }),
    }
}

/// Whether only this machine can reach an address. Names are not resolved; only `localhost` counts as loopback.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn limits(plan: MemoryPlan, all: Option<u32>, per_address: Option<u32>) -> Result<Limits, ConfigError> {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let connections = all.map_or(plan.connections, count);
    let per_address = per_address.map_or_else(|| connections.div_ceil(PER_ADDRESS_PART), count);
    if connections == 0 || per_address == 0 || per_address > connections {
        return Err(ConfigError::Connections { connections, per_address });
    }
    Ok(Limits { connections, per_address, body_bytes: plan.body_bytes, answer_bytes: plan.answer_bytes })
}

fn address(name: &'static str, given: Option<String>, default: &str) -> Result<String, ConfigError> {
    let address = given.unwrap_or_else(|| default.to_owned());
    check_address(&address).map_err(|fault| ConfigError::Listen { name, fault })?;
    Ok(address)
}

fn read_file(path: &Path) -> Result<FileConfig, ConfigError> {
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

#[cfg(test)]
mod tests;

//! The configuration of `serve`: flag, environment, file, default, in this order, resolved once into plain values.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod client_tls;
pub(crate) mod error;
pub(crate) mod exposure;
mod faults;
mod file;
mod jwt;
pub(crate) mod peer_tls;
pub(crate) mod peer_trust;
mod ports;
pub(crate) mod source;
pub(crate) mod start;
pub(crate) mod trace;

use crate::{
    member::{ServeMember, check_address, client_address},
    serve::{args::ServeArgs, memory},
    telemetry,
    token_name::is_token,
};
use audit::{AuditConfig, AuditTable};
use backup::{BackupConfig, BackupTable};
use client_tls::{ClientTlsConfig, ClientTlsInput};
use error::ConfigError;
use exposure::Exposure;
use fairhold_http::{Dashboard, Limits};
use fairhold_trust::{client_port::TlsVersion, jwt::JwtProviderConfig, name::ClusterName};
use fairhold_types::{
    Timing, duration,
    limits::{
        CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, EVENT_RING_BYTES_MIN, FINALIZE_AFTER_MIN, SLOW_REQUEST_DEFAULT,
        STATE_BYTES_MIN,
    },
    memory_plan::MemoryPlan,
};
use faults::Faults;
use file::{FileConfig, FileRead, UpgradeTable, read_file};
use peer_tls::{PeerTlsConfig, PeerTlsInput};
use peer_trust::PeerTrust;
use ports::Ports;
use start::{ResolvedStart, Start, StartInput, StartNote};
use std::{path::PathBuf, time::Duration};
use trace::{TraceConfig, TraceTable};

/// The default log filter. openraft warns twenty times a second while a node is down.
const LOG_DEFAULT: &str = "info,openraft=error";

/// By default, one address may have this fraction of all connections.
const PER_ADDRESS_PART: usize = CONNECTIONS_MAX / CONNECTIONS_PER_ADDRESS_MAX;

/// The configuration of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeConfig {
    /// How it starts: as which node, with which members.
    pub(crate) start: Start,
    /// Its own addresses.
    pub(crate) own: ServeMember,
    /// The timing profile.
    pub(crate) timing: Timing,
    /// Remarks on the configuration, for the log.
    pub(crate) notes: Vec<StartNote>,
    /// The names of the values that come from the data directory.
    pub(crate) from_directory: Vec<&'static str>,
    /// Its data directory.
    pub(crate) data: PathBuf,
    /// The address at which it listens for clients.
    pub(crate) listen: String,
    /// TLS of that address, if it has a certificate.
    pub(crate) client_tls: Option<ClientTlsConfig>,
    /// The address at which it listens for the other nodes.
    pub(crate) peer_listen: String,
    /// The separate address for `/livez`, `/readyz` and `/metrics`.
    pub(crate) listen_status: Option<String>,
    /// Additional host names of this cluster.
    pub(crate) allowed_hosts: Vec<String>,
    /// The dashboard that it serves.
    pub(crate) dashboard: Dashboard,
    /// How the other nodes authenticate.
    pub(crate) peers: PeerTrust,
    /// TLS of the connections to the other nodes; `None` if they have no TLS.
    pub(crate) peer_tls: Option<PeerTlsConfig>,
    /// Whether its ports may be unprotected where other machines can reach them.
    pub(crate) insecure: bool,
    /// What of them is unprotected there.
    pub(crate) exposures: Vec<Exposure>,
    /// The limits on client connections and their memory.
    pub(crate) limits: Limits,
    /// How many bytes of events it keeps for watches.
    pub(crate) event_ring_bytes: u64,
    /// The largest state that it can hold, in bytes.
    pub(crate) state_bytes_max: u64,
    /// How many bytes of commands may wait here to be proposed.
    pub(crate) proposal_bytes: usize,
    /// How long every member must support the next cluster version until this node, if it leads, finalizes the upgrade.
    /// `None`: only an operator does.
    pub(crate) finalize_after: Option<Duration>,
    /// The log filter.
    pub(crate) log: String,
    /// A request that takes longer is a slow one; zero: none is.
    pub(crate) slow_request: Duration,
    /// Where the spans of requests go; `None`: nothing is traced.
    pub(crate) trace: Option<TraceConfig>,
    /// The file with the administrators' token; none: anyone who can reach the port may make their calls.
    pub(crate) admin_token_file: Option<PathBuf>,
    /// The audit log, if there is one.
    pub(crate) audit: Option<AuditConfig>,
    /// The scheduled backups, if there are any.
    pub(crate) backup: Option<BackupConfig>,
    /// The name of the cluster, if the configuration has one.
    pub(crate) cluster_name: Option<ClusterName>,
    /// The providers of JWTs.
    pub(crate) jwt: Vec<JwtProviderConfig>,
    /// Whether it stops when standard input closes.
    pub(crate) exit_with_parent: bool,
    /// The file with settings, if there is one.
    pub(crate) file: Option<PathBuf>,
}

/// A configuration, and the values of its file as they are written.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    /// The configuration.
    pub(crate) config: ServeConfig,
    /// The values of the file.
    pub(crate) values: toml::Table,
}

impl ServeConfig {
    /// Reads the file, if there is one, and resolves every value. `args` already has the flags and the environment.
    pub(crate) fn resolve(args: ServeArgs) -> Result<ServeConfig, ConfigError> {
        ServeConfig::load(args).map(|loaded| loaded.config)
    }

    /// The same, with the values of the file.
    pub(crate) fn load(args: ServeArgs) -> Result<LoadedConfig, ConfigError> {
        ServeConfig::load_within(memory::plan(), args)
    }

    /// The same with these memory budgets. An error has every reason that was found.
    fn load_within(plan: MemoryPlan, args: ServeArgs) -> Result<LoadedConfig, ConfigError> {
        let FileRead { config: file, values, faults } = args.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let mut faults = Faults::of_file(faults);
        let config = ServeConfig::from_both(plan, args, file, &mut faults);
        if let Some(ServeConfig { backup: Some(backup), data, .. }) = &config {
            faults.keep(backup.check_outside(data));
        }
        faults.into_result(config).map(|config| LoadedConfig { config, values })
    }

    /// Resolves what the flags, the environment and the file say.
    fn from_both(plan: MemoryPlan, mut args: ServeArgs, mut file: FileConfig, faults: &mut Faults) -> Option<ServeConfig> {
        let cluster = faults.or_default(cluster_name(args.cluster_name.take().or(file.cluster_name.take())));
        let (client_tls, peer_tls) = tls(&mut args, &mut file, cluster.clone(), faults);
        let audit = faults.or_default(file.audit.take().map(AuditTable::resolve).transpose());
        let backup = faults.or_default(file.backup.take().map(BackupTable::resolve).transpose());
        let trace = faults.or_default(file.trace.take().map(TraceTable::resolve).transpose());
        let slow_request = faults.or_default(slow_request(args.slow_request, file.slow_request.take()));
        let jwt = faults.or_default(jwt::providers(std::mem::take(&mut file.jwt)));
        let finalize_after = faults.or_default(finalize_after(args.finalize_after, std::mem::take(&mut file.upgrade)));
        let listen = faults.or_default(given_address("listen", args.listen.or(file.listen)));
        let peer_listen = faults.or_default(given_address("peer-listen", args.peer_listen.or(file.peer_listen)));
        let listen_status = faults.or_default(given_address("listen-status", args.listen_status.or(file.listen_status)));
        let allowed_hosts = faults.or_default(hosts(args.allowed_host, file.allowed_host));
        let event_ring_bytes = faults.or_default(event_ring_bytes(plan, args.event_ring_bytes.or(file.event_ring_bytes)));
        let state_bytes_max = faults.or_default(state_bytes_max(plan, args.state_bytes_max.or(file.state_bytes_max)));
        let log = faults.or_default(log_filter(args.log.or(file.log)));
        let per_address = args.connections_per_address_max.or(file.connections_per_address_max);
        let limits = faults.keep(limits(plan, args.connections_max.or(file.connections_max), per_address));
        let admin_token_file = faults.or_default(admin_token_file(args.admin_token_file.or(file.admin_token_file)));
        let no_data = ConfigError::Missing { name: "data", form: "DIR", variable: "FAIRHOLD_DATA" };
        let data = faults.keep(args.data.or(file.data).ok_or(no_data))?;
        let input = StartInput {
            id: args.id.or(file.id),
            members: if args.member.is_empty() { file.member } else { args.member },
            join_file: args.join_file.or(file.join_file),
            advertise: args.advertise.or(file.advertise),
            timing: args.timing.or(file.timing),
        };
        let ResolvedStart { start, own, timing, notes, from_directory } = faults.keep(input.resolve(&data))?;
        let listen = faults.keep(address("listen", listen, client_address(&own)))?;
        let peer_listen = faults.keep(address("peer-listen", peer_listen, &own.peer))?;
        let insecure = args.insecure || file.insecure;
        let peers = PeerTrust::new(args.peer_key_file.or(file.peer_key_file), peer_tls.as_ref());
        let (client, peer) = (client_tls.as_ref(), peer_tls.as_ref());
        let ports = Ports { listen: &listen, client_tls: client, peer_listen: &peer_listen, peers: &peers, peer_tls: peer };
        let dashboard = faults.or_default(ports.dashboard(args.ui.or(file.ui).unwrap_or(true), args.ui_dir));
        // What is missing above may be what protects a port.
        let exposures = if faults.is_empty() { faults.keep(ports.exposures(insecure))? } else { Vec::new() };
        Some(ServeConfig {
            start,
            own,
            timing,
            notes,
            from_directory,
            data,
            listen,
            client_tls,
            peer_listen,
            listen_status,
            allowed_hosts,
            dashboard,
            peers,
            peer_tls,
            insecure,
            exposures,
            limits: limits?,
            event_ring_bytes,
            state_bytes_max,
            proposal_bytes: plan.proposal_bytes,
            finalize_after,
            log,
            slow_request,
            trace,
            admin_token_file,
            audit,
            backup,
            cluster_name: cluster,
            jwt,
            exit_with_parent: args.exit_with_parent,
            file: args.config,
        })
    }
}

impl ServeConfig {
    /// Whether this node has certificates, for clients or for the other nodes.
    pub(crate) fn has_certificate(&self) -> bool {
        self.client_tls.is_some() || self.peer_tls.is_some()
    }

    /// Whether this node has files that it reads again at SIGHUP: certificates, or the keys of providers of JWTs.
    pub(crate) fn follows_files(&self) -> bool {
        self.has_certificate() || !self.jwt.is_empty()
    }

    /// Whether SIGHUP makes this node read its configuration and other files again, and does not stop it.
    pub(crate) fn reloads_at_hangup(&self) -> bool {
        self.follows_files() || self.audit.is_some() || self.file.is_some()
    }
}

/// TLS of the ports for clients and for the other nodes.
fn tls(
    args: &mut ServeArgs,
    file: &mut FileConfig,
    cluster: Option<ClusterName>,
    faults: &mut Faults,
) -> (Option<ClientTlsConfig>, Option<PeerTlsConfig>) {
    let client = client_tls_input(args, file, cluster.clone()).and_then(ClientTlsInput::resolve);
    let client = faults.or_default(client);
    let peer = peer_tls_input(args, file, cluster).resolve(client.as_ref().map(|tls| &tls.files));
    (client, faults.or_default(peer))
}

/// How long every member must support the next cluster version.
fn finalize_after(given: Option<Duration>, table: UpgradeTable) -> Result<Option<Duration>, ConfigError> {
    match given.or(table.finalize_after()?) {
        Some(given) if given < FINALIZE_AFTER_MIN => Err(ConfigError::FinalizeTooSoon { given: duration::format(given) }),
        given => Ok(given),
    }
}

/// How long a request may take.
fn slow_request(given: Option<Duration>, in_file: Option<String>) -> Result<Duration, ConfigError> {
    match (given, in_file) {
        (Some(given), _) => Ok(given),
        (None, Some(text)) => duration::parse(&text).map_err(|_| ConfigError::Duration { key: "slow-request", text }),
        (None, None) => Ok(SLOW_REQUEST_DEFAULT),
    }
}

/// The version of TLS in the file.
fn tls_version(text: &str) -> Result<TlsVersion, ConfigError> {
    text.parse().map_err(|error| ConfigError::TlsMin { text: text.to_owned(), error })
}

/// The name of the cluster in certificates.
fn cluster_name(given: Option<String>) -> Result<Option<ClusterName>, ConfigError> {
    given.map(|name| name.parse().map_err(|fault| ConfigError::ClusterName { name, fault })).transpose()
}

/// The file with the administrators' token.
fn admin_token_file(given: Option<PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    if given.as_deref().is_some_and(is_token) {
        return Err(ConfigError::TokenAsFile { name: "admin-token-file", token: "administrators' token" });
    }
    Ok(given)
}

/// The host names of `allowed-host`.
fn hosts(given: Vec<String>, in_file: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let given = if given.is_empty() { in_file } else { given };
    match given.iter().find(|host| !is_host(host)) {
        Some(host) => Err(ConfigError::AllowedHost { host: host.clone() }),
        None => Ok(given),
    }
}

fn event_ring_bytes(plan: MemoryPlan, given: Option<u64>) -> Result<u64, ConfigError> {
    match given.unwrap_or(plan.event_ring_bytes) {
        bytes if bytes < EVENT_RING_BYTES_MIN => Err(ConfigError::RingTooSmall { bytes }),
        bytes => Ok(bytes),
    }
}

fn state_bytes_max(plan: MemoryPlan, given: Option<u64>) -> Result<u64, ConfigError> {
    match given {
        Some(bytes) if bytes < STATE_BYTES_MIN => Err(ConfigError::StateTooSmall { bytes }),
        Some(bytes) => Ok(bytes),
        None => Ok(plan.state_bytes),
    }
}

fn log_filter(given: Option<String>) -> Result<String, ConfigError> {
    let filter = given.unwrap_or_else(|| LOG_DEFAULT.to_owned());
    match telemetry::filter(&filter) {
        Ok(_) => Ok(filter),
        Err(reason) => Err(ConfigError::Log { filter, reason }),
    }
}

/// Whether this is a host name without scheme, port and path.
fn is_host(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Takes what the configuration says about TLS of the port for clients.
fn client_tls_input(
    args: &mut ServeArgs,
    file: &mut FileConfig,
    cluster: Option<ClusterName>,
) -> Result<ClientTlsInput, ConfigError> {
    let in_file = file.tls_min.take().map(|text| tls_version(&text)).transpose()?;
    let listen_plain = args.listen_plain.take().or(file.listen_plain.take());
    Ok(ClientTlsInput {
        cert: args.cert.take().or(file.cert.take()),
        key: args.key.take().or(file.key.take()),
        client_ca: args.client_ca.take().or(file.client_ca.take()),
        tls_min: args.tls_min.or(in_file),
        cluster,
        listen_plain: given_address("listen-plain", listen_plain)?,
    })
}

/// Takes what the configuration says about TLS between nodes.
fn peer_tls_input(args: &mut ServeArgs, file: &mut FileConfig, cluster: Option<ClusterName>) -> PeerTlsInput {
    PeerTlsInput {
        cert: args.peer_cert.take().or(file.peer_cert.take()),
        key: args.peer_key.take().or(file.peer_key.take()),
        ca: args.peer_ca.take().or(file.peer_ca.take()),
        mode: args.peer_tls.or(file.peer_tls),
        cluster,
    }
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

/// Checks an address that is given.
fn given_address(name: &'static str, given: Option<String>) -> Result<Option<String>, ConfigError> {
    given.map(|given| address(name, Some(given), "")).transpose()
}

fn address(name: &'static str, given: Option<String>, default: &str) -> Result<String, ConfigError> {
    let address = given.unwrap_or_else(|| default.to_owned());
    check_address(&address).map_err(|fault| ConfigError::Listen { name, fault })?;
    Ok(address)
}

#[cfg(test)]
mod tests;

//! The options of `serve`.

use crate::config::peer_tls::PeerTlsMode;
use clap::value_parser;
use fairhold_trust::client_port::TlsVersion;
use fairhold_types::{NodeId, Timing, duration, limits::NODE_ID_MAX};
use std::{path::PathBuf, time::Duration};

/// The options from flags and environment variables.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = "Precedence: flag, environment variable, --config file, default.

Examples:
  Form a cluster; the same on every machine, except for --id and the certificate, with one --member for each node:
  fairhold serve --id 1 --data d --cert 1.crt --key 1.key --peer-ca ca.crt --cluster-name x --member 1=https://a:7171,a:7271
  The same without TLS, in a network that you trust:
  fairhold serve --id 1 --data data --insecure --peer-key-file peer.key --member 1=http://a:7171,a:7271
  Join a running cluster, with a token from `fairhold cluster invite`:
  fairhold serve --data data --insecure --peer-key-file peer.key --join-file join.token --advertise http://d:7171,d:7271
  Start a node again:
  fairhold serve --data data --insecure --peer-key-file peer.key

Exit codes:
  0  stopped in good order
  1  failed: start it again; a service manager such as systemd does
  2  wrong usage or configuration, or a join token that is not valid
  3  this data directory cannot take part, or not with this program: starting it again does not help.
     The node was removed, its data was wiped or has lost entries, it belongs to another cluster, another
     process runs with a copy of its directory, or its program does not support the cluster's version")]
pub(crate) struct ServeArgs {
    /// Read settings from this TOML file; its keys are the names of the flags
    ///
    /// Its tables `[jwt.NAME]` name providers of JWTs, with the keys issuer, audience, jwks, user-claim and attributes.
    ///
    /// The audit log of requests is configured only there, in the table audit: its file, what it has, and whether it is
    /// required.
    ///
    /// Traces are configured only there, too: the table trace has the keys endpoint, sample and names.
    ///
    /// SIGHUP makes the node read the file again, and does not stop it. A file with an error changes nothing. The log
    /// says which changes need a restart.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Set the number of this node, at least 1, as in --member
    ///
    /// A data directory knows the number of its node, so only the first start needs it. A node that joins a cluster
    /// gets its number from the cluster.
    #[arg(long, value_name = "N", env = "FAIRHOLD_ID", value_parser = value_parser!(u64).range(1..=NODE_ID_MAX))]
    pub(crate) id: Option<NodeId>,

    /// Keep this node's log, vote and snapshots in this directory
    #[arg(long, value_name = "DIR", env = "FAIRHOLD_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// Add a node: its number, its URL for clients, its address for the other nodes
    ///
    /// Repeat the option for every node, including this one, or separate several nodes with spaces. Every node needs
    /// the same list to form the cluster. Later starts need it only if addresses have changed: the node remembers the
    /// last list.
    #[arg(long, value_name = "N=http://HOST:PORT,HOST:PORT", env = "FAIRHOLD_MEMBER")]
    pub(crate) member: Vec<String>,

    /// Join a running cluster with the join token in this file [default: none; form one with --member]
    ///
    /// `fairhold cluster invite` creates a token. The cluster gives the node its number. Once the node has joined, its
    /// data directory is enough to start it. A token of another cluster than the directory's ends the node.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_JOIN_FILE")]
    pub(crate) join_file: Option<PathBuf>,

    /// Set the addresses of a node that joins: its URL for clients, its address for the other nodes
    ///
    /// The other machines must be able to reach both. The node remembers them for later starts. It does not announce
    /// changed addresses by itself: `fairhold cluster set-member` does.
    #[arg(long, value_name = "http://HOST:PORT,HOST:PORT", env = "FAIRHOLD_ADVERTISE")]
    pub(crate) advertise: Option<String>,

    /// Set the timing profile of a new cluster: lan, metro, wan or global [default: lan]
    ///
    /// It fits the round trips between the nodes: up to 10, 30, 150 or 300 ms. Pass the same one to every node. A
    /// running cluster has its own profile, which `fairhold cluster set timing=wan` changes; the node remembers it.
    #[arg(long, value_name = "PROFILE", env = "FAIRHOLD_TIMING")]
    pub(crate) timing: Option<Timing>,

    /// Listen for clients at this address [default: HOST:PORT of this node's own URL]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN")]
    pub(crate) listen: Option<String>,

    /// Show clients this certificate: serve https:// [default: none; http://]
    ///
    /// A PEM file with the certificate of this node, and after it those that lead to its authority. Needs --key. The node
    /// reads the files again every 2 s and after a SIGHUP, and uses what is new for new connections if it works. The URL of this
    /// node starts with https:// then. SIGHUP does not stop a node with a certificate.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_CERT")]
    pub(crate) cert: Option<PathBuf>,

    /// Use the private key in this file for --cert
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_KEY")]
    pub(crate) key: Option<PathBuf>,

    /// Verify the certificates of clients with the authorities in this file [default: none; not asked for]
    ///
    /// A client may do without a certificate. If it shows an expired one, or that of another authority, the node refuses it.
    /// With access rights, one with the name fairhold://CLUSTER/user/NAME proves that the client is user:NAME.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_CLIENT_CA")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Accept this version of TLS and newer ones from clients: 1.2 or 1.3 [default: 1.3]
    #[arg(long, value_name = "VERSION", env = "FAIRHOLD_TLS_MIN")]
    pub(crate) tls_min: Option<TlsVersion>,

    /// Listen for clients without TLS at this second address [default: none]
    ///
    /// For tools on the same machine, such as 127.0.0.1:7170, and for clients that do not use TLS yet. Needs --cert.
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN_PLAIN")]
    pub(crate) listen_plain: Option<String>,

    /// Listen for the other nodes at this address [default: this node's own address for nodes]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_PEER_LISTEN")]
    pub(crate) peer_listen: Option<String>,

    /// Serve only /livez, /readyz and /metrics at this separate address [default: none]
    ///
    /// Clients cannot use up its connections.
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN_STATUS")]
    pub(crate) listen_status: Option<String>,

    /// Accept this host name from browsers too, such as the name of a proxy [default: none]
    ///
    /// If you set one, the Host header of every request must be an IP address, localhost, a member's host or one of
    /// these names. Otherwise the node checks only requests from web pages, against the first three.
    #[arg(long, value_name = "NAME", env = "FAIRHOLD_ALLOWED_HOST", value_delimiter = ' ')]
    pub(crate) allowed_host: Vec<String>,

    /// Serve the dashboard at /ui/ [default: true]
    #[arg(long, value_name = "BOOL", env = "FAIRHOLD_UI")]
    pub(crate) ui: Option<bool>,

    /// Serve the files of the dashboard from this directory, for its developers
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) ui_dir: Option<PathBuf>,

    /// Authenticate the other nodes with the key in this file [default: none]
    ///
    /// The file is the same on every node, readable only by its owner, with one line of at least 32 bytes. During a key
    /// rotation it has several lines: the node proves itself with the first and accepts all. The node reloads the file
    /// when it changes. A key encrypts nothing: certificates do.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_PEER_KEY_FILE")]
    pub(crate) peer_key_file: Option<PathBuf>,

    /// Show the other nodes the certificate in this PEM file [default: --cert, if there is --peer-ca]
    ///
    /// It names this node as fairhold://CLUSTER/node/ID or fairhold://CLUSTER/node/*, and the host at which the others
    /// dial it. `fairhold cert node` makes one. The node reloads all three files when they change, and at SIGHUP.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_PEER_CERT")]
    pub(crate) peer_cert: Option<PathBuf>,

    /// Read the private key of --peer-cert from this PEM file [default: --key, if there is --peer-ca]
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_PEER_KEY")]
    pub(crate) peer_key: Option<PathBuf>,

    /// Accept only nodes whose certificates an authority in this PEM file has issued
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_PEER_CA")]
    pub(crate) peer_ca: Option<PathBuf>,

    /// Encrypt connections between nodes [default: required with --peer-ca, otherwise off]
    ///
    /// With `optional`, a connection has TLS if both nodes can have it: use it on the way from `off` to `required`. It
    /// does not protect against an attacker who can alter the traffic between nodes.
    #[arg(long, value_name = "MODE", env = "FAIRHOLD_PEER_TLS", value_enum)]
    pub(crate) peer_tls: Option<PeerTlsMode>,

    /// Name of the cluster that all its certificates contain, as in `fairhold cert ca --name`
    ///
    /// For the users in certificates of clients, the default is the name in the certificate of --cert.
    #[arg(long, value_name = "NAME", env = "FAIRHOLD_CLUSTER_NAME")]
    pub(crate) cluster_name: Option<String>,

    /// Use plain text, and admit nodes without a key, also where other machines can reach this node
    ///
    /// By default, only loopback addresses may be without certificates. With this option, let a firewall admit only
    /// those whom you trust. The log, `fairhold doctor` and /v1/cluster show what is unprotected.
    #[arg(long, env = "FAIRHOLD_INSECURE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) insecure: bool,

    /// Accept at most this many client connections [default: one per 256 KiB of memory, up to 10000]
    ///
    /// The node lowers this number at startup if the limit on open files is too low.
    #[arg(long, value_name = "N", env = "FAIRHOLD_CONNECTIONS_MAX", value_parser = connections())]
    pub(crate) connections_max: Option<u32>,

    /// Accept at most this many connections from one address [default: an eighth of --connections-max]
    ///
    /// A proxy counts as one address.
    #[arg(long, value_name = "N", env = "FAIRHOLD_CONNECTIONS_PER_ADDRESS_MAX", value_parser = connections())]
    pub(crate) connections_per_address_max: Option<u32>,

    /// Keep this many bytes of recent events for watches [default: 1/32 of the memory, up to 64 MiB]
    ///
    /// A watch that falls further behind, or reconnects too late, must start again. The minimum is 65536.
    #[arg(long, value_name = "BYTES", env = "FAIRHOLD_EVENT_RING_BYTES")]
    pub(crate) event_ring_bytes: Option<u64>,

    /// Hold at most this many bytes of state [default: 1/8 of the memory of the machine or cgroup]
    ///
    /// The smallest value of all nodes is the cluster's budget. Beyond it, the cluster refuses requests that create
    /// something. The minimum is 1048576.
    #[arg(long, value_name = "BYTES", env = "FAIRHOLD_STATE_BYTES_MAX")]
    pub(crate) state_bytes_max: Option<u64>,

    /// Finalize an upgrade of the cluster by itself after this time [default: never]
    ///
    /// The time counts while this node leads and every member supports the next cluster version; a member that was
    /// silent for 10 s interrupts it. A new leader counts from the beginning. Set it on every node. The minimum is 1m.
    /// In the --config file it is the key finalize-after of the table upgrade.
    #[arg(long, value_name = "DURATION", env = "FAIRHOLD_FINALIZE_AFTER", value_parser = duration::parse)]
    pub(crate) finalize_after: Option<Duration>,

    /// Log by module and level, such as `info,fairhold_raft=debug` [default: info,openraft=error]
    #[arg(long, value_name = "FILTER", env = "FAIRHOLD_LOG")]
    pub(crate) log: Option<String>,

    /// Log requests that take longer than this, without their waits for locks [default: 1s]
    ///
    /// Each gets one line, with the time of its stages; at most 10 in a second, and /metrics counts the others. With 0,
    /// there are no such lines. SIGHUP changes it if it is in the --config file.
    #[arg(long, value_name = "DURATION", env = "FAIRHOLD_SLOW_REQUEST", value_parser = duration::parse)]
    pub(crate) slow_request: Option<Duration>,

    /// Require the token in this file for administrators' calls [default: none; anyone can make them]
    ///
    /// These calls break locks, end sessions by number, and more. Each line is a token of at least 16 characters. The node
    /// reloads the file when it changes.
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_ADMIN_TOKEN_FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Stop when standard input closes, which happens when the parent process ends
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

/// A positive number of connections.
fn connections() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..)
}

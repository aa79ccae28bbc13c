//! The options of `serve`.

use clap::value_parser;
use fairhold_types::NodeId;
use std::path::PathBuf;

/// What `serve` was told by flags and environment.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Precedence: flag, environment variable, file of --config, default.

Example, the same on every machine but for --id:
  fairhold serve --id 1 --data data --peer-key-file peer.key --member 1=http://a:7171,a:7271 --member 2=http://b:7171,b:7271")]
pub(crate) struct ServeArgs {
    /// A TOML file with further settings; its keys are the names of the flags
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// The number of this node, as in --member
    #[arg(long, value_name = "N", env = "FAIRHOLD_ID", value_parser = value_parser!(u64).range(1..))]
    pub(crate) id: Option<NodeId>,

    /// The directory for this node's log, vote and snapshots
    #[arg(long, value_name = "DIR", env = "FAIRHOLD_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// A node of the cluster: its number, its URL for clients, its address for the other nodes. Repeat it for every node,
    /// including this one, or separate several with spaces
    #[arg(long, value_name = "N=http://HOST:PORT,HOST:PORT", env = "FAIRHOLD_MEMBER")]
    pub(crate) member: Vec<String>,

    /// Where to listen for clients [default: HOST:PORT of this node's URL in --member]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN")]
    pub(crate) listen: Option<String>,

    /// Where to listen for the other nodes [default: this node's address in --member]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_PEER_LISTEN")]
    pub(crate) peer_listen: Option<String>,

    /// A separate address that serves only /livez, /readyz and /metrics, so that clients cannot use up its connections
    /// [default: none]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN_STATUS")]
    pub(crate) listen_status: Option<String>,

    /// Another host name that browsers use for this cluster, such as that of a proxy. If you set one, the Host header of every
    /// request must be an IP address, localhost, a member's host or such a name [default: only web pages are checked, and only
    /// against the first three]
    #[arg(long, value_name = "NAME", env = "FAIRHOLD_ALLOWED_HOST", value_delimiter = ' ')]
    pub(crate) allowed_host: Vec<String>,

    /// The file with the key that the nodes share to authenticate each other: the same on every node, readable only by its owner,
    /// a line of at least 32 bytes. During a key rotation it has several lines: the node proves itself with the first and accepts
    /// all. The node reloads the file when it changes [default: none; then --peer-listen must be a loopback address]
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_PEER_KEY_FILE")]
    pub(crate) peer_key_file: Option<PathBuf>,

    /// Accept unauthenticated connections from other nodes if there is no --peer-key-file: use this only behind a firewall that
    /// admits nobody but the nodes
    #[arg(long, env = "FAIRHOLD_INSECURE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) insecure: bool,

    /// The limit on client connections; lowered at the start if the limit on open files is too low for it [default: one for
    /// each 256 KiB of memory, up to 10000]
    #[arg(long, value_name = "N", env = "FAIRHOLD_CONNECTIONS_MAX", value_parser = connections())]
    pub(crate) connections_max: Option<u32>,

    /// The limit on client connections from one address; a proxy counts as one address [default: an eighth of
    /// --connections-max]
    #[arg(long, value_name = "N", env = "FAIRHOLD_CONNECTIONS_PER_ADDRESS_MAX", value_parser = connections())]
    pub(crate) connections_per_address_max: Option<u32>,

    /// How many bytes of recent events to keep for watches: a watch that falls further behind must start again, also after a
    /// reconnect [default: a 32nd of the memory, up to 64 MiB]
    #[arg(long, value_name = "BYTES", env = "FAIRHOLD_EVENT_RING_BYTES")]
    pub(crate) event_ring_bytes: Option<u64>,

    /// How many bytes of state this node can hold. The smallest value of all nodes is the cluster's budget: beyond it, the
    /// cluster refuses requests that create something [default: an eighth of the memory of the machine, or of the cgroup]
    #[arg(long, value_name = "BYTES", env = "FAIRHOLD_STATE_BYTES_MAX")]
    pub(crate) state_bytes_max: Option<u64>,

    /// What to log, by module and level, such as `info,fairhold_raft=debug` [default: info,openraft=error]
    #[arg(long, value_name = "FILTER", env = "FAIRHOLD_LOG")]
    pub(crate) log: Option<String>,

    /// The file with the administrators' token, which calls for administrators then require: to break locks, or end sessions by
    /// number. The node reloads the file when it changes [default: anyone who can reach the port may make these calls]
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_ADMIN_TOKEN_FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// End when standard input ends, which it does when the process that holds its other end is gone
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

/// A number of connections: at least one.
fn connections() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..)
}

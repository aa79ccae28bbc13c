//! The command line as it is typed. What it means, with environment, file and defaults, is `config.rs`.

use crate::{
    bench::BenchArgs,
    cluster::ClusterArgs,
    completions::CompletionsArgs,
    config_show::ConfigCommand,
    elections::ElectionsArgs,
    grants::GrantsArgs,
    lock::{ExecArgs, LONG_ABOUT, LockArgs, SEM_AFTER_HELP, SupervisorArgs, elect::ElectArgs},
    locks::LocksArgs,
    node::NodeArgs,
    sessions::SessionsArgs,
    top::TopArgs,
    txn::TxnArgs,
    watch::WatchArgs,
};
use clap::{Parser, Subcommand, value_parser};
use fairhold_types::NodeId;
use std::path::PathBuf;

/// Fair locks and coordination on three or five nodes.
#[derive(Debug, Parser)]
#[command(name = "fairhold", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one node. Start every node with the same members: the cluster forms by itself
    Serve(ServeArgs),
    /// Run a whole cluster of real processes on this machine, to try it out
    Dev(DevArgs),
    /// Run a command while holding a lock
    #[command(long_about = LONG_ABOUT)]
    Lock(Box<LockArgs>),
    /// Run a command while leading an election
    Elect(Box<ElectArgs>),
    /// Run a command while holding permits of a semaphore: `lock` with a limit
    #[command(mut_arg("limit", |limit| limit.required(true)), after_help = SEM_AFTER_HELP)]
    Sem(Box<LockArgs>),
    /// List locks, show holders and waiters, and break a lock
    Locks(LocksArgs),
    /// Acquire, renew, upgrade, downgrade and release a grant: for scripts that hold it over several commands
    Grants(GrantsArgs),
    /// Show or follow the leader of an election, and proclaim another value
    Elections(ElectionsArgs),
    /// List, show, open, keep alive and end sessions
    Sessions(SessionsArgs),
    /// Read and write the tree of nodes
    Node(NodeArgs),
    /// Check conditions and write several nodes in one step
    Txn(TxnArgs),
    /// Follow what happens
    Watch(WatchArgs),
    /// Show locks, queues and nodes live on the terminal
    Top(TopArgs),
    /// Show the cluster and its members
    Cluster(ClusterArgs),
    /// Check the health of a cluster and suggest fixes
    Doctor(DoctorArgs),
    /// Measure the throughput and latency of a cluster
    Bench(BenchArgs),
    /// Show or check the configuration of `serve`
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(after_help = "Example:
  fairhold man > fairhold.1")]
    Man,
    /// Between `lock` and the command
    #[command(hide = true)]
    LockSupervisor(SupervisorArgs),
    /// Before the command
    #[command(hide = true)]
    LockExec(ExecArgs),
    /// Print the version of this program, and of the formats that it uses on disk and between nodes
    #[command(after_help = "Example:
  fairhold version")]
    Version,
}

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

/// What `dev` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fairhold dev                            three nodes, on the ports 7171 to 7173
  fairhold dev --nodes 5 --dir ./data --demo")]
pub(crate) struct DevArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u16).range(1..=5))]
    pub(crate) nodes: u16,

    /// Keep the nodes' data here [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// The first node's port for clients; the other nodes use the following ports, and the peer ports are 100 higher
    #[arg(long, value_name = "PORT", default_value_t = 7171, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// The file with the administrators' token, for every node
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Let a few clients queue for locks, and show them live
    #[arg(long)]
    pub(crate) demo: bool,

    /// Do not restart a node that died [default: restart it after 2 s]
    #[arg(long)]
    pub(crate) no_restart: bool,
}

/// What `doctor` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 nothing failed (there may be warnings), 1 something failed, 69 nothing answered.

Example:
  fairhold doctor -e http://n1:7171,http://n2:7171,http://n3:7171")]
pub(crate) struct DoctorArgs {
    /// A node's URL for clients; one is enough to find the others, but with all of them doctor can tell you more
    #[arg(
        short,
        long,
        value_name = "URL",
        env = "FAIRHOLD_ENDPOINT",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7171"
    )]
    pub(crate) endpoint: Vec<String>,

    /// How long a node may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = fairhold_types::duration::parse)]
    pub(crate) timeout: std::time::Duration,

    /// The output format
    #[arg(short, long, value_enum, default_value_t = DoctorOutput::Table)]
    pub(crate) output: DoctorOutput,
}

/// How `doctor` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DoctorOutput {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Args::try_parse_from(line.split(' ')).map(|args| args.command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_script_of_the_checkout_passes_on_each_command() {
        let script = std::fs::read_to_string("../../fairhold").unwrap();
        let line = script.lines().find_map(|line| line.strip_prefix("commands=\"")).unwrap();
        let shown: Vec<String> =
            Args::command().get_subcommands().filter(|one| !one.is_hide_set()).map(|one| one.get_name().to_owned()).collect();
        assert_eq!(line.trim_end_matches('"').split(' ').collect::<Vec<_>>(), shown);
    }

    #[test]
    fn serve_takes_several_members() {
        let line = "fairhold serve --id 1 --data d --member 1=http://a:1,a:2 --member 2=http://b:1,b:2";
        let Ok(Command::Serve(args)) = parse(line) else { panic!("not understood: {line}") };
        assert_eq!((args.id, args.member.len(), args.exit_with_parent), (Some(1), 2, false));
    }

    #[test]
    fn dev_has_defaults_and_limits() {
        let Ok(Command::Dev(args)) = parse("fairhold dev") else { panic!("not understood") };
        assert_eq!((args.nodes, args.port, args.demo, args.no_restart, args.dir), (3, 7171, false, false, None));
        for line in ["fairhold dev --nodes 0", "fairhold dev --nodes 6", "fairhold dev --port 0", "fairhold dev --port 65536"] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_usage_error() {
        for line in ["fairhold", "fairhold serv", "fairhold serve --idd 1", "fairhold serve --id 0", "fairhold version x"] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}

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
    /// List locks, show who holds and who waits, break one
    Locks(LocksArgs),
    /// Take a grant, renew, upgrade, downgrade and release it: for scripts that hold one over several commands
    Grants(GrantsArgs),
    /// Show and follow who leads an election, proclaim another value
    Elections(ElectionsArgs),
    /// List sessions, show what one owns, open one and keep it alive, end one
    Sessions(SessionsArgs),
    /// Read and write the tree of nodes
    Node(NodeArgs),
    /// Check conditions and write several nodes in one step
    Txn(TxnArgs),
    /// Follow what happens
    Watch(WatchArgs),
    /// Show locks, queues and nodes on the terminal, live
    Top(TopArgs),
    /// Show the cluster and its members
    Cluster(ClusterArgs),
    /// Look whether a cluster is well, and say what to do where it is not
    Doctor(DoctorArgs),
    /// Measure how much a cluster does, and how long it takes
    Bench(BenchArgs),
    /// Show or check what `serve` would run with
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
    /// Print the version of this program and of all that it writes to disk and to other nodes
    #[command(after_help = "Example:
  fairhold version")]
    Version,
}

/// What `serve` was told by flags and environment.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Where a value is given more than once: flag, then environment, then --config, then default.

Example, the same on every machine but for --id:
  fairhold serve --id 1 --data data --peer-key-file peer.key --member 1=http://a:7171,a:7271 --member 2=http://b:7171,b:7271")]
pub(crate) struct ServeArgs {
    /// Take what is not given here from this TOML file; it has the same names as the flags
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// The number of this node, one of those in --member
    #[arg(long, value_name = "N", env = "FAIRHOLD_ID", value_parser = value_parser!(u64).range(1..))]
    pub(crate) id: Option<NodeId>,

    /// The directory in which this node keeps its log, its vote and its snapshots
    #[arg(long, value_name = "DIR", env = "FAIRHOLD_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// A node of the cluster: number, URL for clients, address for the other nodes. Once for each, this one included;
    /// several in one value are parted by spaces
    #[arg(long, value_name = "N=http://HOST:PORT,HOST:PORT", env = "FAIRHOLD_MEMBER")]
    pub(crate) member: Vec<String>,

    /// Where to listen for clients [default: HOST:PORT of this node's URL in --member]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN")]
    pub(crate) listen: Option<String>,

    /// Where to listen for the other nodes [default: this node's address in --member]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_PEER_LISTEN")]
    pub(crate) peer_listen: Option<String>,

    /// Where to answer /livez, /readyz and /metrics besides, and nothing else: clients cannot fill it [default: nowhere]
    #[arg(long, value_name = "HOST:PORT", env = "FAIRHOLD_LISTEN_STATUS")]
    pub(crate) listen_status: Option<String>,

    /// A name by which browsers reach this cluster, a proxy's or a load balancer's, besides the members' hosts. Where one is
    /// given, every request must name an address, localhost, a member's host or such a name in its Host [default: web pages
    /// of those three, and programs whatever Host they name]
    #[arg(long, value_name = "NAME", env = "FAIRHOLD_ALLOWED_HOST", value_delimiter = ' ')]
    pub(crate) allowed_host: Vec<String>,

    /// The key by which the nodes of this cluster know one another: a file that only its owner may read, the same on every
    /// node, with a line of at least 32 bytes. Further lines are accepted too, while a key is exchanged. It is read again when
    /// it changes. [default: none, and then only loopback addresses for --peer-listen]
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_PEER_KEY_FILE")]
    pub(crate) peer_key_file: Option<PathBuf>,

    /// Believe whoever reaches the port for the other nodes, where there is no --peer-key-file: only behind a firewall that lets
    /// nobody but the nodes through
    #[arg(long, env = "FAIRHOLD_INSECURE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) insecure: bool,

    /// How many connections of clients to take, where this process may have so many open [default: one for each
    /// 256 KiB of memory, up to 10000]
    #[arg(long, value_name = "N", env = "FAIRHOLD_CONNECTIONS_MAX", value_parser = connections())]
    pub(crate) connections_max: Option<u32>,

    /// How many of those from one address: a proxy in front is one address [default: an eighth of them]
    #[arg(long, value_name = "N", env = "FAIRHOLD_CONNECTIONS_PER_ADDRESS_MAX", value_parser = connections())]
    pub(crate) connections_per_address_max: Option<u32>,

    /// How many bytes of events to keep for those who watch: one who falls further behind has to begin again, also after a
    /// reconnect [default: a 32nd of the memory, up to 64 MiB]
    #[arg(long, value_name = "BYTES", env = "FAIRHOLD_EVENT_RING_BYTES")]
    pub(crate) event_ring_bytes: Option<u64>,

    /// How large a state this node can hold, as the state counts itself. The least of what all nodes say is the budget of the
    /// cluster: beyond it, what creates something is refused [default: an eighth of the memory of the machine, or of the cgroup]
    #[arg(long, value_name = "BYTES", env = "FAIRHOLD_STATE_BYTES_MAX")]
    pub(crate) state_bytes_max: Option<u64>,

    /// What to log, by module and level, as in `info,fairhold_raft=debug` [default: info,openraft=error]
    #[arg(long, value_name = "FILTER", env = "FAIRHOLD_LOG")]
    pub(crate) log: Option<String>,

    /// Whoever shows the token in this file may do what is for administrators: break locks, end sessions by number. It is read
    /// again when it changes. [default: all who reach the port may]
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

    /// The first node's port for clients; the next nodes have the ports after it, and peers speak on the ports 100 above
    #[arg(long, value_name = "PORT", default_value_t = 7171, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// Give every node this file with the administrators' token
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Let a few clients queue for locks, and show it live
    #[arg(long)]
    pub(crate) demo: bool,

    /// Leave a node that died as it is; else it is started again after 2 s
    #[arg(long)]
    pub(crate) no_restart: bool,
}

/// What `doctor` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 nothing failed (there may be warnings), 1 something failed, 69 nothing answered.

Example:
  fairhold doctor -e http://n1:7171,http://n2:7171,http://n3:7171")]
pub(crate) struct DoctorArgs {
    /// A node's URL for clients; one is enough to find the others, and with all of them more can be said
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

    /// How to write what was found
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

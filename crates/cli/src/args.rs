//! The command line as typed. `config.rs` resolves it with the environment, the configuration file and defaults.

use crate::{
    access::{AccessArgs, roles::RolesArgs, tenants::TenantsArgs, tokens::TokensArgs, users::UsersArgs},
    acts::ActsArgs,
    backup::BackupArgs,
    bench::BenchArgs,
    cert::CertArgs,
    cluster::ClusterArgs,
    completions::CompletionsArgs,
    config_show::ConfigCommand,
    dev::args::DevArgs,
    doctor::args::DoctorArgs,
    elections::ElectionsArgs,
    grants::GrantsArgs,
    lock::{ExecArgs, LONG_ABOUT, LockArgs, SEM_AFTER_HELP, SupervisorArgs, elect::ElectArgs},
    locks::LocksArgs,
    node::NodeArgs,
    serve::args::ServeArgs,
    sessions::SessionsArgs,
    top::TopArgs,
    txn::TxnArgs,
    ui::UiArgs,
    watch::WatchArgs,
};
use clap::{Parser, Subcommand};

/// Fair locks and coordination on three or five nodes.
#[derive(Debug, Parser)]
#[command(name = "fairhold", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one node, which forms a cluster with the nodes in --member, or joins one with a join token
    Serve(Box<ServeArgs>),
    /// Run a trial cluster of real processes on this machine
    Dev(DevArgs),
    /// Run a command while holding a lock
    #[command(long_about = LONG_ABOUT)]
    Lock(Box<LockArgs>),
    /// Run a command while leading an election
    Elect(Box<ElectArgs>),
    /// Run a command while holding permits of a semaphore: `lock` with a required --limit
    #[command(mut_arg("limit", |limit| limit.required(true)), after_help = SEM_AFTER_HELP)]
    Sem(Box<LockArgs>),
    /// List locks, show holders and waiters, break a lock
    Locks(LocksArgs),
    /// List grants; acquire, renew, upgrade, downgrade and release one that outlives one command
    Grants(GrantsArgs),
    /// List elections, show or watch the leader of one, proclaim a new value
    Elections(ElectionsArgs),
    /// List, show, open, keep alive and end sessions
    Sessions(SessionsArgs),
    /// Read and write the tree of nodes
    Node(NodeArgs),
    /// Check conditions and write several nodes in one transaction
    Txn(TxnArgs),
    /// Print changes of nodes, locks and sessions as they happen
    Watch(WatchArgs),
    /// Show nodes, locks and queues live in the terminal
    Top(TopArgs),
    /// Print the address of the dashboard
    Ui(UiArgs),
    /// Show and change the cluster: members, join tokens, leadership, settings, snapshots, upgrades
    Cluster(ClusterArgs),
    /// Show and switch access rights, check them, give roles to users
    Access(AccessArgs),
    /// List, show, write and remove roles
    Roles(RolesArgs),
    /// List, disable and enable users
    Users(UsersArgs),
    /// Create, list and revoke the tokens of users
    Tokens(TokensArgs),
    /// List and export the administrative acts, and verify an export
    Audit(ActsArgs),
    /// List, show, write and remove tenants, with their quotas
    Tenants(TenantsArgs),
    /// Save, show, verify and restore backups
    Backup(BackupArgs),
    /// Check the health of a cluster and suggest fixes
    Doctor(DoctorArgs),
    /// Measure the throughput and latency of a cluster
    Bench(BenchArgs),
    /// Make, show and renew certificates for nodes and clients, offline
    Cert(CertArgs),
    /// Show or check the configuration of `serve`
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(after_help = "Example:
  fairhold man > fairhold.1")]
    Man,
    /// Supervise the command of `lock`
    #[command(hide = true)]
    LockSupervisor(SupervisorArgs),
    /// Become the command of `lock`
    #[command(hide = true)]
    LockExec(ExecArgs),
    /// Print the versions of this program and of its disk and network formats
    #[command(after_help = "Example:
  fairhold version")]
    Version,
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
    fn every_help_text_is_one_short_line_without_a_period() {
        fn check(command: &clap::Command) {
            let of_arguments = command.get_arguments().filter_map(clap::Arg::get_help);
            for help in of_arguments.chain(command.get_about()).map(ToString::to_string) {
                assert!(help.chars().count() <= 100 && !help.ends_with('.'), "{}: {help}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        Args::command().get_subcommands().for_each(check);
    }

    #[test]
    fn the_checkout_script_forwards_every_command() {
        let script = std::fs::read_to_string("../../fairhold").unwrap();
        let line = script.lines().find_map(|line| line.strip_prefix("commands=\"")).unwrap();
        let shown: Vec<String> =
            Args::command().get_subcommands().filter(|one| !one.is_hide_set()).map(|one| one.get_name().to_owned()).collect();
        assert_eq!(line.trim_end_matches('"').split(' ').collect::<Vec<_>>(), shown);
    }

    #[test]
    fn serve_takes_several_members() {
        let line = "fairhold serve --id 1 --data d --member 1=http://a:1,a:2 --member 2=http://b:1,b:2";
        let Ok(Command::Serve(args)) = parse(line) else { panic!("not parsed: {line}") };
        assert_eq!((args.id, args.member.len(), args.exit_with_parent), (Some(1), 2, false));
    }

    #[test]
    fn dev_has_defaults_and_limits() {
        let Ok(Command::Dev(args)) = parse("fairhold dev") else { panic!("not parsed") };
        assert_eq!((args.nodes, args.port, args.demo, args.no_restart, args.dir), (3, 7171, false, false, None));
        for line in ["fairhold dev --nodes 0", "fairhold dev --nodes 6", "fairhold dev --port 0", "fairhold dev --port 65536"] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn unknown_commands_and_options_are_usage_errors() {
        let high = "fairhold serve --id 18446744073709551615";
        for line in ["fairhold", "fairhold serv", "fairhold serve --idd 1", "fairhold serve --id 0", high, "fairhold version x"] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}

//! `fairhold cluster`: the state of a node, the members and their changes, and other calls for administrators.

mod alarms;
mod join_tokens;
mod members;
pub(crate) mod older_program;
mod replace;
mod settings;
mod token_file;
mod upgrade;

use crate::{
    probe,
    remote::{
        self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell},
    },
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_types::NodeId;
use join_tokens::{InviteArgs, TokensCommand};
use members::SetMemberArgs;
use replace::ReplaceArgs;
use serde_json::Value;
use settings::Setting;
use std::{process::ExitCode, time::Duration};
use upgrade::UpgradeCommand;

/// How long the probe of the nodes may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the node that answers: role, term, leader, revision
    #[command(after_help = "Example:
  fairhold cluster status -e http://n2:7171")]
    Status {
        /// Add a digest of the node's whole state, which is equal on all nodes at the same revision
        ///
        /// To compute it, the node reads its whole state.
        #[arg(long)]
        digest: bool,
    },
    /// List the members, each with its own answer, and the joins and removals that are under way
    #[command(after_help = "Example:
  fairhold cluster members --removed

Only the leader knows LAG and SILENT FOR. Joins and removals that wait have tables of their own, if there are any.")]
    Members {
        /// List the removed nodes too, the last 1000 of them
        #[arg(long)]
        removed: bool,
    },
    /// Create a join token, with which a new node joins the cluster (for administrators)
    #[command(after_help = "Examples:
  fairhold cluster invite --out join.token --auth-token-file admin
  fairhold cluster invite --learner --ttl 10m --auth-token-file admin
  fairhold cluster invite --standing --up-to 5 --out standing.token --auth-token-file admin

A join token is a secret: until it is used or expires, it admits a node to the cluster.")]
    Invite(InviteArgs),
    /// List the join tokens, without their secrets, or revoke one
    #[command(after_help = "Example:
  fairhold cluster tokens")]
    Tokens {
        #[command(subcommand)]
        command: Option<TokensCommand>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Replace a member by a new node: print a join token, show the progress (for administrators)
    #[command(
        override_usage = "fairhold cluster replace [OPTIONS] <ID>",
        after_help = "Example:
  fairhold cluster replace 2 --out join.token --auth-token-file admin

The old machine may be dead. The new node gets a new number, and the place of the old one in one step, when it has caught up.
If you stop this command, the replacement continues."
    )]
    Replace(ReplaceArgs),
    /// Remove a member from the cluster, or give up a join (for administrators)
    #[command(
        override_usage = "fairhold cluster remove [OPTIONS] <ID>",
        after_help = "Example:
  fairhold cluster remove 5 --auth-token-file admin

A leader transfers the leadership first. The cluster refuses a removal after which too few of the other voters are healthy."
    )]
    Remove {
        /// Number of the member
        id: NodeId,
    },
    /// Make a learner a voter, when it has caught up (for administrators)
    #[command(
        override_usage = "fairhold cluster promote [OPTIONS] <ID>",
        after_help = "Example:
  fairhold cluster promote 4 --auth-token-file admin"
    )]
    Promote {
        /// Number of the learner
        id: NodeId,
    },
    /// Make a voter a learner (for administrators)
    #[command(
        override_usage = "fairhold cluster demote [OPTIONS] <ID>",
        after_help = "Example:
  fairhold cluster demote 4 --auth-token-file admin"
    )]
    Demote {
        /// Number of the voter
        id: NodeId,
    },
    /// Change the addresses, the priority or the zone of a member (for administrators)
    #[command(after_help = "Examples:
  fairhold cluster set-member 3 --url http://e:7171 --peer e:7271 --auth-token-file admin
  fairhold cluster set-member 3 --priority 80 --zone eu-1 --auth-token-file admin

Before the leader accepts a new address for the other nodes, it checks that the member answers there, and no copy of it.
--force skips that only if no node answers. Nobody checks the URL. A member that leads hands over first.")]
    SetMember(SetMemberArgs),
    /// Show the settings of the cluster
    #[command(after_help = "Example:
  fairhold cluster settings")]
    Settings {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Change a setting of the cluster (for administrators)
    #[command(after_help = "Example:
  fairhold cluster set timing=wan --auth-token-file admin

The timing profiles are lan, metro, wan and global. A node uses another profile from its next start on.
The leader refuses a profile that is too fast for the round trips that it has measured. --force sets it all the same.")]
    Set {
        /// Setting and new value, such as timing=wan
        #[arg(value_name = "KEY=VALUE", value_parser = settings::parse)]
        setting: Setting,
        /// Set the profile even if the round trips between the voters are too long for it
        #[arg(long)]
        force: bool,
    },
    /// Show the round trips between the nodes, the timing profile, and the one that fits
    #[command(after_help = "Example:
  fairhold cluster timing")]
    Timing,
    /// Show the alarms that the nodes raise now: exit with 0 if there is none, 1 if there is one
    #[command(after_help = "Example:
  fairhold cluster alarms -o json

Each node knows only a part, so this asks every member. An alarm is gone when its cause is: docs/alarms.md says what to do.")]
    Alarms,
    /// Check whether the node can serve: exit with 0 if it can, 69 if it cannot
    #[command(after_help = "Example:
  fairhold cluster ready -e http://n2:7171 --timeout 1s")]
    Ready,
    /// Print the metrics of the node in the Prometheus text format
    #[command(after_help = "Example:
  fairhold cluster metrics -e http://n2:7171 | grep fairhold_leader")]
    Metrics,
    /// Print the OpenAPI 3.1 description of the node's HTTP API
    #[command(after_help = "Example:
  fairhold cluster openapi > openapi.json")]
    Openapi,
    /// Transfer the leadership to another member (for administrators)
    #[command(after_help = "Example:
  fairhold cluster transfer-leader 2 --auth-token-file admin")]
    TransferLeader {
        /// Number of the new leader
        to: u64,
    },
    /// Take a snapshot of the node's state (for administrators)
    #[command(after_help = "Example:
  fairhold cluster snapshot -e http://n2:7171 --auth-token-file admin")]
    Snapshot,
    /// Show or finalize the upgrade of the cluster to its next version
    #[command(subcommand)]
    Upgrade(UpgradeCommand),
}

/// Runs the command.
pub(crate) fn main(args: &ClusterArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &ClusterArgs) -> Result<(), Failure> {
    let remote = &args.remote;
    let order = |path: &str| ApiRequest::change(Method::POST, format!("/v1/cluster/{path}"));
    let request = match &args.command {
        ClusterCommand::Status { digest } => ApiRequest::get("/v1/cluster").flag("digest", *digest),
        ClusterCommand::Ready => ApiRequest::get("/readyz").flag("verbose", true),
        ClusterCommand::Metrics => ApiRequest::get("/metrics"),
        ClusterCommand::Openapi => ApiRequest::get("/openapi.json"),
        ClusterCommand::TransferLeader { to } => order("leader").parameter("to", Some(to)),
        ClusterCommand::Snapshot => order("snapshot"),
        ClusterCommand::Members { removed } => return members::list(api, *removed, remote).await,
        ClusterCommand::Invite(invite) => return join_tokens::invite(api, invite, remote).await,
        ClusterCommand::Tokens { command: None, read } => return join_tokens::list(api, read, remote.output).await,
        ClusterCommand::Tokens { command: Some(TokensCommand::Revoke { number }), .. } => {
            return join_tokens::revoke_and_report(api, *number, remote).await;
        }
        ClusterCommand::Replace(replace) => return replace::run(api, replace, remote).await,
        ClusterCommand::Remove { id } => return members::remove(api, *id, remote).await,
        ClusterCommand::Promote { id } => return members::set_voter(api, *id, true, remote).await,
        ClusterCommand::Demote { id } => return members::set_voter(api, *id, false, remote).await,
        ClusterCommand::SetMember(member) => return members::set(api, member, remote).await,
        ClusterCommand::Settings { read } => return settings::show(api, read, remote).await,
        ClusterCommand::Set { setting, force } => return settings::set(api, *setting, *force, remote).await,
        ClusterCommand::Timing => return settings::timing(api, remote).await,
        ClusterCommand::Alarms => return alarms::show(api, remote).await,
        ClusterCommand::Upgrade(command) => return upgrade::run(api, command, remote).await,
    };
    print(api, &request, args).await
}

/// Makes a call, and prints the fields of its answer.
async fn print(api: &Api, request: &ApiRequest, args: &ClusterArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    let reply = api.call(request).await?;
    if requested == Some(OutputFormat::Json) || matches!(args.command, ClusterCommand::Metrics | ClusterCommand::Openapi) {
        return format::write_body(&reply);
    }
    let cluster: Value = reply.read()?;
    if requested == Some(OutputFormat::Ndjson) {
        return format::write_line(&cluster);
    }
    if matches!(args.command, ClusterCommand::Status { .. }) && OutputFormat::resolve(requested) == OutputFormat::Table {
        let connect = &args.remote.connect;
        let client = crate::local_http::probe_client(connect, PROBE_TIMEOUT.min(api.timeout()))?;
        let seen = probe::brief(&client, &connect.endpoint).await;
        format::write(&format!("{}\n\n", seen.summary()))?;
    }
    let mut table = Table::new(&["FIELD", "VALUE"]);
    for name in cluster.as_object().into_iter().flatten().map(|(name, _)| name).filter(|name| *name != "members") {
        table.row(vec![name.clone(), cell(&cluster, name)]);
    }
    format::write(&table.take(OutputFormat::resolve(requested)))
}

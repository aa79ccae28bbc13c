//! `fairhold cluster`: how the cluster is, and who its members are.

use crate::remote::{
    self, Api, Failure, RemoteArgs, Request,
    form::{self, Form, Table, cell},
};
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;
use std::process::ExitCode;

/// What `cluster` was told.
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
        /// Add a digest of the node's whole state: equal on all nodes at the same revision. The node reads all of its state for
        /// it
        #[arg(long)]
        digest: bool,
    },
    /// List the members, with how far each is behind
    #[command(after_help = "Example:
  fairhold cluster members")]
    Members,
    /// Check whether the node can serve: exits with 0 if it can, 69 if it cannot
    #[command(after_help = "Example:
  fairhold cluster ready -e http://n2:7171 --timeout 1s")]
    Ready,
    /// Print the metrics of the node, in the text format of Prometheus
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
        /// Its id
        to: u64,
    },
    /// Take a snapshot of the node's state now (for administrators)
    #[command(after_help = "Example:
  fairhold cluster snapshot -e http://n2:7171 --auth-token-file admin")]
    Snapshot,
}

/// Asks and writes.
pub(crate) fn main(args: &ClusterArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &ClusterArgs) -> Result<(), Failure> {
    let asked = args.remote.output;
    let order = |path: &str| Request::change(Method::POST, format!("/v1/cluster/{path}"));
    let request = match &args.command {
        ClusterCommand::Status { digest } => Request::get("/v1/cluster").flag("digest", *digest),
        ClusterCommand::Members => Request::get("/v1/cluster"),
        ClusterCommand::Ready => Request::get("/readyz").flag("verbose", true),
        ClusterCommand::Metrics => Request::get("/metrics"),
        ClusterCommand::Openapi => Request::get("/openapi.json"),
        ClusterCommand::TransferLeader { to } => order("leader").parameter("to", Some(to)),
        ClusterCommand::Snapshot => order("snapshot"),
    };
    let reply = api.call(&request).await?;
    if asked == Some(Form::Json) || matches!(args.command, ClusterCommand::Metrics | ClusterCommand::Openapi) {
        return form::write_body(&reply);
    }
    let cluster: Value = reply.read()?;
    match &args.command {
        ClusterCommand::Metrics
        | ClusterCommand::Openapi
        | ClusterCommand::Ready
        | ClusterCommand::Status { .. }
        | ClusterCommand::TransferLeader { .. }
        | ClusterCommand::Snapshot => {
            if asked == Some(Form::Ndjson) {
                return form::write_line(&cluster);
            }
            let mut table = Table::new(&["FIELD", "VALUE"]);
            for name in cluster.as_object().into_iter().flatten().map(|(name, _)| name).filter(|name| *name != "members") {
                table.row(vec![name.clone(), cell(&cluster, name)]);
            }
            form::write(&table.take(Form::of(asked)))
        }
        ClusterCommand::Members => {
            let mut table = Table::new(&["ID", "ROLE", "URL", "PEER", "LAG", "SILENT FOR"]);
            for member in cluster["members"].as_array().into_iter().flatten() {
                if asked == Some(Form::Ndjson) {
                    form::write_line(member)?;
                }
                let cells = ["id", "role", "url", "peer", "lag", "silent_for"].map(|field| cell(member, field));
                table.row(cells.to_vec());
            }
            if asked == Some(Form::Ndjson) { Ok(()) } else { form::write(&table.take(Form::of(asked))) }
        }
    }
}

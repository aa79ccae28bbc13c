//! `fairhold cluster`: the state of a node, the members, and calls for administrators.

use crate::{
    output,
    probe::{ClusterProbe, Row},
    remote::{
        self, Api, ApiRequest, Failure, RemoteArgs,
        format::{self, OutputFormat, Table, cell, rounded},
    },
};
use clap::Subcommand;
use fairhold_client::Method;
use serde_json::Value;
use std::{process::ExitCode, time::Duration};
use tokio::time::{Instant, sleep};

/// How long one probe of the nodes may take, and the pause before the next.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);

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
    /// List the members, each with its own answer, and how far they are behind the leader
    #[command(after_help = "Example:
  fairhold cluster members")]
    Members,
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
}

/// Runs the command.
pub(crate) fn main(args: &ClusterArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &ClusterArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    if matches!(args.command, ClusterCommand::Members) {
        return members(api, args).await;
    }
    let order = |path: &str| ApiRequest::change(Method::POST, format!("/v1/cluster/{path}"));
    let request = match &args.command {
        ClusterCommand::Status { digest } => ApiRequest::get("/v1/cluster").flag("digest", *digest),
        ClusterCommand::Members => return members(api, args).await,
        ClusterCommand::Ready => ApiRequest::get("/readyz").flag("verbose", true),
        ClusterCommand::Metrics => ApiRequest::get("/metrics"),
        ClusterCommand::Openapi => ApiRequest::get("/openapi.json"),
        ClusterCommand::TransferLeader { to } => order("leader").parameter("to", Some(to)),
        ClusterCommand::Snapshot => order("snapshot"),
    };
    let reply = api.call(&request).await?;
    if requested == Some(OutputFormat::Json) || matches!(args.command, ClusterCommand::Metrics | ClusterCommand::Openapi) {
        return format::write_body(&reply);
    }
    let cluster: Value = reply.read()?;
    if requested == Some(OutputFormat::Ndjson) {
        return format::write_line(&cluster);
    }
    if matches!(args.command, ClusterCommand::Status { .. }) && OutputFormat::resolve(requested) == OutputFormat::Table {
        let seen = ClusterProbe::brief(&args.remote.connect.endpoint, PROBE_TIMEOUT.min(api.timeout())).await;
        format::write(&format!("{}\n\n", seen.summary()))?;
    }
    let mut table = Table::new(&["FIELD", "VALUE"]);
    for name in cluster.as_object().into_iter().flatten().map(|(name, _)| name).filter(|name| *name != "members") {
        table.row(vec![name.clone(), cell(&cluster, name)]);
    }
    format::write(&table.take(OutputFormat::resolve(requested)))
}

/// Asks every member: what one node reports about another may be stale.
async fn members(api: &Api, args: &ClusterArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    let until = Instant::now() + api.timeout();
    let seen = loop {
        let seen = ClusterProbe::brief(&args.remote.connect.endpoint, PROBE_TIMEOUT.min(api.timeout())).await;
        if !seen.nodes().is_empty() || Instant::now() >= until {
            break seen;
        }
        sleep(PAUSE).await;
    };
    // If no node answers, this call fails with the reason.
    let best = seen.best_urls();
    let api = if best.is_empty() { api.clone() } else { api.at(best) };
    if OutputFormat::is_body(requested) {
        let reply = api.call(&ApiRequest::get("/v1/cluster")).await?;
        if requested == Some(OutputFormat::Json) {
            return format::write_body(&reply);
        }
        let cluster: Value = reply.read()?;
        return cluster["members"].as_array().into_iter().flatten().try_for_each(format::write_line);
    }
    if seen.nodes().is_empty() {
        return api.call(&ApiRequest::get("/v1/cluster")).await.map(|_| ());
    }
    let mut table = Table::new(&["ID", "ROLE", "URL", "PEER", "LAG", "SILENT FOR", "ANSWERS"]);
    for Row { id, url, peer, role, lag, silent_for } in seen.member_rows() {
        let (role, answers) = role.map_or_else(|why| ("-".to_owned(), format!("no: {why}")), |role| (role, "yes".to_owned()));
        let dash = || "-".to_owned();
        let lag = lag.map_or_else(dash, |lag| lag.to_string());
        table.row(vec![id.to_string(), role, url, peer, lag, silent_for.map_or_else(dash, |time| rounded(&time)), answers]);
    }
    format::write(&table.take(OutputFormat::resolve(requested)))?;
    if seen.leader().is_none() && !args.remote.connect.quiet {
        output::note("no leader answers: only the leader knows the LAG and SILENT FOR of the others");
    }
    Ok(())
}

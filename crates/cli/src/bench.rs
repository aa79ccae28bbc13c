//! `fairhold bench`: measures throughput and latency of a cluster.
//!
//! Each workload is a file. `measure` drives the clients and records times, `wire` speaks HTTP, `report` prints the
//! figures.

mod contended;
mod dashboard;
mod failover;
mod grants;
mod kv;
mod load;
mod lock;
mod log;
mod measure;
mod profile;
mod progress;
mod report;
mod servers;
mod sessions;
mod target;
mod watch;
mod wire;

use self::{load::LoadArgs, report::written, target::Target};
use crate::remote::{Failure, RemoteArgs};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Times are in milliseconds. The benchmark writes locks and nodes whose names start with bench/ to the cluster.\n\
                  At the end nobody holds its locks, and the cluster forgets them later."
)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Acquire and release locks, one for each client
    #[command(after_help = "Examples:
  fairhold bench lock -c 64
  fairhold bench lock -c 1 --profile     with the parts of a cycle")]
    Lock(lock::LockArgs),
    /// Acquire one lock in turn, to measure how often it changes hands and how long clients wait
    #[command(after_help = "Example:
  fairhold bench contended -c 128")]
    Contended(LoadArgs),
    /// Write or read nodes of the tree
    #[command(after_help = "Example:
  fairhold bench kv --operation read -c 64")]
    Kv(kv::KvArgs),
    /// Open sessions and keep them alive, to measure what they cost
    #[command(after_help = "Example:
  fairhold bench sessions --sessions 100000")]
    Sessions(sessions::SessionsArgs),
    /// Write without a pause, to measure outages while you inject faults
    #[command(after_help = "Example:
  fairhold bench failover --seconds 30")]
    Failover(LoadArgs),
    /// Write while many clients watch, to measure when they see each write
    #[command(after_help = "Example:
  fairhold bench watch -c 1000 --rate 100")]
    Watch(LoadArgs),
    /// Open dashboards that make the calls of a page, to measure what they cost
    #[command(after_help = "Example:
  fairhold bench dashboard -c 100 --seconds 60")]
    Dashboard(dashboard::DashboardArgs),
    /// Commit to a bare replicated log in this process, the lower bound for writes on this machine
    #[command(after_help = "Example:
  fairhold bench log")]
    Log(log::LogArgs),
}

/// Runs the command.
pub(crate) fn main(args: &BenchArgs) -> ExitCode {
    let threads = match &args.workload {
        Workload::Lock(lock) => lock.load.threads,
        Workload::Contended(load) | Workload::Failover(load) | Workload::Watch(load) => load.threads,
        Workload::Kv(kv) => kv.load.threads,
        Workload::Sessions(_) | Workload::Dashboard(_) => 1,
        Workload::Log(_) => log::THREADS,
    };
    let done = (|| {
        let mut builder = match threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            threads => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(threads);
                builder
            }
        };
        builder.enable_all().build()?.block_on(run(args))
    })();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(false),
    }
}

async fn run(args: &BenchArgs) -> Result<(), Failure> {
    let connect = &args.remote.connect;
    let output = args.remote.output;
    let (outcome, name, client) = match &args.workload {
        Workload::Lock(lock) => return lock::run(Target::new(connect).await?, lock, output).await,
        Workload::Contended(load) => (contended::run(&Target::new(connect).await?, load).await?, "contended", load.client.name()),
        Workload::Kv(kv) => (kv::run(&Target::new(connect).await?, kv).await?, kv.operation.name(), kv.load.client.name()),
        Workload::Failover(load) => (failover::run(&Target::new(connect).await?, load).await?, "failover", load.client.name()),
        Workload::Sessions(sessions) => return sessions::run(&Target::new(connect).await?, sessions, output).await,
        Workload::Watch(load) => return watch::run(&Target::new(connect).await?, load, output).await,
        Workload::Dashboard(dashboard) => return dashboard::run(&Target::new(connect).await?, dashboard, output).await,
        Workload::Log(log) => (log::run(log, progress::is_shown(connect)).await?, "log", "none"),
    };
    written(&outcome, outcome.json(name, client), output)
}

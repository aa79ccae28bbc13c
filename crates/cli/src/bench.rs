//! `fairhold bench`: how much a cluster does, and how long it takes.
//!
//! Each workload is a file. `measure` drives the clients and takes the times, `wire` speaks HTTP, `report` writes.

mod contended;
mod failover;
mod grants;
mod kv;
mod lock;
mod log;
mod measure;
mod profile;
mod progress;
mod report;
mod servers;
mod sessions;
mod watch;
mod wire;

use crate::remote::{self, Api, ConnectArgs, Failure, RemoteArgs, Request, form::Form};
use clap::{Subcommand, builder::RangedU64ValueParser};
use fairhold_client::Client;
use measure::{Outcome, Plan, Work};
use serde_json::{Map, Value};
use std::{process::ExitCode, time::Duration};
use wire::{Hosts, Wire};

/// The longest run.
const SECONDS_MAX: f64 = 86_400.0;
/// The most clients of one run.
const CLIENTS_MAX: u64 = 100_000;

/// What `bench` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Times are in milliseconds. It writes to the cluster: locks and nodes whose names begin with bench/.\n\
                  It does not remove its locks, which nobody holds at the end: the cluster forgets them by itself.")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Acquire and release a lock, each client its own
    #[command(after_help = "Examples:
  fairhold bench lock -c 64
  fairhold bench lock -c 1 --profile     and where the time of a cycle goes")]
    Lock(lock::LockArgs),
    /// Acquire one lock in turn: how often it changes hands, and how long each client waits
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
    /// Commit to the bare replicated log of three nodes in this process: the lower bound for every write on this machine
    #[command(after_help = "Example:
  fairhold bench log")]
    Log(log::LogArgs),
}

/// How much load.
#[derive(Debug, Clone, clap::Args)]
struct LoadArgs {
    /// Concurrent clients, each with its own connection
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = up_to(CLIENTS_MAX))]
    clients: usize,
    /// How long to measure
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// How long to run before measuring
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// Start this many operations a second, whether or not earlier ones are done; latency counts from each scheduled start
    /// [default: each client starts the next when the last is done]
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Threads of the load generator
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to(64))]
    threads: usize,
    /// The kind of client
    #[arg(long, value_enum, default_value_t = Kind::Http)]
    client: Kind,
}

impl LoadArgs {
    fn plan(&self) -> Result<Plan, Failure> {
        if self.seconds.is_zero() {
            return Err(Failure::Usage("--seconds must be greater than 0".to_owned()));
        }
        Ok(Plan { clients: self.clients, warmup: self.warmup, time: self.seconds, rate: self.rate })
    }
}

/// The kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// HTTP/1.1 with JSON, one connection for each client, with minimal overhead
    Http,
    /// The Rust client: one program with one session, whose tasks are the clients
    Rust,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Http => "http",
            Kind::Rust => "rust",
        }
    }
}

/// A number from one on.
fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

fn number(text: &str, unit: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("{unit} are a number like 5 or 0.5"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let text = text.strip_suffix('s').unwrap_or(text);
    match number(text, "seconds")? {
        seconds if seconds <= SECONDS_MAX => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("at most {SECONDS_MAX}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match number(text, "operations a second")? {
        rate if (0.01..=1e7).contains(&rate) => Ok(rate),
        _ => Err("from 0.01 to 10000000".to_owned()),
    }
}

/// Measures and writes.
pub(crate) fn main(args: &BenchArgs) -> ExitCode {
    let threads = match &args.workload {
        Workload::Lock(lock) => lock.load.threads,
        Workload::Contended(load) | Workload::Failover(load) | Workload::Watch(load) => load.threads,
        Workload::Kv(kv) => kv.load.threads,
        Workload::Sessions(_) => 1,
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
    let (connect, output) = (&args.remote.connect, args.remote.output);
    let (outcome, name, client) = match &args.workload {
        Workload::Lock(lock) => return lock::run(Ground::new(connect).await?, lock, output).await,
        Workload::Contended(load) => (contended::run(&Ground::new(connect).await?, load).await?, "contended", load.client.name()),
        Workload::Kv(kv) => (kv::run(&Ground::new(connect).await?, kv).await?, kv.operation.name(), kv.load.client.name()),
        Workload::Failover(load) => (failover::run(&Ground::new(connect).await?, load).await?, "failover", load.client.name()),
        Workload::Sessions(sessions) => return sessions::run(&Ground::new(connect).await?, sessions, output).await,
        Workload::Watch(load) => return watch::run(&Ground::new(connect).await?, load, output).await,
        Workload::Log(log) => (log::run(log, progress::is_wanted(connect)).await?, "log", "none"),
    };
    written(&outcome, outcome.json(name, client), output)
}

/// Writes what came of it. Where nothing was done at all that is a failure.
fn written(outcome: &Outcome, figures: Map<String, Value>, output: Option<Form>) -> Result<(), Failure> {
    report::write(&figures, output)?;
    match &outcome.tally {
        measure::Tally { done: 0, first_failure: Some(why), .. } => Err(Failure::Unavailable(format!("nothing was done: {why}"))),
        _ => Ok(()),
    }
}

/// What all workloads stand on: the cluster, and a name that no other run has.
#[derive(Debug)]
struct Ground {
    connect: ConnectArgs,
    hosts: Hosts,
    /// `bench/` and an id.
    name: String,
}

impl Ground {
    /// Looks whether there is a cluster at all.
    async fn new(connect: &ConnectArgs) -> Result<Ground, Failure> {
        Api::new(connect)?.call(&Request::get("/v1/locks?limit=1")).await?;
        let hosts = Hosts::new(&connect.endpoint, connect.auth_token()?.as_deref())?;
        let name = format!("bench/{}", ulid::Ulid::generate().to_string().to_lowercase());
        Ok(Ground { connect: connect.clone(), hosts, name })
    }

    /// Leads every client to one node.
    fn lead_to(&mut self, url: &str) -> Result<(), Failure> {
        self.connect.endpoint = vec![url.to_owned()];
        self.hosts = Hosts::new(&self.connect.endpoint, self.connect.auth_token()?.as_deref())?;
        Ok(())
    }

    /// A connection for one client; the nodes get them in turn.
    fn wire(&self, client: usize) -> Wire {
        self.wire_within(client, self.connect.timeout)
    }

    /// The same, of a client that gives up an answer after a time of its own.
    fn wire_within(&self, client: usize, within: Duration) -> Wire {
        Wire::new(self.hosts.beginning_with(client), within)
    }

    /// The Rust client of all clients.
    fn rust(&self) -> Result<Client, Failure> {
        remote::client(&self.connect, None)
    }

    /// Drives the clients, and shows on a terminal how far it is.
    async fn drive<W: Work>(&self, plan: Plan, works: Vec<W>) -> Outcome {
        drive(plan, works, progress::is_wanted(&self.connect)).await
    }
}

async fn drive<W: Work>(plan: Plan, works: Vec<W>, is_shown: bool) -> Outcome {
    let outcome = measure::drive(plan, works, cpu, async |progress, begin| {
        if is_shown {
            progress::show(&plan, &progress, begin).await;
        }
    });
    let outcome = outcome.await;
    if is_shown {
        progress::erase();
    }
    outcome
}

/// Processor time that this process has used.
fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_numbers_within_reason() {
        assert_eq!(seconds("5").unwrap(), seconds("5s").unwrap());
        assert_eq!((seconds("0.25").unwrap(), rate("100").unwrap()), (Duration::from_millis(250), 100.0));
        for text in ["", "-1", "inf", "NaN", "five", "1e9"] {
            assert!(seconds(text).is_err() && rate(text).is_err(), "{text}");
        }
        assert!(rate("0").is_err());
    }
}

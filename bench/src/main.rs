//! The loads of `fairhold bench` on ZooKeeper, etcd and Redis, each with its usual Rust client. The same code drives
//! and measures them, and writes the same JSON.

mod etcd;
// The same file as in `fairhold bench`.
#[path = "../../crates/cli/src/bench/measure.rs"]
mod measure;
mod redis;
mod zookeeper;

use clap::{Parser, ValueEnum};
use measure::{LoadPlan, RunOutcome, Steps, Work};
use std::{error::Error, fmt::Display, process::ExitCode, time::Duration};

/// Bytes of each value.
const VALUE: [u8; 100] = [b'v'; 100];
/// The timeout of a client before it retries while a server is killed. A server without a leader may never answer, so a
/// longer time would be part of the gap.
const PATIENCE: Duration = Duration::from_millis(250);

/// The arguments.
#[derive(Debug, Parser)]
#[command(about = "The loads of `fairhold bench` on ZooKeeper, etcd and Redis.")]
struct Args {
    /// The product under load
    #[arg(value_enum)]
    system: System,
    /// The workload
    #[arg(value_enum)]
    workload: Workload,
    /// The servers: HOST:PORT, separated by commas
    #[arg(short, long, value_delimiter = ',', required = true)]
    endpoint: Vec<String>,
    /// Concurrent clients, each with its own connection
    #[arg(
        short,
        long,
        default_value_t = 64,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000)
    )]
    clients: usize,
    /// How long to measure
    #[arg(short, long, default_value_t = 10.0)]
    seconds: f64,
    /// How long to run before measuring
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
}

/// The product under load.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum System {
    /// Apache ZooKeeper
    Zookeeper,
    /// etcd
    Etcd,
    /// Redis
    Redis,
}

impl System {
    fn name(self) -> &'static str {
        match self {
            System::Zookeeper => "zookeeper",
            System::Etcd => "etcd",
            System::Redis => "redis",
        }
    }
}

/// The workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Each client acquires and releases its own lock
    Lock,
    /// All clients take turns on one lock
    Contended,
    /// Small writes, each client to its own key
    KvWrite,
    /// Linearizable reads
    KvRead,
    /// Local reads
    KvLocalRead,
    /// Small writes while a server is killed: the longest time without a success
    Failover,
    /// Idle sessions; a line is printed when they are open
    Sessions,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Lock => "lock",
            Workload::Contended => "contended",
            Workload::KvWrite => "kv-write",
            Workload::KvRead => "kv-read",
            Workload::KvLocalRead => "kv-local-read",
            Workload::Failover => "failover",
            Workload::Sessions => "sessions",
        }
    }
}

/// Why a load could not start.
type Failure = Box<dyn Error + Send + Sync>;

impl Args {
    fn plan(&self) -> Result<LoadPlan, Failure> {
        let time = Duration::try_from_secs_f64(self.seconds)?;
        if time.is_zero() {
            return Err("--seconds must be greater than 0".into());
        }
        Ok(LoadPlan { clients: self.clients, warmup: Duration::try_from_secs_f64(self.warmup)?, time, rate: None })
    }

    /// The servers, starting with a different one for each client.
    fn endpoints(&self, client: usize) -> Vec<String> {
        let mut endpoints = self.endpoint.clone();
        endpoints.rotate_left(client % self.endpoint.len());
        endpoints
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    // One thread, as `fairhold bench` has.
    let ran = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::from);
    match ran.and_then(|runtime| runtime.block_on(run(&args))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairhold-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), Failure> {
    if args.workload == Workload::Sessions {
        return match args.system {
            System::Zookeeper => zookeeper::sessions(args).await,
            System::Etcd => etcd::sessions(args).await,
            System::Redis => redis::sessions(args).await,
        };
    }
    let outcome = match args.system {
        System::Zookeeper => zookeeper::run(args).await?,
        System::Etcd => etcd::run(args).await?,
        System::Redis => redis::run(args).await?,
    };
    let figures = outcome.json(args.workload.name(), args.system.name());
    println!("{}", serde_json::Value::from(figures));
    match outcome.tally.first_failure {
        Some(why) if outcome.tally.done == 0 => Err(why.into()),
        _ => Ok(()),
    }
}

/// Runs the clients.
async fn drive<W: Work>(args: &Args, works: Vec<W>) -> Result<RunOutcome, Failure> {
    Ok(measure::drive(args.plan()?, works, cpu, async |_, _| {}).await)
}

/// Prints that the sessions are open, so that their cost can be measured. They stay open for the rest of the time.
async fn live(args: &Args) -> Result<(), Failure> {
    println!("open {}", args.clients);
    tokio::time::sleep(args.plan()?.time).await;
    Ok(())
}

/// Processor time that this process has used.
fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

fn words(error: impl Display) -> String {
    error.to_string()
}

/// A name that is unique to this run.
fn unique() -> String {
    format!("bench-{:016x}", rand::random::<u64>())
}

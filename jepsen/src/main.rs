//! Chaos on real processes: a cluster in its own network namespaces, clients, faults, and checkers that judge the
//! history.
//!
//! `docs/internals/chaos.md` describes the faults and the findings.
//!
//! - `net`: namespaces and the switch between them. `cluster`: the processes. `nemesis`: the faults.
//! - `certificates`, `access`: TLS and users, in a run that is secure.
//! - `workload`, `client`, `http`, `resource`: the clients, and the outcomes of their calls. `history`: the record.
//! - `campaign`: many runs, with figures. `check`: the checkers. `report`: the results, for people. `run`: one run of
//!   all of these.

mod access;
mod campaign;
mod certificates;
mod check;
mod client;
mod cluster;
mod history;
mod http;
mod nemesis;
mod net;
mod report;
mod resource;
mod run;
mod shell;
mod sys;
mod workload;

use campaign::{Campaign, Ended, Setting};
use clap::Parser;
use nemesis::FAULTS;
use report::Verdict;
use run::NotRun;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};
use workload::Workload;

/// How many of a thousand holders of fenced locks sleep for longer than their lease.
const SLEEPERS: u32 = 40;
/// The exit code if a promise was broken.
const EXIT_BROKEN: u8 = 1;
/// The exit code if the run proves nothing, or failed.
const EXIT_INVALID: u8 = 2;
/// The exit code if this machine cannot run it.
const EXIT_NOT_HERE: u8 = 3;

/// Runs a cluster of real processes under faults, and judges what its clients observed. Needs root.
#[derive(Debug, Parser)]
#[command(name = "fairhold-jepsen", args_override_self = true, subcommand_negates_reqs = true)]
struct ChaosArgs {
    #[command(subcommand)]
    campaign: Option<Campaign>,
    /// The workloads of the clients, separated by commas; several run at the same time
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fenced-mutex")]
    workload: Vec<Workload>,
    /// The faults: names, groups (kill, pause, partition, one-way, wall-clock, clock-rate), classes (process, network,
    /// clock, disk, squeeze, operator), all, or none; separated by commas
    #[arg(long, value_name = "NAMES", default_value = "kill-leader")]
    nemesis: String,
    /// How long faults are injected, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The number of nodes: 3 or 5
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(3..=5))]
    nodes: u64,
    /// Clients per workload
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=100))]
    clients: u64,
    /// Decides the faults and what clients do; the timing of the processes still varies
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
    /// The folder for the report and the history [default: a new temporary folder]
    #[arg(long, value_name = "FOLDER", global = true)]
    out: Option<PathBuf>,
    /// The fairhold program [default: the one next to this program]
    #[arg(long, value_name = "PATH", global = true)]
    fairhold: Option<PathBuf>,
    /// The program of the cluster version before, with which upgrades begin [default: baseline-1/fairhold in the target
    /// folder, where ./fairhold build-baseline puts it]
    #[arg(long, value_name = "PATH", global = true)]
    baseline: Option<PathBuf>,
    /// Nodes and clients speak TLS, and access rights are enforced
    #[arg(long)]
    secure: bool,
    /// List the faults, and exit
    #[arg(long)]
    list: bool,
}

/// Prints progress.
fn log_line(text: &str) {
    // A closed pipe must not stop the run.
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// A key for one request.
fn new_key() -> String {
    ulid::Ulid::generate().to_string()
}

fn main() -> ExitCode {
    let args = ChaosArgs::parse();
    if args.list {
        let faults = FAULTS.iter().map(|fault| format!("{:<18} {}", fault.name(), fault.what()));
        return print(&faults.collect::<Vec<_>>().join("\n"));
    }
    let campaign = args.campaign.clone();
    let plan = match plan(args) {
        Ok(plan) => plan,
        Err(why) => return fail(&why),
    };
    let ended = match campaign {
        Some(campaign) => {
            let (folder, fairhold, older) = (plan.folder.clone(), plan.fairhold.clone(), plan.older.clone());
            let setting = Setting { seed: plan.seed, folder, fairhold, older };
            campaign::run(&campaign, &setting)
        }
        None => run::run(&plan).map(|done| Ended { verdict: done.verdict, text: done.text }),
    };
    match ended {
        Ok(ended) => {
            print(&ended.text);
            log_line(&format!("report: {}", plan.folder.display()));
            match ended.verdict {
                Verdict::Valid => ExitCode::SUCCESS,
                Verdict::Broken => ExitCode::from(EXIT_BROKEN),
                Verdict::Invalid => ExitCode::from(EXIT_INVALID),
            }
        }
        Err(NotRun::Failed(why)) => fail(&why),
        Err(NotRun::NotHere(why)) => {
            log_line(&format!("fairhold-jepsen: not covered here, which needs root and `ip netns`: {why}"));
            ExitCode::from(EXIT_NOT_HERE)
        }
    }
}

fn plan(args: ChaosArgs) -> Result<run::Plan, String> {
    let fairhold = match args.fairhold {
        Some(path) => path,
        None => std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("fairhold"),
    };
    if !fairhold.is_file() {
        let build = "cargo build --release -p fairhold-cli";
        return Err(format!("there is no program {}: build it with `{build}`, or pass --fairhold", fairhold.display()));
    }
    if let Some(workload) = args.workload.iter().find(|workload| workload.needs_rights() && !args.secure) {
        return Err(format!("the workload {} needs --secure", workload.name()));
    }
    let older = args.baseline.unwrap_or_else(|| fairhold.with_file_name("../baseline-1/fairhold"));
    let folder = args.out.unwrap_or_else(|| std::env::temp_dir().join(format!("fairhold-chaos-{}", std::process::id())));
    let nodes = usize::try_from(args.nodes).map_err(|error| error.to_string())?;
    Ok(run::Plan {
        workloads: args.workload,
        faults: nemesis::parse(&args.nemesis)?,
        nemesis: args.nemesis,
        course: run::Course::Mixed,
        sleepers: SLEEPERS,
        length: Duration::from_secs(args.seconds),
        nodes,
        clients: args.clients,
        seed: args.seed,
        folder,
        fairhold,
        older,
        is_secure: args.secure,
    })
}

fn print(text: &str) -> ExitCode {
    match writeln!(io::stdout().lock(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe is the end of the output.
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(why: &str) -> ExitCode {
    log_line(&format!("fairhold-jepsen: {why}"));
    ExitCode::from(EXIT_INVALID)
}

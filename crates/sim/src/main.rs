//! A whole cluster in virtual time: a seed decides how machines, disks and the network fail. The invariants must hold
//! nevertheless.
//!
//! `docs/internals/testing.md` says what is simulated. The product's own code runs here: `raft`,
//! `node`, `http`'s router.
//!
//! - `host`: a machine's clock, pauses and end. `net`, `disk`: the network, and the disks, which survive a crash.
//!   `world`: the cluster.
//! - `client`, `clients`: the clients. `access_user`: the users whose rights change. `stream`, `watch_events`: streamed
//!   answers, and watch events.
//! - `plan`: the decisions of a seed. `scenario`: one run. `inject`: the injection of a fault. `shrink`: the shortest
//!   failing scenario.
//! - `armed_failpoint`, `failpoint_judge`, `failpoint_run`: failpoints. `mutation_run`: planted bugs, and the seeds
//!   that
//!   find them. `regressions`: fixed scenarios.
//! - `oracle`, `invariants`: the checks after every change and every answer. `coverage`: what a run has reached.
//! - `calm`: how long the cluster has been without faults.

mod access_user;
#[cfg(feature = "failpoints")]
mod armed_failpoint;
mod calm;
mod client;
mod client_kind;
mod clients;
mod conditions;
mod coverage;
mod disk;
mod facts;
#[cfg(feature = "failpoints")]
mod failpoint_judge;
#[cfg(feature = "failpoints")]
mod failpoint_run;
mod fault;
mod host;
mod inject;
mod invariants;
mod member_list;
#[cfg(feature = "planted")]
mod mutation_run;
mod net;
mod oracle;
mod plan;
#[cfg(test)]
mod regressions;
mod scenario;
mod shrink;
mod stream;
mod trace;
mod watch_events;
mod world;

use clap::Parser;
use coverage::Coverage;
use fairhold_types::{duration, time::WallMillis};
use plan::ScenarioPlan;
use std::{
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

/// Seeds that failed once: they run before any others.
const PAST_FAILURES: &str = include_str!("../past_failures.txt");

/// Runs whole clusters in virtual time. The same seed always gives the same run.
#[derive(Debug, Parser)]
#[command(name = "fairhold-sim")]
struct SimArgs {
    /// Run only this seed.
    #[arg(long, conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// Run these seeds, end excluded: 0..1000.
    #[arg(long, value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// Run seeds for this many minutes, starting with the first of --seeds.
    #[arg(long)]
    minutes: Option<u64>,
    /// Print every event to standard error.
    #[arg(long)]
    loud: bool,
    /// Also print the plan of the seed.
    #[arg(long)]
    plan: bool,
    /// Do not look for the shortest scenario with the same failure.
    #[arg(long)]
    no_shrink: bool,
    /// Also fail if a kind of fault never took effect, or a rare path was never taken.
    #[arg(long)]
    complete: bool,
    /// Make each failpoint fail in a short scenario: by a crash, an error and a delay.
    #[cfg(feature = "failpoints")]
    #[arg(long, conflicts_with_all = ["seed", "seeds", "minutes", "complete"])]
    each_failpoint: bool,
    /// Plant the bug of this name, or `all` bugs in turn, and fail if the seeds do not find it.
    #[cfg(feature = "planted")]
    #[arg(long, conflicts_with_all = ["seed", "minutes", "complete"])]
    planted: Option<String>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    parsed.filter(|(first, end)| first < end).ok_or_else(|| "a range like 0..1000 is expected".to_owned())
}

fn main() -> ExitCode {
    let args = SimArgs::parse();
    fairhold_node::clock::use_wall_clock(world_time);
    fairhold_raft::use_wall_clock(world_time);
    scenario::collect_panics();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        // A closed pipe is the end of the output.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn world_time() -> WallMillis {
    let millis = duration::millis(trace::since_start());
    WallMillis(client::WORLD_BEGAN_MS.saturating_add(millis))
}

fn past_failures() -> impl Iterator<Item = u64> {
    PAST_FAILURES.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok())
}

fn run(args: &SimArgs) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    #[cfg(feature = "planted")]
    if let Some(wanted) = &args.planted {
        return mutation_run::run(wanted, args.seeds.unwrap_or((0, 200)), &mut out);
    }
    #[cfg(feature = "failpoints")]
    if args.each_failpoint {
        return failpoint_run::each(&mut out);
    }
    if let Some(seed) = args.seed {
        let mut total = Total::default();
        total.seed(seed, args, &mut out)?;
        return Ok(total.failed == 0);
    }
    let (first, end) = args.seeds.unwrap_or((0, if args.minutes.is_some() { u64::MAX } else { 30 }));
    let begun = now();
    let over = || args.minutes.is_some_and(|minutes| now() - begun >= Duration::from_secs(minutes * 60));
    let mut total = Total::default();
    let past: Vec<u64> = past_failures().filter(|seed| !(first..end).contains(seed)).collect();
    for seed in past.into_iter().chain(first..end) {
        if over() {
            break;
        }
        total.seed(seed, args, &mut out)?;
    }
    write!(out, "{}", total.coverage)?;
    let hours = total.lasted.as_secs_f64() / 3_600.0;
    let missing = if args.complete { total.coverage.missing() } else { Vec::new() };
    for what in &missing {
        writeln!(out, "never: {what}")?;
    }
    let minutes = (now() - begun).as_secs_f64() / 60.0;
    writeln!(out, "{:.0} seeds a minute", (total.passed + total.failed) as f64 / minutes)?;
    writeln!(out, "seeds passed {} failed {} virtual hours {hours:.2}", total.passed, total.failed)?;
    Ok(total.failed == 0 && missing.is_empty())
}

/// Real time. It only decides when to stop, and is reported.
fn now() -> Instant {
    Instant::now()
}

#[derive(Default)]
struct Total {
    passed: u64,
    failed: u64,
    lasted: Duration,
    coverage: Coverage,
}

impl Total {
    fn seed(&mut self, seed: u64, args: &SimArgs, out: &mut impl Write) -> io::Result<()> {
        let plan = ScenarioPlan::of(seed);
        if args.plan {
            write!(out, "{plan}")?;
        }
        let outcome = scenario::run(&plan, args.loud);
        self.lasted += outcome.lasted;
        self.coverage.add(&outcome.coverage);
        if outcome.violations.is_empty() {
            self.passed += 1;
            if args.seed.is_some() {
                write!(out, "{}", outcome.coverage)?;
            }
            return writeln!(out, "seed {seed} ok trace={:016x}", outcome.trace);
        }
        self.failed += 1;
        writeln!(out, "seed {seed} FAILED trace={:016x}", outcome.trace)?;
        for violation in &outcome.violations {
            writeln!(out, "  {violation}")?;
        }
        if !args.no_shrink {
            let shortest = shrink::shortest(&plan, &outcome.violations);
            writeln!(out, "the shortest scenario with the same failure:\n{shortest}")?;
        }
        let features = if cfg!(feature = "failpoints") { " --features failpoints" } else { "" };
        writeln!(out, "to reproduce: cargo run --release -p fairhold-sim{features} -- --seed {seed} --loud")
    }
}

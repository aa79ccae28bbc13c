//! Campaigns: many runs, or very long ones, that each answer one question with figures, by one command.

mod bytes;
mod clocks;
mod disks;
mod faults;
mod measure;
mod pauses;
mod power;
mod sum;

use crate::{
    nemesis::{Fault, Rhythm},
    report::Verdict,
    run::{Course, NotRun, Plan},
    workload::Workload,
};
use std::{fs, path::PathBuf, time::Duration};

/// What can be asked for in this way.
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Campaign {
    /// All faults, each alone and then in pairs, with three and with five nodes, until enough operations were checked
    Faults {
        /// How many operations are to be checked at least
        #[arg(long, default_value_t = 1_000_000)]
        operations: usize,
        /// How many clients each workload has
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100))]
        clients: u64,
    },
    /// The power is cut, at the leader and at all nodes in turn: what was acknowledged must be there
    Power {
        /// How often
        #[arg(long, default_value_t = 200)]
        cuts: usize,
    },
    /// Single bytes of a node's log and snapshot are changed: none may be served
    Bytes {
        /// How many, each in files as they were
        #[arg(long, default_value_t = 1_000)]
        flips: usize,
    },
    /// Holders stand still for longer than their lease, and then write
    Pauses {
        /// How often at least
        #[arg(long, default_value_t = 300)]
        pauses: usize,
    },
    /// Clocks run at half and at five times their rate, at a follower and at the leader
    Clocks {
        /// How often each
        #[arg(long, default_value_t = 4)]
        times: usize,
    },
    /// The leader's disk is slow, or hangs; a follower's disk is slow
    Disks {
        /// How often each; a slow follower and none take turns five times as often
        #[arg(long, default_value_t = 6)]
        times: usize,
        /// How many seconds the leader's disk is slow, or hangs, each time
        #[arg(long, default_value_t = 6)]
        seconds: u64,
    },
}

/// What all campaigns have in common.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// Decides which faults come when and what clients do.
    pub(crate) seed: u64,
    /// Where everything goes.
    pub(crate) folder: PathBuf,
    /// The program of the nodes.
    pub(crate) fairhold: PathBuf,
}

/// What came out.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

/// The clients of a part of a campaign.
#[derive(Debug, Clone)]
struct Crowd {
    nodes: usize,
    workloads: Vec<Workload>,
    /// Of each workload.
    clients: u64,
    sleepers: u32,
}

/// Makes a campaign, and writes what came out into its folder.
pub(crate) fn run(campaign: &Campaign, setting: &Setting) -> Result<Ended, NotRun> {
    let ended = match campaign {
        Campaign::Faults { operations, clients } => faults::run(setting, *operations, *clients),
        Campaign::Power { cuts } => power::run(setting, *cuts),
        Campaign::Bytes { flips } => bytes::run(setting, *flips),
        Campaign::Pauses { pauses } => pauses::run(setting, *pauses),
        Campaign::Clocks { times } => clocks::run(setting, *times),
        Campaign::Disks { times, seconds } => disks::run(setting, *times, *seconds),
    }?;
    let file = setting.folder.join("campaign.txt");
    fs::write(&file, &ended.text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(ended)
}

impl Setting {
    /// A part of a campaign: these rounds of faults, in a folder of its own.
    fn part(&self, name: &str, crowd: &Crowd, rounds: Vec<Vec<Fault>>, rhythm: Rhythm) -> Plan {
        let mut faults: Vec<Fault> = rounds.iter().flatten().copied().collect();
        faults.sort_unstable();
        faults.dedup();
        let length = (rhythm.fault + rhythm.quiet) * u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        Plan {
            workloads: crowd.workloads.clone(),
            faults,
            nemesis: name.to_owned(),
            course: Course::Rounds(rounds, rhythm),
            length,
            nodes: crowd.nodes,
            clients: crowd.clients,
            sleepers: crowd.sleepers,
            seed: self.seed,
            folder: self.folder.join(name),
            fairhold: self.fairhold.clone(),
        }
    }
}

fn rhythm(fault_ms: u64, quiet_ms: u64) -> Rhythm {
    Rhythm { fault: Duration::from_millis(fault_ms), quiet: Duration::from_millis(quiet_ms) }
}

//! Campaigns: many runs, or very long ones, that each answer one question with figures, by one command.

mod bytes;
mod clocks;
mod disks;
mod faults;
mod measure;
mod pauses;
mod power;
mod regions;
mod sum;

use crate::{
    nemesis::{Fault, Rhythm},
    report::Verdict,
    run::{Course, NotRun, Plan},
    workload::Workload,
};
use regions::{Lengths, Profile};
use std::{fs, path::PathBuf, time::Duration};

/// The campaigns.
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Campaign {
    /// All faults, each alone and then in pairs, with three and with five nodes, until enough operations are checked
    Faults {
        /// The minimum number of operations to check
        #[arg(long, default_value_t = 1_000_000)]
        operations: usize,
        /// Clients per workload
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100))]
        clients: u64,
    },
    /// Cuts the power, at the leader and at all nodes in turn: acknowledged writes must survive
    Power {
        /// Number of power cuts
        #[arg(long, default_value_t = 200)]
        cuts: usize,
    },
    /// Changes single bytes of a node's log and snapshot: no changed byte may be served
    Bytes {
        /// Number of changes, each in undamaged files
        #[arg(long, default_value_t = 1_000)]
        flips: usize,
    },
    /// Holders pause for longer than their lease, and then write
    Pauses {
        /// The minimum number of pauses
        #[arg(long, default_value_t = 300)]
        pauses: usize,
    },
    /// Clocks run at half and at five times their rate, at a follower and at the leader
    Clocks {
        /// How often each case runs
        #[arg(long, default_value_t = 4)]
        times: usize,
    },
    /// The leader's disk is slow, or hangs; a follower's disk is slow
    Disks {
        /// How often each case runs; a slow follower and no fault alternate five times as often
        #[arg(long, default_value_t = 6)]
        times: usize,
        /// Seconds for which the leader's disk is slow, or hangs, each time
        #[arg(long, default_value_t = 6)]
        seconds: u64,
    },
    /// Five voters in five regions, and a learner in a sixth one: how long calls take, and how long no write is
    /// acknowledged when the leader's machine vanishes. Without a fault there must be no election
    Regions {
        /// The timing profiles, separated by commas: each with round trips up to its bound
        #[arg(long, value_enum, value_delimiter = ',', default_value = "wan,global")]
        timing: Vec<Profile>,
        /// How long clients work without a fault, in seconds
        #[arg(long, default_value_t = 1_800)]
        seconds: u64,
        /// How often the machine of the leader vanishes
        #[arg(long, default_value_t = 5)]
        vanishings: usize,
    },
}

/// The options of every campaign.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// Decides the faults and what clients do.
    pub(crate) seed: u64,
    /// The output folder.
    pub(crate) folder: PathBuf,
    /// The `fairhold` program.
    pub(crate) fairhold: PathBuf,
    /// The program of the cluster version before.
    pub(crate) older: PathBuf,
}

/// The result of a campaign.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

/// The clients of a part of a campaign.
#[derive(Debug, Clone)]
struct ClientGroup {
    nodes: usize,
    workloads: Vec<Workload>,
    /// The number for each workload.
    clients: u64,
    sleepers: u32,
}

/// Runs a campaign, and writes its result into its folder.
pub(crate) fn run(campaign: &Campaign, setting: &Setting) -> Result<Ended, NotRun> {
    let ended = match campaign {
        Campaign::Faults { operations, clients } => faults::run(setting, *operations, *clients),
        Campaign::Power { cuts } => power::run(setting, *cuts),
        Campaign::Bytes { flips } => bytes::run(setting, *flips),
        Campaign::Pauses { pauses } => pauses::run(setting, *pauses),
        Campaign::Clocks { times } => clocks::run(setting, *times),
        Campaign::Disks { times, seconds } => disks::run(setting, *times, *seconds),
        Campaign::Regions { timing, seconds, vanishings } => {
            let lengths = Lengths { quiet: Duration::from_secs(*seconds), vanishings: *vanishings };
            regions::run(setting, timing, lengths)
        }
    }?;
    let file = setting.folder.join("campaign.txt");
    fs::write(&file, &ended.text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(ended)
}

impl Setting {
    /// The plan of a part of a campaign: these rounds of faults, in its own folder.
    fn part(&self, name: &str, group: &ClientGroup, rounds: Vec<Vec<Fault>>, rhythm: Rhythm) -> Plan {
        let mut faults: Vec<Fault> = rounds.iter().flatten().copied().collect();
        faults.sort_unstable();
        faults.dedup();
        let length = (rhythm.fault + rhythm.quiet) * u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        Plan {
            workloads: group.workloads.clone(),
            faults,
            nemesis: name.to_owned(),
            course: Course::Rounds(rounds, rhythm),
            length,
            nodes: group.nodes,
            clients: group.clients,
            sleepers: group.sleepers,
            seed: self.seed,
            folder: self.folder.join(name),
            fairhold: self.fairhold.clone(),
            older: self.older.clone(),
            is_secure: false,
        }
    }
}

fn rhythm(fault_ms: u64, quiet_ms: u64) -> Rhythm {
    Rhythm { fault: Duration::from_millis(fault_ms), quiet: Duration::from_millis(quiet_ms) }
}

//! Injects faults: chooses them by the seed, one or two at a time, checks that they took effect, and heals them.

mod clock;
mod course;
mod disk;
mod flood;
mod members;
mod network;
mod plan;
mod power;
mod pressure;
mod process;
mod rotation;
mod rounds;
mod upgrade;

pub(crate) use clock::{FAST, SLOW};
pub(crate) use course::Rhythm;
pub(crate) use members::spares;
pub(crate) use plan::{Class, FAULTS, Fault, parse};
pub(crate) use rounds::NO_FAULT;

use crate::{
    cluster::{ChaosCluster, READY_WITHIN},
    history::Recorder,
    net::Network,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The minimum number of successes during a fault that leaves a majority.
pub(crate) const SUCCESSES_PER_FAULT: usize = 10;
/// How often to check whether a node has exited on its own.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Everything that faults act on.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) cluster: ChaosCluster,
    pub(crate) network: Network,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) random: SmallRng,
    /// Faults that this machine cannot do, and why.
    pub(crate) not_covered: BTreeMap<&'static str, String>,
    /// The violations that the history does not show.
    pub(crate) complaints: Vec<String>,
    /// The nodes whose disk a fault has made unusable, until it heals.
    unusable_disks: BTreeMap<usize, UnusableDisk>,
    /// The programs, while the nodes' programs may change.
    upgrade: Option<upgrade::Upgrade>,
    /// The folder for the files of the faults.
    pub(crate) folder: PathBuf,
}

/// How a disk is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnusableDisk {
    /// A node that starts waits for space.
    Full,
    /// A process cannot end, because its writes wait.
    Frozen,
}

/// How to heal a fault.
enum Undo {
    /// Start these nodes.
    Start(Vec<usize>),
    /// Resume these nodes.
    Continue(Vec<usize>),
    /// Remove the faults of the network; this many packets had been affected before.
    Lift {
        overlay: u64,
        touched: u64,
    },
    /// Stop a task that repeats the fault.
    Stop(tokio::task::JoinHandle<u64>, tokio::sync::oneshot::Sender<()>),
    /// The state of the clock, disk and pressure modules.
    Clock(clock::Skewed),
    Disk(disk::Damaged),
    Pressure(pressure::Pressure),
    /// Wait for the end of a change of the members, or complete it.
    Members(members::Change),
    /// Restart the remaining nodes with the other program.
    Roll(upgrade::Roll),
    /// Replace the remaining certificates, and the authority.
    Rotation(rotation::Rotation),
    /// Stop the flood.
    Flood(flood::Flood),
    /// Nothing: the fault ended at once, with this effect.
    Nothing(String),
}

/// A description of the injected fault, and how to heal it.
type Injected = Result<(String, Undo), Skipped>;

/// Why a fault was not injected.
enum Skipped {
    /// This machine cannot do it.
    NotHere(String),
    /// It was not possible at this moment: for example, there was no leader.
    NotNow(String),
}

impl World {
    /// Prepares a run.
    pub(crate) fn new(cluster: ChaosCluster, network: Network, recorder: Arc<Recorder>, seed: u64, folder: PathBuf) -> World {
        let random = SmallRng::seed_from_u64(seed);
        let (not_covered, complaints, unusable_disks) = Default::default();
        World { cluster, network, recorder, random, not_covered, complaints, unusable_disks, upgrade: None, folder }
    }

    /// Prepares the nodes for these faults, before their first start. The older program is for faults that change the
    /// nodes' programs.
    pub(crate) fn prepare(&mut self, faults: &[Fault], older: &Path) {
        disk::prepare(self, faults);
        clock::prepare(self, faults);
        rotation::prepare(self, faults);
        if self.cluster.security.is_none() {
            upgrade::prepare(self, faults, older);
        }
    }

    /// Stops the nodes, and removes the leftovers of faults and the nodes' data.
    pub(crate) fn tidy(&mut self) {
        disk::thaw(&self.folder, self.cluster.nodes.len());
        self.cluster.end();
        disk::tidy(&self.folder, self.cluster.nodes.len());
    }

    /// The machines whose nodes take part.
    fn nodes(&self) -> Vec<usize> {
        self.cluster.machines()
    }

    /// All machines, also those without a node.
    fn machines(&self) -> Vec<usize> {
        (1..=self.cluster.nodes.len()).collect()
    }

    /// Waits a while for a leader.
    async fn leader(&mut self) -> Result<usize, Skipped> {
        for _ in 0..20 {
            if let Some(leader) = self.cluster.leader().await {
                return Ok(leader);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        Err(Skipped::NotNow("there is no leader".to_owned()))
    }

    /// A node that does not lead.
    async fn follower(&mut self) -> Result<usize, Skipped> {
        let leader = self.leader().await?;
        // A node that joins is none yet.
        let is_follower = |id: &usize| *id != leader && !self.cluster.is_joining(*id);
        let others: Vec<usize> = self.cluster.running().into_iter().filter(is_follower).collect();
        if others.is_empty() {
            return Err(Skipped::NotNow("no other node runs".to_owned()));
        }
        Ok(others[self.random.random_range(0..others.len())])
    }

    /// Starts stopped nodes.
    fn start(&mut self, ids: &[usize]) {
        for id in ids {
            // A machine whose node was removed in the meantime has none to start.
            if self.cluster.takes_part(*id) && !self.cluster.node(*id).runs() {
                let started = self.cluster.start(*id);
                self.record(started);
            }
        }
    }

    /// Starts nodes and waits until they are ready.
    async fn restart(&mut self, ids: &[usize]) {
        self.start(ids);
        for id in ids {
            if let Err(why) = self.cluster.ready(*id, READY_WITHIN).await {
                self.complaints.push(format!("after a fault: {why}"));
            }
        }
    }

    fn record(&mut self, done: Result<(), String>) {
        if let Err(why) = done {
            self.complaints.push(why);
        }
    }

    async fn inject(&mut self, fault: Fault) -> Injected {
        match fault {
            Fault::KillLeader => process::kill_leader(self).await,
            Fault::KillFollower => process::kill_follower(self).await,
            Fault::KillAll => process::kill_all(self).await,
            Fault::StopLeader => process::stop_leader(self).await,
            Fault::PauseLeader => process::pause_leader(self).await,
            Fault::PauseFollower => process::pause_follower(self).await,
            Fault::FreezeLeader => process::freeze_leader(self).await,
            Fault::RollingRestart => process::rolling_restart(self).await,
            Fault::TransferLeader => process::transfer_leader(self).await,
            Fault::TakeSnapshots => process::take_snapshots(self).await,
            Fault::CutLeader => network::cut_leader(self).await,
            Fault::IsolateLeader => network::isolate_leader(self).await,
            Fault::CutFollower => network::cut_follower(self).await,
            Fault::SplitAll => network::split_all(self),
            Fault::OneWayOut => network::one_way_out(self).await,
            Fault::OneWayIn => network::one_way_in(self).await,
            Fault::Bridge => network::bridge(self).await,
            Fault::Flapping => network::flapping(self),
            Fault::LostAnswers => network::lost_answers(self),
            Fault::Delay => network::delay(self),
            Fault::Loss => network::loss(self),
            Fault::Reorder => network::reorder(self),
            Fault::Duplicate => network::duplicate(self),
            Fault::WallForward => clock::wall_forward(self).await,
            Fault::WallBack => clock::wall_back(self).await,
            Fault::WallStrobe => clock::wall_strobe(self),
            Fault::FastClock => clock::fast_clock(self).await,
            Fault::SlowClock => clock::slow_clock(self).await,
            Fault::FastFollowerClock => clock::fast_follower_clock(self).await,
            Fault::SlowFollowerClock => clock::slow_follower_clock(self).await,
            Fault::FullDisk => disk::full_disk(self).await,
            Fault::SlowSync => disk::slow_sync(self).await,
            Fault::SlowFollowerSync => disk::slow_follower_sync(self).await,
            Fault::SyncError => disk::sync_error(self).await,
            Fault::HungDisk => disk::hung_disk(self).await,
            Fault::FrozenDisk => disk::frozen_disk(self).await,
            Fault::PowerLoss => power::power_loss_one(self).await,
            Fault::PowerLossAll => power::power_loss_all(self).await,
            Fault::TornLog => disk::torn_log(self).await,
            Fault::FlippedLog => disk::flipped_log(self).await,
            Fault::FlippedSnapshot => disk::flipped_snapshot(self).await,
            Fault::WipedData => disk::wiped_data(self).await,
            Fault::CpuSqueeze => pressure::cpu(self).await,
            Fault::MemorySqueeze => pressure::memory(self).await,
            Fault::SlowClients => pressure::slow_clients(self).await,
            Fault::FloodHandshakes => flood::flood_handshakes(self).await,
            Fault::RotateCerts => rotation::rotate_certs(self).await,
            Fault::RollUpgrade => upgrade::roll_upgrade(self).await,
            Fault::RollDowngrade => upgrade::roll_downgrade(self).await,
            Fault::AddRemove => members::add_remove(self).await,
            Fault::ReplaceWiped => members::replace_wiped(self).await,
        }
    }

    /// Heals a fault. Returns its observed effect, or why it had none.
    async fn heal(&mut self, undo: Undo) -> Result<String, String> {
        match undo {
            Undo::Start(ids) => {
                let seen = ids.iter().filter(|id| !self.cluster.nodes[**id - 1].runs()).count();
                // They become ready once everything is healed.
                self.start(&ids);
                if seen == 0 { Err("the process was still there".to_owned()) } else { Ok(format!("{seen} were gone")) }
            }
            Undo::Continue(ids) => process::wake(self, &ids),
            Undo::Lift { overlay, touched } => {
                self.network.switch.lift(overlay);
                packets(self.network.switch.touched() - touched)
            }
            Undo::Stop(task, stop) => {
                drop(stop);
                packets(task.await.unwrap_or(0))
            }
            Undo::Clock(skewed) => clock::heal(self, skewed).await,
            Undo::Disk(damaged) => disk::heal(self, damaged).await,
            Undo::Pressure(pressure) => pressure::heal(self, pressure).await,
            Undo::Members(change) => members::heal(self, change).await,
            Undo::Roll(roll) => Ok(upgrade::heal(self, roll).await),
            Undo::Rotation(rotation) => rotation::heal(self, rotation).await,
            Undo::Flood(flood) => flood::heal(flood).await,
            Undo::Nothing(seen) => Ok(seen),
        }
    }
}

fn packets(touched: u64) -> Result<String, String> {
    if touched == 0 { Err("no packet was affected".to_owned()) } else { Ok(format!("{touched} packets")) }
}

//! Injects faults: chooses them by the seed, one or two at a time, checks that they took effect, and heals them.

mod clock;
mod disk;
mod network;
mod plan;
mod power;
mod pressure;
mod process;
mod rounds;

pub(crate) use clock::{FAST, SLOW};
pub(crate) use plan::{Class, FAULTS, Fault, parse};
pub(crate) use rounds::NO_FAULT;

use crate::{
    cluster::{ChaosCluster, READY_WITHIN},
    history::{FaultSpan, Recorder},
    log_line,
    net::Network,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// After everything is healed, a client must succeed within this time.
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
/// The minimum number of successes during a fault that leaves a majority.
pub(crate) const SUCCESSES_PER_FAULT: usize = 10;
/// A fault lasts up to this many times its length until there are enough successes.
const PATIENCE: u64 = 4;
/// How often to check whether a node has exited on its own.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// A node that has exited is restarted after this time, as by a supervisor.
const RESTART_AFTER: Duration = Duration::from_secs(1);

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

/// A fault that is in effect.
struct Active {
    fault: Fault,
    detail: String,
    start: u64,
    undo: Undo,
}

impl Active {
    /// Whether leases cannot be judged since its start: their guarantee requires a correct clock rate of the leader.
    fn bends_time(&self, recorder: &Recorder) -> bool {
        let Undo::Clock(skewed) = &self.undo else { return false };
        self.fault.changes_rate() && recorder.led_since(&skewed.nodes, self.start)
    }
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
        World { cluster, network, recorder, random, not_covered, complaints, unusable_disks, folder }
    }

    /// Prepares the nodes for these faults, before their first start.
    pub(crate) fn prepare(&mut self, faults: &[Fault]) {
        disk::prepare(self, faults);
        clock::prepare(self, faults);
    }

    /// Stops the nodes, and removes the leftovers of faults and the nodes' data.
    pub(crate) fn tidy(&mut self) {
        disk::thaw(&self.folder, self.cluster.nodes.len());
        self.cluster.end();
        disk::tidy(&self.folder, self.cluster.nodes.len());
    }

    fn nodes(&self) -> Vec<usize> {
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
        let others: Vec<usize> = self.cluster.running().into_iter().filter(|id| *id != leader).collect();
        if others.is_empty() {
            return Err(Skipped::NotNow("no other node runs".to_owned()));
        }
        Ok(others[self.random.random_range(0..others.len())])
    }

    /// Starts stopped nodes.
    fn start(&mut self, ids: &[usize]) {
        for id in ids {
            if !self.cluster.node(*id).runs() {
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

    /// Alternates faults and quiet for `length`: first each fault alone, with more time if necessary, then also pairs.
    pub(crate) async fn inject_mixed(&mut self, faults: &[Fault], length: Duration, rhythm: Rhythm) {
        let (start, length) = (self.recorder.now(), micros(length));
        let mut pending: VecDeque<Fault> = faults.iter().copied().collect();
        self.quiet(rhythm.quiet).await;
        loop {
            let left = (start + length).saturating_sub(self.recorder.now());
            pending.retain(|fault| !self.not_covered.contains_key(fault.name()));
            let overtime = self.recorder.now() > start + 2 * length;
            if faults.is_empty() || (left < micros(rhythm.fault) && (pending.is_empty() || overtime)) {
                break self.quiet(Duration::from_micros(left)).await;
            }
            match pending.pop_front() {
                // A fault that was not possible now is tried again later.
                Some(fault) => {
                    if !self.round(&[fault], rhythm).await && !self.not_covered.contains_key(fault.name()) {
                        pending.push_back(fault);
                    }
                }
                None => {
                    let chosen = plan::choose(faults, &self.not_covered, &mut self.random);
                    if chosen.is_empty() {
                        break self.quiet(Duration::from_micros(left)).await;
                    }
                    self.round(&chosen, rhythm).await;
                }
            }
        }
    }

    /// Injects faults together, and heals them. Returns whether any took effect.
    async fn round(&mut self, chosen: &[Fault], rhythm: Rhythm) -> bool {
        let mut active = Vec::new();
        for fault in chosen {
            let start = self.recorder.now();
            match self.inject(*fault).await {
                Ok((detail, undo)) => {
                    log_line(&format!("{:7.1} s  {}: {detail}", seconds(start), fault.name()));
                    active.push(Active { fault: *fault, detail, start, undo });
                }
                Err(Skipped::NotHere(why)) => {
                    log_line(&format!("not covered here: {}: {why}", fault.name()));
                    self.not_covered.insert(fault.name(), why);
                }
                Err(Skipped::NotNow(why)) => log_line(&format!("{:7.1} s  {} left out: {why}", seconds(start), fault.name())),
            }
        }
        self.hold(rhythm.fault, &active).await;
        let (healed_any, mut took_effect) = (!active.is_empty(), false);
        active.reverse();
        // After it restores files, it waits until their node is ready: that needs an otherwise healthy cluster.
        active.sort_by_key(|one| matches!(one.undo, Undo::Disk(_)));
        for one in active {
            let bends_time = one.bends_time(&self.recorder);
            let effect = self.heal(one.undo).await;
            let end = self.recorder.now();
            took_effect |= effect.is_ok();
            let text = match &effect {
                Ok(what) => format!("healed ({what})"),
                Err(why) => format!("healed; it had no effect: {why}"),
            };
            log_line(&format!("{:7.1} s  {}: {text}", seconds(end), one.fault.name()));
            self.recorder.fault(FaultSpan {
                fault: one.fault.name(),
                detail: one.detail,
                start: one.start,
                end,
                bends_time,
                effect,
            });
        }
        if healed_any {
            self.recovered().await;
        }
        self.quiet(rhythm.quiet).await;
        took_effect
    }

    /// Keeps faults in effect, for longer if clients have had too few successes: on a busy machine everything takes
    /// longer.
    async fn hold(&mut self, length: Duration, active: &[Active]) {
        let start = self.recorder.now();
        let alone = active.len() == 1 && active[0].fault.leaves_majority();
        let until = start + micros(length);
        let at_most = if alone { start + PATIENCE * micros(length) } else { until };
        let enough = |world: &World| world.recorder.successes_since(start) >= SUCCESSES_PER_FAULT;
        while self.recorder.now() < until || (self.recorder.now() < at_most && !enough(self)) {
            tokio::time::sleep(POLL_EVERY).await;
            for id in self.nodes() {
                if self.cluster.node(id).has_ended() {
                    let explained = active.iter().any(|one| one.fault.may_end_nodes());
                    let log = self.cluster.node(id).last_line();
                    if explained {
                        log_line(&format!("          node {id} has ended: {log}"));
                    } else {
                        self.complaints.push(format!("node {id} has exited on its own: {log}"));
                    }
                }
            }
        }
    }

    /// Waits without faults: no node may exit.
    async fn quiet(&mut self, length: Duration) {
        let until = self.recorder.now() + micros(length);
        while self.recorder.now() < until {
            tokio::time::sleep(POLL_EVERY.min(length)).await;
            for id in self.nodes() {
                if self.cluster.node(id).has_ended() {
                    let log = self.cluster.node(id).last_line();
                    self.complaints.push(format!("node {id} has exited on its own without a fault: {log}"));
                    tokio::time::sleep(RESTART_AFTER).await;
                    self.restart(&[id]).await;
                }
            }
        }
    }

    /// Waits until everything runs again and a client succeeds.
    async fn recovered(&mut self) {
        let healed = self.recorder.now();
        let all = self.nodes();
        self.restart(&all).await;
        while self.recorder.successes_since(healed) == 0 {
            if self.recorder.now() - healed > micros(RECOVERED_WITHIN) {
                self.complaints.push(format!("no client succeeded within {RECOVERED_WITHIN:?} after everything was healed"));
                return;
            }
            tokio::time::sleep(POLL_EVERY).await;
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
            Undo::Nothing(seen) => Ok(seen),
        }
    }
}

fn packets(touched: u64) -> Result<String, String> {
    if touched == 0 { Err("no packet was affected".to_owned()) } else { Ok(format!("{touched} packets")) }
}

/// How long a fault lasts, and how long the quiet between two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    pub(crate) fault: Duration,
    pub(crate) quiet: Duration,
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

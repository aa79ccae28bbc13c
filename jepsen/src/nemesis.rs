//! Does the damage: chooses faults by the seed, one or two at a time, looks whether they took effect, and heals them.

mod clock;
mod disk;
mod network;
mod plan;
mod power;
mod process;
mod rounds;
mod squeeze;

pub(crate) use clock::{FAST, SLOW};
pub(crate) use plan::{Class, FAULTS, Fault, parse};
pub(crate) use rounds::NO_FAULT;

use crate::{
    cluster::{ChaosCluster, READY_WITHIN},
    history::{FaultSpan, Recorder},
    net::Network,
    say,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// After everything is healed a client must succeed by then.
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
/// The least number of successes while a fault lasts that leaves a majority.
pub(crate) const SUCCESSES_PER_FAULT: usize = 10;
/// A fault may last up to this many times its length, until there were enough successes.
const PATIENCE: u64 = 4;
/// How often to check whether a node has ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A node that has ended is started again after that, as a supervisor does it.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// All that faults work on.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) cluster: ChaosCluster,
    pub(crate) network: Network,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) random: SmallRng,
    /// Faults that this machine cannot do, and why.
    pub(crate) not_covered: BTreeMap<&'static str, String>,
    /// What must not have happened, and did.
    pub(crate) complaints: Vec<String>,
    /// Where files for the faults are.
    pub(crate) folder: PathBuf,
}

/// A fault that is in effect.
struct Active {
    fault: Fault,
    detail: String,
    start: u64,
    undo: Undo,
}

impl Active {
    /// Whether leases may be judged wrongly since its start: the guarantee supposes that the leader's clock runs at its
    /// rate.
    fn bends_time(&self, recorder: &Recorder) -> bool {
        let Undo::Clock(skewed) = &self.undo else { return false };
        self.fault.changes_rate() && recorder.led_since(&skewed.nodes, self.start)
    }
}

/// What is to be done at its end.
enum Undo {
    /// Start these nodes.
    Start(Vec<usize>),
    /// Let these go on.
    Continue(Vec<usize>),
    /// Lift the faults of the network; this many packets had been touched before.
    Lift {
        overlay: u64,
        touched: u64,
    },
    /// A task that goes on doing it until it is told to end.
    Stop(tokio::task::JoinHandle<u64>, tokio::sync::oneshot::Sender<()>),
    /// What the clock, disk and squeeze modules know.
    Clock(clock::Skewed),
    Disk(disk::Damaged),
    Squeeze(squeeze::Squeezed),
    /// It was over at once; what was seen.
    Nothing(String),
}

/// What was done, in words, and what is to be done at its end.
type Injected = Result<(String, Undo), Skipped>;

/// Why a fault was not done.
enum Skipped {
    /// This machine cannot.
    NotHere(String),
    /// Not in this moment: there was no leader, for example.
    NotNow(String),
}

impl World {
    /// Prepares what a run with these faults needs.
    pub(crate) fn new(cluster: ChaosCluster, network: Network, recorder: Arc<Recorder>, seed: u64, folder: PathBuf) -> World {
        let random = SmallRng::seed_from_u64(seed);
        World { cluster, network, recorder, random, not_covered: BTreeMap::new(), complaints: Vec::new(), folder }
    }

    /// Gets the nodes ready for these faults, before their first start.
    pub(crate) fn prepare(&mut self, faults: &[Fault]) {
        disk::prepare(self, faults);
        clock::prepare(self, faults);
    }

    /// Ends the nodes, and removes what faults have left on this machine, and the nodes' data.
    pub(crate) fn tidy(&mut self) {
        disk::thaw(&self.folder, self.cluster.nodes.len());
        self.cluster.end();
        disk::tidy(&self.folder, self.cluster.nodes.len());
    }

    fn nodes(&self) -> Vec<usize> {
        (1..=self.cluster.nodes.len()).collect()
    }

    /// The leader; none if there is no leader within a while.
    async fn leader(&mut self) -> Result<usize, Skipped> {
        for _ in 0..20 {
            if let Some(leader) = self.cluster.leader().await {
                return Ok(leader);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(Skipped::NotNow("nobody leads".to_owned()))
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

    /// Starts nodes that do not run.
    fn start(&mut self, ids: &[usize]) {
        for id in ids {
            if !self.cluster.node(*id).runs() {
                let started = self.cluster.start(*id);
                self.note(started);
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

    fn note(&mut self, done: Result<(), String>) {
        if let Err(why) = done {
            self.complaints.push(why);
        }
    }

    /// For so long, faults and quiet take turns: each fault alone first, for which there is more time if need be, then
    /// also pairs.
    pub(crate) async fn torment(&mut self, faults: &[Fault], length: Duration, rhythm: Rhythm) {
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
                // What could not be done now is tried again later.
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

    /// Does faults together, and heals them: whether any took effect.
    async fn round(&mut self, chosen: &[Fault], rhythm: Rhythm) -> bool {
        let mut active = Vec::new();
        for fault in chosen {
            let start = self.recorder.now();
            match self.inject(*fault).await {
                Ok((detail, undo)) => {
                    say(&format!("{:7.1} s  {}: {detail}", seconds(start), fault.name()));
                    active.push(Active { fault: *fault, detail, start, undo });
                }
                Err(Skipped::NotHere(why)) => {
                    say(&format!("not covered here: {}: {why}", fault.name()));
                    self.not_covered.insert(fault.name(), why);
                }
                Err(Skipped::NotNow(why)) => say(&format!("{:7.1} s  {} left out: {why}", seconds(start), fault.name())),
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
            let told = match &effect {
                Ok(what) => format!("healed ({what})"),
                Err(why) => format!("healed; it had no effect: {why}"),
            };
            say(&format!("{:7.1} s  {}: {told}", seconds(end), one.fault.name()));
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

    /// A fault lasts, and longer where clients should have success and had too little yet: on a busy machine all takes
    /// longer.
    async fn hold(&mut self, length: Duration, active: &[Active]) {
        let start = self.recorder.now();
        let alone = active.len() == 1 && active[0].fault.leaves_majority();
        let until = start + micros(length);
        let at_most = if alone { start + PATIENCE * micros(length) } else { until };
        let enough = |world: &World| world.recorder.successes_since(start) >= SUCCESSES_PER_FAULT;
        while self.recorder.now() < until || (self.recorder.now() < at_most && !enough(self)) {
            tokio::time::sleep(LOOK_EVERY).await;
            for id in self.nodes() {
                if self.cluster.node(id).has_ended() {
                    let explained = active.iter().any(|one| one.fault.may_end_nodes());
                    let log = self.cluster.node(id).last_line();
                    if explained {
                        say(&format!("          node {id} has ended: {log}"));
                    } else {
                        self.complaints.push(format!("node {id} has ended by itself: {log}"));
                    }
                }
            }
        }
    }

    /// Nothing is wrong: no node may end.
    async fn quiet(&mut self, length: Duration) {
        let until = self.recorder.now() + micros(length);
        while self.recorder.now() < until {
            tokio::time::sleep(LOOK_EVERY.min(length)).await;
            for id in self.nodes() {
                if self.cluster.node(id).has_ended() {
                    let log = self.cluster.node(id).last_line();
                    self.complaints.push(format!("node {id} has ended by itself, with nothing wrong: {log}"));
                    tokio::time::sleep(RESTART_AFTER).await;
                    self.restart(&[id]).await;
                }
            }
        }
    }

    /// Everything runs again, and a client has success.
    async fn recovered(&mut self) {
        let healed = self.recorder.now();
        let all = self.nodes();
        self.restart(&all).await;
        while self.recorder.successes_since(healed) == 0 {
            if self.recorder.now() - healed > micros(RECOVERED_WITHIN) {
                self.complaints.push(format!("no client had success within {RECOVERED_WITHIN:?} after everything was healed"));
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
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
            Fault::CpuSqueeze => squeeze::cpu(self).await,
            Fault::MemorySqueeze => squeeze::memory(self).await,
            Fault::SlowClients => squeeze::slow_clients(self).await,
        }
    }

    /// Undoes it: what was seen of its effect, or why it had none.
    async fn heal(&mut self, undo: Undo) -> Result<String, String> {
        match undo {
            Undo::Start(ids) => {
                let seen = ids.iter().filter(|id| !self.cluster.nodes[**id - 1].runs()).count();
                // Ready they are when all is healed.
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
            Undo::Squeeze(squeezed) => squeeze::heal(self, squeezed).await,
            Undo::Nothing(seen) => Ok(seen),
        }
    }
}

fn packets(touched: u64) -> Result<String, String> {
    if touched == 0 { Err("no packet came by".to_owned()) } else { Ok(format!("{touched} packets")) }
}

/// How long a fault lasts, and how long it is quiet between two.
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

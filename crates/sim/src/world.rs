//! A cluster of simulated machines: each has a disk, runs one process at a time, and runs the product's own node and
//! router.

mod calls;

pub(crate) use calls::{AnsweredWithin, CallReply, from_client};

use crate::{
    calm::Calm,
    client_kind::ClientKind,
    conditions::Flushes,
    coverage::{Coverage, Probe},
    disk::Disk,
    facts::{Fact, Physics},
    host::{Host, HostRuntime, TRUE_RATE},
    net::Net,
    oracle::Oracle,
    plan::ScenarioPlan,
    trace,
};
use fairhold_http::{Admin, ApiService, Exposition, ServerInfo, router};
use fairhold_node::{Node, NodeParts};
use fairhold_raft::{FatalReason, MemberAddress, PeerService, Replica, ReplicaConfig, defect::NoDefectStore};
use fairhold_types::{Incarnation, NodeId, dto::Host as HostView};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How long a node that ended on its own stays down.
const DOWN_FOR: Duration = Duration::from_millis(500);
/// The flush times of an empty disk.
const EMPTY_DISK_FLUSHES: Flushes = Flushes { at_least: Duration::ZERO, micros: 1_500 };
/// How late the second copy of a request may arrive, by the clock of the fastest machine. A server remembers ids and
/// keys for 60 s.
const ECHO_MS_MAX: u64 = 50_000;
/// The peer port of every node before its address changes.
const PORT: u16 = 7271;
/// Entries kept behind a snapshot.
const LOG_KEPT: u64 = 3;

/// A running node.
#[derive(Clone)]
pub(crate) struct RunningNode {
    pub(crate) replica: Replica<HostRuntime>,
    pub(crate) node: Node<HostRuntime>,
    pub(crate) api: ApiService,
}

struct Slot {
    disk: Disk,
    /// The machine's own disk, while another one replaces it.
    own: Option<Disk>,
    /// Whether the replacement is a backup of the machine's own disk.
    is_backup: bool,
    rate: u64,
    lives: u64,
    host: Option<Arc<Host>>,
    running: Option<RunningNode>,
}

struct WorldInner {
    slots: BTreeMap<NodeId, Slot>,
    /// The lives of machines in which a failpoint has failed: their nodes may end.
    spoiled: BTreeSet<(NodeId, u64)>,
    /// How often all machines got new addresses.
    address_changes: u16,
    rng: SmallRng,
}

/// The simulated world. Clones are the same world.
#[derive(Clone)]
pub(crate) struct World {
    inner: Arc<Mutex<WorldInner>>,
    ring_bytes: u64,
    pace: Duration,
    /// How large a state the nodes can hold, if it is limited.
    pub(crate) state_bytes: Option<u64>,
    snapshot_every: u64,
    /// Whether one of the clients is an administrator, which can change locks and end grants of other clients.
    pub(crate) has_administrator: bool,
    pub(crate) is_too_far_apart: bool,
    /// How late the second copy of a request may arrive, in milliseconds.
    pub(crate) echo_ms_max: u64,
    pub(crate) calm: Calm,
    pub(crate) net: Net,
    pub(crate) oracle: Oracle,
    pub(crate) coverage: Coverage,
}

impl World {
    /// A world of machines that are off, with empty disks.
    pub(crate) fn new(plan: &ScenarioPlan, coverage: Coverage) -> World {
        let mut rng = SmallRng::seed_from_u64(plan.seed);
        let net = Net::new(plan.network, rng.random(), coverage.clone());
        let physics = Physics { rate_max: plan.rates.iter().copied().max().unwrap_or(TRUE_RATE) };
        let oracle = Oracle::new(physics, coverage.clone());
        let slots = (1..).zip(&plan.rates).zip(&plan.slow_disks).map(|((id, rate), is_slow)| {
            let flushes = if *is_slow { plan.flushes } else { Flushes { at_least: Duration::ZERO, ..plan.flushes } };
            let disk = Disk::new(Incarnation(u128::from(id) * 100), flushes, rng.random(), coverage.clone());
            (id, Slot { disk, own: None, is_backup: false, rate: *rate, lives: 0, host: None, running: None })
        });
        let slots = slots.collect();
        World {
            inner: Arc::new(Mutex::new(WorldInner { slots, spoiled: BTreeSet::new(), address_changes: 0, rng })),
            ring_bytes: plan.ring_bytes,
            pace: plan.pace,
            state_bytes: plan.state_bytes,
            snapshot_every: plan.snapshot_every,
            has_administrator: plan.clients.iter().any(|client| client.kind == ClientKind::Administrator),
            is_too_far_apart: plan.is_too_far_apart(),
            echo_ms_max: ECHO_MS_MAX * TRUE_RATE / physics.rate_max,
            calm: Calm::new(plan),
            net,
            oracle,
            coverage,
        }
    }

    /// All machines.
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.locked().slots.keys().copied().collect()
    }

    /// Gives every machine a new address. Nodes learn it at their next start.
    pub(crate) fn change_addresses(&self) {
        self.locked().address_changes += 1;
    }

    /// Switches a machine on and starts its node, if it is off.
    pub(crate) fn start(&self, id: NodeId) {
        let mut inner = self.locked();
        let seed = inner.rng.random();
        let Some(slot) = inner.slots.get_mut(&id).filter(|slot| slot.host.is_none()) else { return };
        slot.lives += 1;
        let host = Host::boot(id, slot.lives, slot.rate, seed);
        slot.host = Some(Arc::clone(&host));
        let disk = slot.disk.clone();
        drop(inner);
        self.calm.disturb();
        trace::event(&format!("{host:?} starts"));
        let (world, on) = (self.clone(), Arc::clone(&host));
        drop(host.spawn(async move { world.serve(id, on, disk).await }));
    }

    /// Cuts the power of a machine: unflushed writes may be lost. Returns whether it was on.
    pub(crate) fn crash(&self, id: NodeId) -> bool {
        let mut inner = self.locked();
        let Some(slot) = inner.slots.get_mut(&id) else { return false };
        let Some(host) = slot.host.take() else { return false };
        let running = slot.running.take();
        let disk = slot.disk.clone();
        drop(inner);
        drop(running);
        self.calm.disturb();
        trace::event(&format!("{host:?} crashes"));
        self.net.detach(id);
        host.kill();
        disk.crash();
        true
    }

    /// Restarts a machine with an empty disk, as if it had lost a volume. Its node must be refused. Returns whether it
    /// had its own disk before.
    pub(crate) fn replace_disk_with_empty(&self, id: NodeId) -> bool {
        self.crash(id);
        let mut inner = self.locked();
        let seed = inner.rng.random();
        let Some(slot) = inner.slots.get_mut(&id).filter(|slot| slot.own.is_none()) else { return false };
        let empty = Disk::new(Incarnation(u128::from(id) * 100 + 1), EMPTY_DISK_FLUSHES, seed, self.coverage.clone());
        slot.own = Some(std::mem::replace(&mut slot.disk, empty));
        drop(inner);
        self.start(id);
        true
    }

    /// Restarts a machine with a backup of its disk, as if an operator restored an old copy of the data directory.
    pub(crate) fn replace_disk_with_backup(&self, id: NodeId, backup: Disk) {
        self.crash(id);
        let mut inner = self.locked();
        if let Some(slot) = inner.slots.get_mut(&id).filter(|slot| slot.own.is_none()) {
            slot.own = Some(std::mem::replace(&mut slot.disk, backup));
            slot.is_backup = true;
        }
        drop(inner);
        self.start(id);
    }

    /// Restarts a machine with its own disk, if another one replaces it.
    pub(crate) fn restore_disk(&self, id: NodeId) {
        if self.locked().slots.get(&id).is_none_or(|slot| slot.own.is_none()) {
            return;
        }
        self.crash(id);
        let mut inner = self.locked();
        if let Some(slot) = inner.slots.get_mut(&id)
            && let Some(own) = slot.own.take()
        {
            slot.disk = own;
            slot.is_backup = false;
        }
        drop(inner);
        self.start(id);
    }

    /// Records that a failpoint fails on this machine: if its node ends in this life, that is no violation.
    #[cfg(feature = "failpoints")]
    pub(crate) fn spoil(&self, life: (NodeId, u64)) {
        self.locked().spoiled.insert(life);
    }

    fn is_spoiled(&self, host: &Host) -> bool {
        self.locked().spoiled.contains(&host.name())
    }

    /// How often a machine was switched on.
    pub(crate) fn lives(&self, id: NodeId) -> u64 {
        self.locked().slots.get(&id).map_or(0, |slot| slot.lives)
    }

    /// Whether a failpoint has failed on this machine in this life or a later one: its node may have ended because of it.
    pub(crate) fn was_spoiled_since(&self, id: NodeId, life: u64) -> bool {
        self.locked().spoiled.range((id, life)..=(id, u64::MAX)).next().is_some()
    }

    fn has_own_disk(&self, id: NodeId) -> bool {
        self.locked().slots.get(&id).is_some_and(|slot| slot.own.is_none() || slot.is_backup)
    }

    fn has_backup(&self, id: NodeId) -> bool {
        self.locked().slots.get(&id).is_some_and(|slot| slot.is_backup)
    }

    /// The disk of a machine.
    pub(crate) fn disk(&self, id: NodeId) -> Option<Disk> {
        self.locked().slots.get(&id).map(|slot| slot.disk.clone())
    }

    /// The machine, while it is on.
    pub(crate) fn host(&self, id: NodeId) -> Option<Arc<Host>> {
        self.locked().slots.get(&id).and_then(|slot| slot.host.clone())
    }

    /// The node, while it runs.
    pub(crate) fn running(&self, id: NodeId) -> Option<RunningNode> {
        self.locked().slots.get(&id).and_then(|slot| slot.running.clone())
    }

    /// A node that believes it leads.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let inner = self.locked();
        let mut leaders = inner.slots.iter().filter_map(|(id, slot)| Some((*id, slot.running.as_ref()?)));
        leaders.find(|(_, running)| running.node.is_leader()).map(|(id, _)| id)
    }

    /// Runs a node from its start to its end.
    async fn serve(self, id: NodeId, host: Arc<Host>, disk: Disk) {
        let address_changes = self.locked().address_changes;
        let member =
            |id: u64| MemberAddress { url: format!("http://n{id}:7171"), address: format!("n{id}:{}", PORT + address_changes) };
        let members = self.ids().into_iter().map(|id| (id, member(id))).collect();
        let mut config = ReplicaConfig::new(id, members, disk.incarnation);
        config.snapshot_every = self.snapshot_every;
        config.log_kept = LOG_KEPT;
        let peer_service = PeerService::new(&config);
        let parts = NodeParts::with_event_ring(self.ring_bytes);
        let apply_observer = self.oracle.observer(id, self.has_own_disk(id), self.pace, parts.apply_observer());
        let peer = self.net.peer(Arc::clone(&host), peer_service.service());
        if !disk.has_monotonic_terms() {
            self.oracle
                .violation(format!("terms grow: in the log of node {id} an entry has a lower term than the one before it"));
        }
        let log = disk.mount(&host);
        let started =
            Replica::start(config, peer_service, peer, log.clone(), Arc::new(log), apply_observer, Arc::new(NoDefectStore)).await;
        let replica = match started {
            Ok(replica) => replica,
            Err(error) => {
                if !disk.has_failed() && self.has_own_disk(id) && !self.is_spoiled(&host) {
                    self.oracle.violation(format!("node {id} cannot start: {error}"));
                }
                return self.restart_later(id, &host);
            }
        };
        let node = Node::start(parts, replica.clone());
        if let Some(bytes) = self.state_bytes {
            // Node 1 has the smallest capacity, and the others must follow it.
            node.offer_state_bytes(bytes * id);
        }
        let info = ServerInfo { version: "simulated", host: HostView::default };
        let api = router(node.clone(), info, Admin::open(), Exposition::default());
        self.net.attach(member(id).address, Arc::clone(&host), replica.service());
        if let Some(slot) = self.locked().slots.get_mut(&id) {
            slot.running = Some(RunningNode { replica: replica.clone(), node, api });
        }
        let reason = replica.stopped().await;
        trace::event(&format!("node {id} stopped: {reason}"));
        match reason {
            FatalReason::Stopped => {}
            FatalReason::Failed(_) if disk.has_failed() => {}
            FatalReason::Failed(_) | FatalReason::Formation(_) if self.is_spoiled(&host) => {}
            FatalReason::Failed(error) | FatalReason::Inconsistent(error) => {
                self.oracle.violation(format!("node {id} failed: {error}"))
            }
            FatalReason::Formation(_) if !self.has_own_disk(id) => self.coverage.probe(Probe::WipedMemberGone),
            FatalReason::Formation(error) => self.oracle.violation(format!("node {id} cannot take part: {error}")),
            FatalReason::LostEntries(_) if self.has_backup(id) => {
                self.coverage.probe(Probe::LostEntriesSeen);
                // Its data directory is marked, so the node would not start again.
                self.crash(id);
                return;
            }
            FatalReason::LostEntries(lost) => self.oracle.violation(format!("node {id} wrongly reports lost entries: {lost}")),
        }
        self.restart_later(id, &host);
    }

    /// Switches off the machine of a node that has ended, and switches it on again after a while.
    fn restart_later(&self, id: NodeId, host: &Arc<Host>) {
        let (world, name) = (self.clone(), host.name());
        // Spawned outside the machine, which is about to end.
        drop(SimRuntime::spawn(async move {
            if world.host(id).is_some_and(|host| host.name() == name) {
                world.crash(id);
                SimRuntime::sleep(DOWN_FOR).await;
                world.start(id);
            }
        }));
    }

    /// Crashes the machine at once, and switches it on again after a while.
    #[cfg(feature = "failpoints")]
    pub(crate) fn crash_and_restart(&self, id: NodeId, host: &Arc<Host>) {
        if self.host(id).is_some_and(|current| current.name() == host.name()) {
            self.crash(id);
            let world = self.clone();
            drop(SimRuntime::spawn(async move {
                SimRuntime::sleep(DOWN_FOR).await;
                world.start(id);
            }));
        }
    }

    /// Shuts a node down gracefully, as for an upgrade.
    pub(crate) async fn stop(&self, id: NodeId) -> bool {
        let (Some(host), Some(running)) = (self.host(id), self.running(id)) else { return false };
        let stopping = host.spawn(async move {
            running.node.announce_shutdown();
            running.replica.transfer_leadership().await;
            running.node.shutdown().await;
            running.replica.shutdown().await;
        });
        // A crash may interrupt it.
        drop(SimRuntime::timeout(Duration::from_secs(10), stopping).await);
        true
    }

    /// Counts elections, and reports terms to the oracle.
    pub(crate) async fn count_elections(self) {
        let mut last = None;
        loop {
            SimRuntime::sleep(Duration::from_millis(50)).await;
            let leader = self.leader();
            let led = leader.and_then(|id| self.running(id)).and_then(|running| running.replica.leadership());
            if let Some(led) = led {
                let calm = self.calm.since(trace::since_start());
                self.oracle.observe(&Fact::Term { term: led.term(), calm, at: trace::since_start() });
            }
            if leader.is_some() && leader != last {
                self.coverage.probe(Probe::Elected);
                last = leader;
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, WorldInner> {
        self.inner.lock()
    }
}

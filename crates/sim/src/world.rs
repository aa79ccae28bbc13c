//! A cluster of simulated machines: each has a disk, runs one process at a time, and runs the product's own node and
//! router.

mod calls;
mod disks;
mod life;
mod machines;
mod new_machine;
mod programs;
mod rights;
mod slot;
mod witness;

pub(crate) use calls::{AnsweredWithin, CallReply, from_client};
pub(crate) use new_machine::NewMachine;
pub(crate) use slot::RunningNode;

use crate::{
    calm::Calm,
    client_kind::ClientKind,
    conditions::Flushes,
    coverage::{Coverage, Probe},
    disk::Disk,
    facts::{Fact, Physics},
    host::{Host, TRUE_RATE},
    net::Net,
    oracle::Oracle,
    plan::ScenarioPlan,
    trace,
};
use fairhold_http::Admin;
use fairhold_types::{Incarnation, NodeId};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use slot::Slot;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How late the second copy of a request may arrive, by the clock of the fastest machine. A server remembers ids and
/// keys for 60 s.
const ECHO_MS_MAX: u64 = 50_000;

/// The token of the administrators' file.
pub(crate) const ADMIN_TOKEN: &str = "administrator";

/// Administrators' calls need the token only where users' rights change. Otherwise they are open, as without a file.
fn admin_of(plan: &ScenarioPlan) -> Admin {
    let has_users = plan.clients.iter().any(|client| client.kind == ClientKind::AccessAdministrator);
    if has_users { Admin::guarded(vec![ADMIN_TOKEN.to_owned()]) } else { Admin::open() }
}

struct WorldInner {
    slots: BTreeMap<NodeId, Slot>,
    /// The lives of machines in which a failpoint has failed: their nodes may end.
    spoiled: BTreeSet<(NodeId, u64)>,
    /// How often all first members got new addresses.
    address_changes: u16,
    /// How many machines joined or tried to.
    new_machines: u32,
    rng: SmallRng,
}

/// The simulated world. Clones are the same world.
#[derive(Clone)]
pub(crate) struct World {
    inner: Arc<Mutex<WorldInner>>,
    /// How many nodes formed the cluster.
    founders: u64,
    /// The flush times of the disks of new machines.
    new_disks: Flushes,
    ring_bytes: u64,
    pace: Duration,
    /// How large a state the nodes can hold, if it is limited.
    pub(crate) state_bytes: Option<u64>,
    snapshot_every: u64,
    /// Whether one of the clients is an administrator, which can change locks and end grants of other clients.
    pub(crate) has_administrator: bool,
    pub(crate) is_too_far_apart: bool,
    /// Who may call what is for administrators. While users' rights change, every client but theirs is an administrator.
    admin: Admin,
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
            (id, Slot { is_older: plan.is_upgrade, ..Slot::new(format!("n{id}"), disk, *rate) })
        });
        let slots = slots.collect();
        let inner = WorldInner { slots, spoiled: BTreeSet::new(), address_changes: 0, new_machines: 0, rng };
        World {
            inner: Arc::new(Mutex::new(inner)),
            founders: plan.rates.len() as u64,
            new_disks: Flushes { at_least: Duration::ZERO, ..plan.flushes },
            ring_bytes: plan.ring_bytes,
            pace: plan.pace,
            state_bytes: plan.state_bytes,
            snapshot_every: plan.snapshot_every,
            has_administrator: plan.clients.iter().any(|client| client.kind == ClientKind::Administrator),
            is_too_far_apart: plan.is_too_far_apart(),
            admin: admin_of(plan),
            echo_ms_max: ECHO_MS_MAX * TRUE_RATE / physics.rate_max,
            calm: Calm::new(plan),
            net,
            oracle,
            coverage,
        }
    }

    /// All machines with an id, except those that are off for ever.
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.locked().slots.iter().filter(|(_, slot)| !slot.is_retired).map(|(id, _)| *id).collect()
    }

    /// A machine with an id: this one, or another one if it is off for ever.
    pub(crate) fn id_like(&self, id: NodeId) -> NodeId {
        let ids = self.ids();
        let count = u64::try_from(ids.len()).unwrap_or(1).max(1);
        let another = usize::try_from(id % count).ok().and_then(|index| ids.get(index)).copied();
        if ids.contains(&id) { id } else { another.unwrap_or(id) }
    }

    /// Gives every machine a new address. Nodes learn it at their next start.
    pub(crate) fn change_addresses(&self) {
        self.locked().address_changes += 1;
    }

    /// Switches a machine on and starts its node, if it is off.
    pub(crate) fn start(&self, id: NodeId) {
        let mut inner = self.locked();
        let seed = inner.rng.random();
        let Some(slot) = inner.slots.get_mut(&id).filter(|slot| slot.host.is_none() && !slot.is_retired) else { return };
        slot.lives += 1;
        slot.off_since = None;
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
        slot.off_since = Some(trace::since_start());
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
                self.observe_joint(leader, led.term());
            }
            if leader.is_some() && leader != last {
                self.coverage.probe(Probe::Elected);
                last = leader;
            }
        }
    }

    /// Reports whether the voters in a leader's log are joint.
    fn observe_joint(&self, leader: Option<NodeId>, term: u64) {
        // Without an operator, the voters never change.
        if self.locked().new_machines == 0 {
            return;
        }
        let members = leader.and_then(|id| self.disk(id)).and_then(|disk| disk.members());
        let (at, quiet) = (trace::since_start(), self.calm.is_without_faults());
        if let Some(members) = members {
            self.oracle.observe(&Fact::Voters { term, joint: members.is_joint(), quiet, at });
        }
    }

    fn locked(&self) -> MutexGuard<'_, WorldInner> {
        self.inner.lock()
    }
}

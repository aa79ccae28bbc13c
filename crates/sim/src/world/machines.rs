//! New machines, which have no id before the cluster gives them one, and machines whose node never runs again.

use super::{World, new_machine::NewMachine, slot::Slot};
use crate::{disk::Disk, host::TRUE_RATE, net::CLIENTS, trace};
use fairhold_raft::{JoinRefusal, JoinRequest, Joined};
use fairhold_types::{Incarnation, NodeId};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;
use tokio::sync::oneshot;

/// The data directories of new machines are numbered from here: no other one has a number as high.
const FIRST_INCARNATION: u128 = 1_000_000;
/// The distance of these numbers: an empty disk in place of another one has the next number.
const INCARNATIONS_APART: u128 = 100;
/// How long a new machine waits for an answer. A server takes 5 s at most.
const ANSWERED_WITHIN: Duration = Duration::from_secs(8);

impl World {
    /// A new machine with an address of its own.
    pub(crate) fn new_machine(&self) -> NewMachine {
        let number = self.locked().new_machines + 1;
        self.machine_named(format!("m{number}"))
    }

    /// The machine of a node whose disk is destroyed, with a new disk and the same address.
    pub(crate) fn repaired_machine(&self, id: NodeId) -> NewMachine {
        let name = self.locked().slots.get(&id).map_or_else(|| format!("n{id}"), |slot| slot.name.clone());
        self.machine_named(name)
    }

    fn machine_named(&self, name: String) -> NewMachine {
        let mut inner = self.locked();
        inner.new_machines += 1;
        let incarnation = Incarnation(FIRST_INCARNATION + u128::from(inner.new_machines) * INCARNATIONS_APART);
        let seed = inner.rng.random();
        let rates: Vec<u64> = inner.slots.values().map(|slot| slot.rate).collect();
        let rate = if rates.is_empty() { TRUE_RATE } else { rates[inner.rng.random_range(0..rates.len())] };
        let disk = Disk::new(incarnation, self.new_disks, seed, self.coverage.clone());
        NewMachine { name, disk, rate }
    }

    /// The rate of the fastest clock, in thousandths of the true rate.
    pub(crate) fn fastest_rate(&self) -> u64 {
        self.locked().slots.values().map(|slot| slot.rate).max().unwrap_or(TRUE_RATE)
    }

    /// The machine at an address for peers, if one is there.
    pub(crate) fn machine_at(&self, address: &str) -> Option<NodeId> {
        let inner = self.locked();
        let changes = inner.address_changes;
        let mut on_duty = inner.slots.iter().filter(|(_, slot)| !slot.is_retired);
        on_duty.find(|(_, slot)| slot.address(changes) == address).map(|(id, _)| *id)
    }

    /// Sends the request of a new machine to a node. `None` if no answer arrived, or if the program of that node is older
    /// than join tokens.
    pub(crate) async fn ask_to_join(&self, to: NodeId, request: JoinRequest) -> Option<Result<Joined, JoinRefusal>> {
        if !self.net.pass(CLIENTS, to).await {
            return None;
        }
        let (host, running) = (self.host(to)?, self.running(to)?);
        if self.is_older(to) || host.is_paused() {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        // The new machine may have given up.
        drop(host.spawn(async move { drop(answer.send(running.replica.service().join(request).await)) }));
        let result = SimRuntime::timeout(ANSWERED_WITHIN, answered).await.ok()?.ok()?;
        self.net.pass(to, CLIENTS).await.then_some(result)
    }

    /// Installs the node that the cluster has admitted on its machine, which stays off. Returns whether the id was never used
    /// before.
    pub(crate) fn install(&self, machine: NewMachine, joined: Joined) -> bool {
        let id = joined.id;
        let mut inner = self.locked();
        if inner.slots.contains_key(&id) {
            return false;
        }
        let mut slot = Slot::new(machine.name, machine.disk, machine.rate);
        slot.off_since = Some(trace::since_start());
        slot.joined = Some(joined);
        inner.slots.insert(id, slot);
        true
    }

    /// Switches a machine off for ever: its disk is destroyed, or its node was removed.
    pub(crate) fn retire(&self, id: NodeId) {
        self.crash(id);
        if let Some(slot) = self.locked().slots.get_mut(&id) {
            slot.is_retired = true;
            slot.own = None;
        }
        trace::event(&format!("machine {id} is off for ever"));
    }

    /// Whether a machine never runs again as this node.
    pub(crate) fn is_retired(&self, id: NodeId) -> bool {
        self.locked().slots.get(&id).is_none_or(|slot| slot.is_retired)
    }
}

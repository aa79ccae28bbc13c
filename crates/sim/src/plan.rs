//! The decisions of a seed before a run: the machines, the conditions, the clients, and the faults with their times.

mod additions;

use crate::{
    client_kind::{ClientKind, ClientPlan, some_of},
    conditions::{Flushes, NetworkConditions},
    fault::{Fault, FaultKind, FaultTarget},
    host::TRUE_RATE,
};
use fairhold_types::limits::EVENT_RING_BYTES;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{fmt, time::Duration};

/// Half of the scenarios have only this many kinds of faults and of clients: with all kinds, two of
/// one kind rarely meet.
const FOCUS_KINDS: usize = 3;
const FOCUS_TRADES: usize = 2;
/// In one of this many scenarios, every disk is slow for the whole run.
const SLOW_DISKS_ONE_IN: usize = 8;
/// If a round trip takes this long by a node's own clock, no leader lasts.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(50);
/// In one of this many scenarios, the nodes can hold only a small state.
const SMALL_STATE_ONE_IN: usize = 4;
/// The size of a small state.
const SMALL_STATE_BYTES: u64 = 16_000;
/// The minimum time during which faults and new client rounds begin.
const LASTS: Duration = Duration::from_secs(25);

/// A scenario.
#[derive(Debug, Clone)]
pub(crate) struct ScenarioPlan {
    pub(crate) seed: u64,
    pub(crate) rates: Vec<u64>,
    pub(crate) network: NetworkConditions,
    pub(crate) faults: Vec<Fault>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) lasts: Duration,
    /// The size of the event ring of each node.
    pub(crate) ring_bytes: u64,
    /// How large a state the nodes can hold: in some scenarios, only a few grants fit.
    pub(crate) state_bytes: Option<u64>,
    /// The time of a flush on slow disks.
    pub(crate) flushes: Flushes,
    /// Which disks are slow. The others have no minimum time, but the same chance of a longer flush.
    pub(crate) slow_disks: Vec<bool>,
    /// The minimum time of a round trip, once the cluster has formed.
    pub(crate) round_trip: Duration,
    /// The time of a step of the state machine, at every node.
    pub(crate) pace: Duration,
    /// Whether all nodes begin with the older program.
    pub(crate) is_upgrade: bool,
    /// The commands between two snapshots: few, so that short runs take many snapshots.
    pub(crate) snapshot_every: u64,
    /// The armed failpoints.
    #[cfg(feature = "failpoints")]
    pub(crate) failpoints: Vec<crate::armed_failpoint::ArmedFailpoint>,
}

impl ScenarioPlan {
    /// A scenario of this many nodes without faults and clients.
    #[cfg(test)]
    pub(crate) fn without_faults(size: usize) -> ScenarioPlan {
        let network = NetworkConditions { delay_micros: 200, break_one_in: 0, twice_one_in: 0 };
        ScenarioPlan {
            seed: 0,
            rates: vec![TRUE_RATE; size],
            network,
            faults: Vec::new(),
            clients: Vec::new(),
            lasts: LASTS,
            ring_bytes: EVENT_RING_BYTES,
            state_bytes: None,
            flushes: Flushes { at_least: Duration::ZERO, micros: 1_500 },
            slow_disks: vec![true; size],
            round_trip: Duration::ZERO,
            pace: Duration::ZERO,
            is_upgrade: false,
            snapshot_every: 60,
            #[cfg(feature = "failpoints")]
            failpoints: Vec::new(),
        }
    }

    /// Whether the machines are so far apart that no leader lasts. Then the scenario only promises that the cluster
    /// recovers when they move closer. A fast clock makes them further apart.
    pub(crate) fn is_too_far_apart(&self) -> bool {
        let rate_max = self.rates.iter().copied().max().unwrap_or(TRUE_RATE);
        self.round_trip.as_millis() * u128::from(rate_max) >= ROUND_TRIP_MAX.as_millis() * u128::from(TRUE_RATE)
    }

    /// The scenario of a seed.
    pub(crate) fn of(seed: u64) -> ScenarioPlan {
        let mut rng = SmallRng::seed_from_u64(seed);
        let size = [1, 3, 3, 3, 5][rng.random_range(0..5_usize)];
        let skewed = rng.random_range(0..4) == 0;
        let rates =
            (0..size).map(|_| if skewed { [500, 800, 1_250, 2_000, 5_000][rng.random_range(0..5_usize)] } else { TRUE_RATE });
        let rates: Vec<u64> = rates.collect();
        let network = NetworkConditions {
            delay_micros: [200, 1_000, 5_000][rng.random_range(0..3_usize)],
            break_one_in: [0, 2_000, 300][rng.random_range(0..3_usize)],
            twice_one_in: [0, 20][rng.random_range(0..2_usize)],
        };
        let focused = rng.random_range(0..2) == 0;
        let mut faults = drawn_faults(&mut rng, size, focused);
        faults.extend(additions::moved(seed));
        let (restarts, operator) = additions::upgrade(seed, size).unzip();
        faults.extend(restarts.into_iter().flatten());
        let (rates, network) = alone_with_an_older_disk(&mut faults, rates, network);
        let has_older_disk = faults.iter().any(|fault| fault.kind == FaultKind::OlderDisk);
        // A node that was read from a backup is the only fault of its scenario, and a change of the members may destroy a disk.
        let (crashes, operators): (Option<Vec<_>>, Option<Vec<_>>) = additions::changes(seed).filter(|_| !has_older_disk).unzip();
        if operators.is_some() {
            // Nobody tells the nodes that joined later of new addresses.
            faults.retain(|fault| fault.kind != FaultKind::ChangeAddresses);
        }
        faults.extend(crashes.into_iter().flatten());
        let (round_trip, network) = additions::far_apart(seed, network);
        let trades = [
            ClientKind::Locker,
            ClientKind::Locker,
            ClientKind::Reader,
            ClientKind::Reader,
            ClientKind::Permits,
            ClientKind::Owner,
            ClientKind::Writer,
            ClientKind::Watcher,
        ];
        let trades = some_of(&mut rng, &trades, if focused { FOCUS_TRADES } else { trades.len() });
        let clients = drawn_clients(&mut rng, &trades).into_iter();
        let (pace, hoarders) = additions::hard_work(seed);
        let clients = clients.chain(additions::more_clients(seed)).chain(hoarders).chain(additions::strangers(seed, &rates));
        let is_upgrade = operator.is_some();
        let clients = clients.chain(additions::access_changes(seed).filter(|_| !is_upgrade));
        #[cfg(feature = "failpoints")]
        let has_operator = operators.is_some();
        let clients = clients.chain(operator).chain(operators.into_iter().flatten()).collect();
        let ring_bytes = [EVENT_RING_BYTES, 20_000, 2_000][rng.random_range(0..3_usize)];
        let snapshot_every = [12, 60][rng.random_range(0..2_usize)];
        let micros = [1_500, 1_500, 20_000][rng.random_range(0..3_usize)];
        // With most of these values, writing a vote takes longer than a candidate's first timeout.
        let at_least = [120, 250, 500].get(rng.random_range(0..SLOW_DISKS_ONE_IN * 3)).copied().unwrap_or(0);
        let flushes = Flushes { at_least: Duration::from_millis(at_least), micros };
        let state_bytes = (rng.random_range(0..SMALL_STATE_ONE_IN) == 0).then_some(SMALL_STATE_BYTES);
        let slow_disks = additions::slow_disks(seed, rates.len());
        ScenarioPlan {
            seed,
            rates,
            network,
            faults,
            clients,
            lasts: LASTS,
            ring_bytes,
            state_bytes,
            flushes,
            slow_disks,
            round_trip,
            pace,
            is_upgrade,
            snapshot_every,
            #[cfg(feature = "failpoints")]
            failpoints: crate::armed_failpoint::of(seed, size, has_operator),
        }
    }
}

fn drawn_clients(rng: &mut SmallRng, trades: &[ClientKind]) -> Vec<ClientPlan> {
    let count = rng.random_range(3..10);
    let client = |number: u32| {
        let kind = trades[rng.random_range(0..trades.len())];
        let rounds = rng.random_range(2..7);
        ClientPlan { kind, name: format!("c{number}"), seed: rng.random(), rounds }
    };
    (0..count).map(client).collect()
}

/// Faults that do not depend on other parts of the scenario.
fn drawn_faults(rng: &mut SmallRng, size: u64, focused: bool) -> Vec<Fault> {
    let kinds = some_of(rng, &FaultKind::DRAWN, if focused { FOCUS_KINDS } else { FaultKind::DRAWN.len() });
    let mut faults: Vec<Fault> = (0..rng.random_range(0..9)).map(|_| fault(rng, size, &kinds)).collect();
    // A majority that lost its disks is another cluster, for which no promise applies.
    let mut wrong_disks = if size == 1 { 1 } else { 0 };
    faults.retain(|fault| {
        wrong_disks += u32::from(fault.kind == FaultKind::WrongDisk);
        fault.kind != FaultKind::WrongDisk || wrong_disks == 1
    });
    faults
}

impl fmt::Display for ScenarioPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} nodes, clock rates {:?}, {:?}", self.rates.len(), self.rates, self.network)?;
        writeln!(f, "{} bytes of events, {:?}, slow disks {:?}", self.ring_bytes, self.flushes, self.slow_disks)?;
        if !self.round_trip.is_zero() {
            writeln!(f, "a message and its answer take {:?} at least", self.round_trip)?;
        }
        if let Some(bytes) = self.state_bytes {
            writeln!(f, "a state of {bytes} bytes at most")?;
        }
        if self.is_upgrade {
            writeln!(f, "all nodes begin with the older program")?;
        }
        writeln!(f, "a snapshot every {} commands", self.snapshot_every)?;
        if !self.pace.is_zero() {
            writeln!(f, "a step of the machine takes {:?}", self.pace)?;
        }
        for fault in &self.faults {
            writeln!(f, "{fault}")?;
        }
        #[cfg(feature = "failpoints")]
        for point in &self.failpoints {
            writeln!(f, "{point}")?;
        }
        for client in &self.clients {
            writeln!(f, "{}: {:?}, {} rounds", client.name, client.kind, client.rounds)?;
        }
        Ok(())
    }
}

/// A node with an older disk has forgotten its promises. Only its leader knows that: if the leader were lost too,
/// no promise would apply. So this is the only fault of its scenario, on a good network.
fn alone_with_an_older_disk(
    faults: &mut Vec<Fault>,
    rates: Vec<u64>,
    network: NetworkConditions,
) -> (Vec<u64>, NetworkConditions) {
    if rates.len() == 1 {
        faults.retain(|fault| fault.kind != FaultKind::OlderDisk);
    }
    let Some(older) = faults.iter().copied().find(|fault| fault.kind == FaultKind::OlderDisk) else { return (rates, network) };
    *faults = vec![older];
    (vec![TRUE_RATE; rates.len()], NetworkConditions { break_one_in: 0, ..network })
}

fn fault(rng: &mut SmallRng, size: u64, kinds: &[FaultKind]) -> Fault {
    let kind = kinds[rng.random_range(0..kinds.len())];
    let target = if rng.random_range(0..2) == 0 { FaultTarget::Leader } else { FaultTarget::Node(rng.random_range(1..=size)) };
    let at = Duration::from_millis(rng.random_range(500..20_000));
    // Short faults end before any node notices them, long ones after every timeout.
    let lasts = Duration::from_millis([rng.random_range(20..400), rng.random_range(400..6_000)][rng.random_range(0..2_usize)]);
    Fault { kind, target, at, lasts }
}

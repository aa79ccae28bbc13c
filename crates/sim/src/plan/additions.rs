//! Optional parts of a scenario. Each is drawn from the seed independently, so that it does not change the rest of the
//! scenario.

use crate::{client_kind::ClientKind, conditions::NetworkConditions, host::TRUE_RATE};
use crate::{
    client_kind::{ClientPlan, some_of},
    fault::{Fault, FaultKind, FaultTarget},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::time::Duration;

/// The seed of the additional clients, and how many kinds they have in one scenario.
const MORE_CLIENTS: u64 = 0x636c_6965_6e74_7321;
const MORE_TRADES: usize = 4;
/// The seed of whether the state machine has much work.
const HARD_WORK: u64 = 0x6861_7264_2077_6f72;
/// The seed of whether there are clients that disconnect without an id: in one of this many scenarios.
const STRANGERS: u64 = 0x7374_7261_6e67_6572;
const STRANGERS_ONE_IN: u32 = 8;
/// The seed of which disks are slow.
const WHICH_DISKS: u64 = 0x6469_736b_7320_7477;
/// The seed of whether the machines are far apart: in one of this many scenarios.
const FAR_APART: u64 = 0x6661_7220_6170_6172;
const FAR_APART_ONE_IN: u32 = 8;
/// The seed of whether the machines get new addresses: in one of this many scenarios.
const OTHER_ADDRESSES: u64 = 0x6f74_6865_7220_6164;
const OTHER_ADDRESSES_ONE_IN: u32 = 16;
/// The seed of whether the cluster is upgraded: in one of this many scenarios.
const UPGRADES: u64 = 0x7570_6772_6164_6573;
const UPGRADES_ONE_IN: u32 = 4;
/// The seed of whether an operator changes the members: in one of this many scenarios.
const CHANGES: u64 = 0x6d65_6d62_6572_7321;
const CHANGES_ONE_IN: u32 = 4;
/// Their round trips, in milliseconds.
const ROUND_TRIPS_MS: [u64; 4] = [5, 40, 60, 150];
/// The seed of whether an administrator changes rights: in one of this many scenarios.
const ACCESS_CHANGES: u64 = 0x7269_6768_7473_2121;
const ACCESS_CHANGES_ONE_IN: u32 = 6;

/// Gives all machines new addresses, in one of sixteen scenarios.
pub(super) fn moved(seed: u64) -> Option<Fault> {
    let mut rng = SmallRng::seed_from_u64(seed ^ OTHER_ADDRESSES);
    (rng.random_range(0..OTHER_ADDRESSES_ONE_IN) == 0).then(|| {
        let at = Duration::from_millis(rng.random_range(500..20_000));
        let lasts = Duration::from_millis(rng.random_range(20..2_000));
        Fault { kind: FaultKind::ChangeAddresses, target: FaultTarget::Leader, at, lasts }
    })
}

/// In one of four scenarios all nodes begin with the older program: the restarts with the other program, and the operator
/// who finalizes the upgrade.
pub(super) fn upgrade(seed: u64, size: u64) -> Option<(Vec<Fault>, ClientPlan)> {
    let mut rng = SmallRng::seed_from_u64(seed ^ UPGRADES);
    if rng.random_range(0..UPGRADES_ONE_IN) > 0 {
        return None;
    }
    let operator = ClientPlan { kind: ClientKind::Upgrader, name: "u".to_owned(), seed: rng.random(), rounds: 1 };
    let mut restarts = Vec::new();
    for id in 1..=size {
        // To the newer program; in one of three cases back to the older one, and to the newer one again.
        let times = if rng.random_range(0..3) == 0 { 3 } else { 1 };
        for _ in 0..times {
            let at = Duration::from_millis(rng.random_range(500..18_000));
            let lasts = Duration::from_millis(rng.random_range(20..2_000));
            restarts.push(Fault { kind: FaultKind::ChangeProgram, target: FaultTarget::Node(id), at, lasts });
        }
    }
    Some((restarts, operator))
}

/// In one of four scenarios an operator changes the members, and another one finalizes the upgrade if that is necessary. The
/// leader crashes during some of the changes.
pub(super) fn changes(seed: u64) -> Option<(Vec<Fault>, Vec<ClientPlan>)> {
    let mut rng = SmallRng::seed_from_u64(seed ^ CHANGES);
    if rng.random_range(0..CHANGES_ONE_IN) > 0 {
        return None;
    }
    let rounds = rng.random_range(3..9);
    let operator = ClientPlan { kind: ClientKind::Operator, name: "o1".to_owned(), seed: rng.random(), rounds };
    let upgrader = ClientPlan { kind: ClientKind::Upgrader, name: "v1".to_owned(), seed: rng.random(), rounds: 1 };
    let count = [0, 0, 1, 2][rng.random_range(0..4_usize)];
    let crash = |_| {
        let at = Duration::from_millis(rng.random_range(500..18_000));
        let lasts = Duration::from_millis(rng.random_range(20..4_000));
        Fault { kind: FaultKind::CrashChanging, target: FaultTarget::Leader, at, lasts }
    };
    let crashes = (0..count).map(crash).collect();
    Some((crashes, vec![operator, upgrader]))
}

/// Adds an administrator who changes the rights of two users while they work, in one of six scenarios. All other clients
/// are administrators there.
pub(super) fn access_changes(seed: u64) -> Option<ClientPlan> {
    let mut rng = SmallRng::seed_from_u64(seed ^ ACCESS_CHANGES);
    if rng.random_range(0..ACCESS_CHANGES_ONE_IN) > 0 {
        return None;
    }
    let rounds = rng.random_range(2..7);
    Some(ClientPlan { kind: ClientKind::AccessAdministrator, name: "a1".to_owned(), seed: rng.random(), rounds })
}

/// Adds some clients of a few kinds, in half of the scenarios.
pub(super) fn more_clients(seed: u64) -> Vec<ClientPlan> {
    let mut rng = SmallRng::seed_from_u64(seed ^ MORE_CLIENTS);
    if rng.random_range(0..2) == 0 {
        return Vec::new();
    }
    let all = [
        ClientKind::Converter,
        ClientKind::Converter,
        ClientKind::Batcher,
        ClientKind::MultiLock,
        ClientKind::Administrator,
        ClientKind::Candidate,
        ClientKind::AsyncAcquirer,
        ClientKind::Transactor,
        ClientKind::Sequencer,
        ClientKind::Inspector,
    ];
    let trades = some_of(&mut rng, &all, MORE_TRADES);
    let client = |number: u32| {
        let kind = trades[rng.random_range(0..trades.len())];
        let rounds = rng.random_range(2..7);
        ClientPlan { kind, name: format!("d{number}"), seed: rng.random(), rounds }
    };
    let count = SmallRng::seed_from_u64(seed.wrapping_add(MORE_CLIENTS)).random_range(2..7);
    (0..count).map(client).collect()
}

/// Adds two clients that disconnect before they learn the id of their grant, in one of eight scenarios. Not with a fast
/// clock: there a server gives up before the faults end.
pub(super) fn strangers(seed: u64, rates: &[u64]) -> Vec<ClientPlan> {
    let mut rng = SmallRng::seed_from_u64(seed ^ STRANGERS);
    if rng.random_range(0..STRANGERS_ONE_IN) > 0 || rates.iter().any(|rate| *rate != TRUE_RATE) {
        return Vec::new();
    }
    let stranger = |number: u32| {
        let (kind, name, seed) = (ClientKind::Disconnecter, format!("s{number}"), rng.random());
        ClientPlan { kind, name, seed, rounds: 40 }
    };
    (0..2).map(stranger).collect()
}

/// Makes each step of the state machine take time, and adds clients that cause much work, in one of eight scenarios.
pub(super) fn hard_work(seed: u64) -> (Duration, Vec<ClientPlan>) {
    let mut rng = SmallRng::seed_from_u64(seed ^ HARD_WORK);
    if rng.random_range(0..8) > 0 {
        return (Duration::ZERO, Vec::new());
    }
    // As on an ordinary machine, and on one that is twenty times slower.
    let pace = [1, 20][rng.random_range(0..2_usize)];
    let hoarder = |number: u32| {
        let (kind, name, seed) = (ClientKind::Hoarder, format!("h{number}"), rng.random());
        ClientPlan { kind, name, seed, rounds: 1 }
    };
    (Duration::from_micros(pace), (0..2).map(hoarder).collect())
}

/// Chooses the slow disks: all of them in half of the scenarios, otherwise each with a probability of one half.
pub(super) fn slow_disks(seed: u64, size: usize) -> Vec<bool> {
    let mut rng = SmallRng::seed_from_u64(seed ^ WHICH_DISKS);
    let all = rng.random_range(0..2) == 0;
    (0..size).map(|_| all || rng.random_range(0..2) == 0).collect()
}

/// The round trip between distant machines, and their network conditions: their delays vary little.
pub(super) fn far_apart(seed: u64, network: NetworkConditions) -> (Duration, NetworkConditions) {
    let mut rng = SmallRng::seed_from_u64(seed ^ FAR_APART);
    if rng.random_range(0..FAR_APART_ONE_IN) > 0 {
        return (Duration::ZERO, network);
    }
    let round_trip = Duration::from_millis(ROUND_TRIPS_MS[rng.random_range(0..ROUND_TRIPS_MS.len())]);
    (round_trip, NetworkConditions { delay_micros: 200, ..network })
}

//! Optional parts of a scenario. Each is drawn from the seed independently, so that it does not change the rest of the scenario.

use crate::{conditions::Weather, host::TRUE_RATE, trade::Trade};
use crate::{
    fault::{Fault, FaultKind, Whom},
    trade::{ClientPlan, some_of},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::time::Duration;

/// What the clients are drawn by that come in addition, and how many trades they have in one story.
const MORE_CLIENTS: u64 = 0x636c_6965_6e74_7321;
const MORE_TRADES: usize = 4;
/// What decides whether the machine has to work hard.
const HARD_WORK: u64 = 0x6861_7264_2077_6f72;
/// What decides whether there are clients that hang up untold, and in one story of how many there are.
const STRANGERS: u64 = 0x7374_7261_6e67_6572;
const STRANGERS_ONE_IN: u32 = 8;
/// What decides which disks are slow, where not all are.
const WHICH_DISKS: u64 = 0x6469_736b_7320_7477;
/// What decides whether the machines are far apart, and in one story of how many they are.
const FAR_APART: u64 = 0x6661_7220_6170_6172;
const FAR_APART_ONE_IN: u32 = 8;
/// What decides whether the machines get other addresses, and in one story of how many they do.
const OTHER_ADDRESSES: u64 = 0x6f74_6865_7220_6164;
const OTHER_ADDRESSES_ONE_IN: u32 = 16;
/// So far, in milliseconds for a message and its answer.
const ROUND_TRIPS_MS: [u64; 4] = [5, 40, 60, 150];

/// In one story of sixteen all machines get other addresses.
pub(super) fn moved(seed: u64) -> Option<Fault> {
    let mut chance = SmallRng::seed_from_u64(seed ^ OTHER_ADDRESSES);
    (chance.random_range(0..OTHER_ADDRESSES_ONE_IN) == 0).then(|| {
        let at = Duration::from_millis(chance.random_range(500..20_000));
        let lasts = Duration::from_millis(chance.random_range(20..2_000));
        Fault { kind: FaultKind::Moved, whom: Whom::Leader, at, lasts }
    })
}

/// In half of the stories some clients more, of a few trades.
pub(super) fn more_clients(seed: u64) -> Vec<ClientPlan> {
    let mut chance = SmallRng::seed_from_u64(seed ^ MORE_CLIENTS);
    if chance.random_range(0..2) == 0 {
        return Vec::new();
    }
    let all = [
        Trade::Converter,
        Trade::Converter,
        Trade::Batcher,
        Trade::Several,
        Trade::Administrator,
        Trade::Candidate,
        Trade::Asker,
        Trade::Chain,
        Trade::Gardener,
        Trade::Visitor,
    ];
    let trades = some_of(&mut chance, &all, MORE_TRADES);
    let client = |number: u32| {
        let trade = trades[chance.random_range(0..trades.len())];
        let rounds = chance.random_range(2..7);
        ClientPlan { trade, name: format!("d{number}"), seed: chance.random(), rounds }
    };
    let count = SmallRng::seed_from_u64(seed.wrapping_add(MORE_CLIENTS)).random_range(2..7);
    (0..count).map(client).collect()
}

/// In one story of eight two clients that hang up before they are told the id of what they have. Where a clock is fast, a server
/// gives up sooner than the faults end.
pub(super) fn strangers(seed: u64, rates: &[u64]) -> Vec<ClientPlan> {
    let mut chance = SmallRng::seed_from_u64(seed ^ STRANGERS);
    if chance.random_range(0..STRANGERS_ONE_IN) > 0 || rates.iter().any(|rate| *rate != TRUE_RATE) {
        return Vec::new();
    }
    let stranger = |number: u32| {
        let (trade, name, seed) = (Trade::Stranger, format!("s{number}"), chance.random());
        ClientPlan { trade, name, seed, rounds: 40 }
    };
    (0..2).map(stranger).collect()
}

/// In one story of eight each step of the machine takes time, and clients make it work hard.
pub(super) fn hard_work(seed: u64) -> (Duration, Vec<ClientPlan>) {
    let mut chance = SmallRng::seed_from_u64(seed ^ HARD_WORK);
    if chance.random_range(0..8) > 0 {
        return (Duration::ZERO, Vec::new());
    }
    // As long as on a common machine, and as on one that is twenty times slower.
    let pace = [1, 20][chance.random_range(0..2_usize)];
    let hoarder = |number: u32| {
        let (trade, name, seed) = (Trade::Hoarder, format!("h{number}"), chance.random());
        ClientPlan { trade, name, seed, rounds: 1 }
    };
    (Duration::from_micros(pace), (0..2).map(hoarder).collect())
}

/// Every disk in half of the stories, each with an even chance in the others.
pub(super) fn slow_disks(seed: u64, size: usize) -> Vec<bool> {
    let mut chance = SmallRng::seed_from_u64(seed ^ WHICH_DISKS);
    let all = chance.random_range(0..2) == 0;
    (0..size).map(|_| all || chance.random_range(0..2) == 0).collect()
}

/// How far apart the machines are, and the weather there: the time of a message varies little.
pub(super) fn far_apart(seed: u64, weather: Weather) -> (Duration, Weather) {
    let mut chance = SmallRng::seed_from_u64(seed ^ FAR_APART);
    if chance.random_range(0..FAR_APART_ONE_IN) > 0 {
        return (Duration::ZERO, weather);
    }
    let round_trip = Duration::from_millis(ROUND_TRIPS_MS[chance.random_range(0..ROUND_TRIPS_MS.len())]);
    (round_trip, Weather { delay_micros: 200, ..weather })
}

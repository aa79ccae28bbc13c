//! The decisions of a seed before a run: the machines, the conditions, the clients, and the faults with their times.

mod additions;

use crate::{
    conditions::{Flushes, Weather},
    fault::{Fault, FaultKind, Whom},
    host::TRUE_RATE,
    trade::{ClientPlan, Trade, some_of},
};
use fairhold_types::limits::EVENT_RING_BYTES;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{fmt, time::Duration};

/// In half of the stories only so many kinds of faults strike, and the clients have so few trades: what needs two of a kind to
/// meet hardly happens among all.
const FOCUS_KINDS: usize = 3;
const FOCUS_TRADES: usize = 2;
/// In one story of so many every disk is slow, from the beginning to the end.
const SLOW_DISKS_ONE_IN: usize = 8;
/// If a message and its answer take so long by a node's own clock, no leader lasts.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(50);
/// In one story of so many the nodes can hold a small state only.
const SMALL_STATE_ONE_IN: usize = 4;
/// So small.
const SMALL_STATE_BYTES: u64 = 16_000;
/// How long faults strike and clients begin new rounds, at least.
const LASTS: Duration = Duration::from_secs(25);

/// A whole story.
#[derive(Debug, Clone)]
pub(crate) struct StoryPlan {
    pub(crate) seed: u64,
    pub(crate) rates: Vec<u64>,
    pub(crate) weather: Weather,
    pub(crate) faults: Vec<Fault>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) lasts: Duration,
    /// How many bytes of events a node keeps for those who watch.
    pub(crate) ring_bytes: u64,
    /// How large a state the nodes can hold, where they say so: some stories have room for a few grants only.
    pub(crate) state_bytes: Option<u64>,
    /// How long a flush takes, on slow disks.
    pub(crate) flushes: Flushes,
    /// Which disks are slow. The others have the same chance of a longer flush, but no least time.
    pub(crate) slow_disks: Vec<bool>,
    /// How long a message and its answer take at least, once the cluster has formed.
    pub(crate) round_trip: Duration,
    /// How long a step of the machine takes, at every node.
    pub(crate) pace: Duration,
    /// Commands between two snapshots: few, so that short runs have many.
    pub(crate) snapshot_every: u64,
    /// What fails at named points.
    #[cfg(feature = "failpoints")]
    pub(crate) points: Vec<crate::armed_point::ArmedPoint>,
}

impl StoryPlan {
    /// Nothing happens by itself in so many nodes.
    #[cfg(test)]
    pub(crate) fn quiet(size: usize) -> StoryPlan {
        let weather = Weather { delay_micros: 200, break_one_in: 0, twice_one_in: 0 };
        let (rates, faults, clients) = (vec![TRUE_RATE; size], Vec::new(), Vec::new());
        StoryPlan {
            seed: 0,
            rates,
            weather,
            faults,
            clients,
            lasts: LASTS,
            ring_bytes: EVENT_RING_BYTES,
            state_bytes: None,
            flushes: Flushes { at_least: Duration::ZERO, micros: 1_500 },
            slow_disks: vec![true; size],
            round_trip: Duration::ZERO,
            pace: Duration::ZERO,
            snapshot_every: 60,
            #[cfg(feature = "failpoints")]
            points: Vec::new(),
        }
    }

    /// Whether the machines are so far apart that no leader lasts. Then the story promises only that all is well again once they
    /// are near. By a fast clock they are further apart.
    pub(crate) fn is_too_far_apart(&self) -> bool {
        let rate_max = self.rates.iter().copied().max().unwrap_or(TRUE_RATE);
        self.round_trip.as_millis() * u128::from(rate_max) >= ROUND_TRIP_MAX.as_millis() * u128::from(TRUE_RATE)
    }

    /// The story that a seed tells.
    pub(crate) fn of(seed: u64) -> StoryPlan {
        let mut chance = SmallRng::seed_from_u64(seed);
        let size = [1, 3, 3, 3, 5][chance.random_range(0..5_usize)];
        let skewed = chance.random_range(0..4) == 0;
        let rates =
            (0..size).map(|_| if skewed { [500, 800, 1_250, 2_000, 5_000][chance.random_range(0..5_usize)] } else { TRUE_RATE });
        let rates: Vec<u64> = rates.collect();
        let weather = Weather {
            delay_micros: [200, 1_000, 5_000][chance.random_range(0..3_usize)],
            break_one_in: [0, 2_000, 300][chance.random_range(0..3_usize)],
            twice_one_in: [0, 20][chance.random_range(0..2_usize)],
        };
        let focused = chance.random_range(0..2) == 0;
        let kinds = some_of(&mut chance, &FaultKind::DRAWN, if focused { FOCUS_KINDS } else { FaultKind::DRAWN.len() });
        let mut faults: Vec<Fault> = (0..chance.random_range(0..9)).map(|_| fault(&mut chance, size, &kinds)).collect();
        // A majority that has lost its disks is another cluster: nothing can be promised then.
        let mut wrong_disks = if size == 1 { 1 } else { 0 };
        faults.retain(|fault| {
            wrong_disks += u32::from(fault.kind == FaultKind::WrongDisk);
            fault.kind != FaultKind::WrongDisk || wrong_disks == 1
        });
        faults.extend(additions::moved(seed));
        let (rates, weather) = alone_with_an_older_disk(&mut faults, rates, weather);
        let (round_trip, weather) = additions::far_apart(seed, weather);
        let trades = [
            Trade::Locker,
            Trade::Locker,
            Trade::Reader,
            Trade::Reader,
            Trade::Permits,
            Trade::Owner,
            Trade::Writer,
            Trade::Watcher,
        ];
        let trades = some_of(&mut chance, &trades, if focused { FOCUS_TRADES } else { trades.len() });
        let clients = (0..chance.random_range(3..10)).map(|number: u32| {
            let trade = trades[chance.random_range(0..trades.len())];
            let rounds = chance.random_range(2..7);
            ClientPlan { trade, name: format!("c{number}"), seed: chance.random(), rounds }
        });
        let (pace, hoarders) = additions::hard_work(seed);
        let clients =
            clients.chain(additions::more_clients(seed)).chain(hoarders).chain(additions::strangers(seed, &rates)).collect();
        let ring_bytes = [EVENT_RING_BYTES, 20_000, 2_000][chance.random_range(0..3_usize)];
        let snapshot_every = [12, 60][chance.random_range(0..2_usize)];
        let micros = [1_500, 1_500, 20_000][chance.random_range(0..3_usize)];
        // With most of these a vote takes longer to be written than a candidate waits for it by itself.
        let at_least = [120, 250, 500].get(chance.random_range(0..SLOW_DISKS_ONE_IN * 3)).copied().unwrap_or(0);
        let flushes = Flushes { at_least: Duration::from_millis(at_least), micros };
        let state_bytes = (chance.random_range(0..SMALL_STATE_ONE_IN) == 0).then_some(SMALL_STATE_BYTES);
        let slow_disks = additions::slow_disks(seed, rates.len());
        StoryPlan {
            seed,
            rates,
            weather,
            faults,
            clients,
            lasts: LASTS,
            ring_bytes,
            state_bytes,
            flushes,
            slow_disks,
            round_trip,
            pace,
            snapshot_every,
            #[cfg(feature = "failpoints")]
            points: crate::armed_point::of(seed, size),
        }
    }
}

impl fmt::Display for StoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} nodes, clock rates {:?}, {:?}", self.rates.len(), self.rates, self.weather)?;
        writeln!(f, "{} bytes of events, {:?}, slow disks {:?}", self.ring_bytes, self.flushes, self.slow_disks)?;
        if !self.round_trip.is_zero() {
            writeln!(f, "a message and its answer take {:?} at least", self.round_trip)?;
        }
        if let Some(bytes) = self.state_bytes {
            writeln!(f, "a state of {bytes} bytes at most")?;
        }
        writeln!(f, "a snapshot every {} commands", self.snapshot_every)?;
        if !self.pace.is_zero() {
            writeln!(f, "a step of the machine takes {:?}", self.pace)?;
        }
        for fault in &self.faults {
            writeln!(f, "{fault}")?;
        }
        #[cfg(feature = "failpoints")]
        for point in &self.points {
            writeln!(f, "{point}")?;
        }
        for client in &self.clients {
            writeln!(f, "{}: {:?}, {} rounds", client.name, client.trade, client.rounds)?;
        }
        Ok(())
    }
}

/// A node with an older disk has forgotten what it promised. Where its leader, who alone knows, was lost meanwhile, nothing could
/// be promised any more: so it is the only fault of its story, in good weather.
fn alone_with_an_older_disk(faults: &mut Vec<Fault>, rates: Vec<u64>, weather: Weather) -> (Vec<u64>, Weather) {
    if rates.len() == 1 {
        faults.retain(|fault| fault.kind != FaultKind::OlderDisk);
    }
    let Some(older) = faults.iter().copied().find(|fault| fault.kind == FaultKind::OlderDisk) else { return (rates, weather) };
    *faults = vec![older];
    (vec![TRUE_RATE; rates.len()], Weather { break_one_in: 0, ..weather })
}

fn fault(chance: &mut SmallRng, size: u64, kinds: &[FaultKind]) -> Fault {
    let kind = kinds[chance.random_range(0..kinds.len())];
    let whom = if chance.random_range(0..2) == 0 { Whom::Leader } else { Whom::Node(chance.random_range(1..=size)) };
    let at = Duration::from_millis(chance.random_range(500..20_000));
    // Short ones end before anybody noticed, long ones after every timeout.
    let lasts =
        Duration::from_millis([chance.random_range(20..400), chance.random_range(400..6_000)][chance.random_range(0..2_usize)]);
    Fault { kind, whom, at, lasts }
}

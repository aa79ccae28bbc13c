//! The round trips of heartbeats, and when they are too long for this cluster's heartbeat interval.
//!
//! openraft waits for a heartbeat's answer until the next heartbeat is due. If the answers of a majority take longer,
//! the leader believes that it has lost its followers: it serves no reads, and elections repeat.

use crate::base::{aliases::LeaderId, peer::Lane};
use fairhold_types::NodeId;
use openraft::{Instant, RPCTypes};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Weight of the mean: each answer moves it by this fraction of the difference.
const MEAN_OF: u32 = 8;
/// How long a window lasts. `round_trip_watch` begins the next one.
pub(crate) const WINDOW: Duration = Duration::from_secs(5);
/// The number of windows from which the percentiles are taken: one minute.
const WINDOWS: usize = 12;
/// Maximum number of round trips kept for each window: more than there are heartbeats.
const WINDOW_HEARTBEATS_MAX: usize = 256;

/// The round trips of the heartbeats to one node.
struct Measured {
    mean: Duration,
    /// The round trips of the last minute, the newest window last.
    windows: VecDeque<Vec<Duration>>,
}

/// The median and the 99th percentile of the round trips of the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

#[derive(Default)]
struct RoundTripsInner {
    measured: BTreeMap<NodeId, Measured>,
    /// A leadership of this node, and how long it has lasted.
    led_for: Option<(LeaderId, Duration)>,
}

/// The round trips of the last heartbeats, by node. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RoundTrips(Arc<Mutex<RoundTripsInner>>);

impl RoundTrips {
    /// Starts a timer for a request, if it is a heartbeat.
    pub(crate) fn timer<I: Instant>(&self, to: NodeId, lane: Lane, action: &RPCTypes) -> Option<Timer<I>> {
        let is_heartbeat = lane == Lane::Heartbeat && matches!(action, RPCTypes::AppendEntries);
        is_heartbeat.then(|| Timer { round_trips: self.clone(), to, started_at: I::now(), failed: false })
    }

    /// The mean round trip to a node, in whole milliseconds, rounded up.
    pub(crate) fn of(&self, id: NodeId) -> Option<Duration> {
        Some(whole_millis(self.0.lock().measured.get(&id)?.mean))
    }

    /// The percentiles of the round trips to a node in the last minute.
    pub(crate) fn percentiles(&self, id: NodeId) -> Option<Percentiles> {
        let mut sorted: Vec<Duration> = self.0.lock().measured.get(&id)?.windows.iter().flatten().copied().collect();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Percentiles { p50: at(50)?, p99: at(99)? })
    }

    /// How long a majority takes to answer this node as the leader; `None` if too few nodes have been measured.
    pub(crate) fn of_majority(&self, own: NodeId, voters: impl Iterator<Item = NodeId>) -> Option<Duration> {
        let voters: Vec<NodeId> = voters.collect();
        let mut others: Vec<Duration> = voters.iter().filter(|id| **id != own).filter_map(|id| self.of(*id)).collect();
        others.sort_unstable();
        // This node itself counts towards the majority.
        let last_needed = (voters.len() / 2).checked_sub(1)?;
        others.get(last_needed).copied()
    }

    /// Begins the next window of every node.
    pub(crate) fn next_window(&self) {
        for measured in self.0.lock().measured.values_mut() {
            if measured.windows.len() >= WINDOWS {
                measured.windows.pop_front();
            }
            measured.windows.push_back(Vec::new());
        }
    }

    /// Forgets everything: this node no longer leads.
    pub(crate) fn clear(&self) {
        *self.0.lock() = RoundTripsInner::default();
    }

    /// Forgets the nodes that are no members any more.
    pub(crate) fn retain(&self, is_member: impl Fn(NodeId) -> bool) {
        self.0.lock().measured.retain(|id, _| is_member(*id));
    }

    /// Records how long a leadership of this node has lasted.
    pub(crate) fn set_led_for(&self, leadership: LeaderId, led_for: Duration) {
        self.0.lock().led_for = Some((leadership, led_for));
    }

    /// How long this leadership has lasted, as the reconciler last measured it: no member can have been silent for
    /// longer, as far as this node knows.
    pub(crate) fn led_for(&self, leadership: LeaderId) -> Duration {
        self.0.lock().led_for.filter(|(measured, _)| *measured == leadership).map_or(Duration::ZERO, |(_, led_for)| led_for)
    }

    fn record(&self, id: NodeId, took: Duration) {
        let mut inner = self.0.lock();
        let first = || Measured { mean: took, windows: VecDeque::from([Vec::new()]) };
        let measured = inner.measured.entry(id).or_insert_with(first);
        measured.mean = (measured.mean * (MEAN_OF - 1) + took) / MEAN_OF;
        if let Some(window) = measured.windows.back_mut()
            && window.len() < WINDOW_HEARTBEATS_MAX
        {
            window.push(took);
        }
    }
}

impl Percentiles {
    /// In whole milliseconds, rounded up.
    pub(crate) fn in_whole_millis(self) -> Percentiles {
        Percentiles { p50: whole_millis(self.p50), p99: whole_millis(self.p99) }
    }
}

/// Rounds up, so that a round trip never looks shorter than it is, and never like none.
fn whole_millis(took: Duration) -> Duration {
    Duration::from_millis(u64::try_from(took.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// Measures one heartbeat until it is dropped. openraft drops a heartbeat whose answer takes too long, so that counts
/// as well.
pub(crate) struct Timer<I: Instant> {
    round_trips: RoundTrips,
    to: NodeId,
    started_at: I,
    failed: bool,
}

impl<I: Instant> Timer<I> {
    /// Discards the measurement: the connection failed, so neither this time nor the mean means anything.
    pub(crate) fn fail(mut self) {
        self.failed = true;
        self.round_trips.0.lock().measured.remove(&self.to);
    }
}

impl<I: Instant> Drop for Timer<I> {
    fn drop(&mut self) {
        if !self.failed {
            self.round_trips.record(self.to, self.started_at.elapsed());
        }
    }
}

/// Whether round trips are too long. Set above half of a heartbeat interval, cleared below a quarter.
#[derive(Default)]
pub(crate) struct RoundTripAlarm {
    pub(crate) too_long: bool,
}

impl RoundTripAlarm {
    /// Takes a new round trip; returns whether the alarm has changed.
    pub(crate) fn update(&mut self, took: Duration, interval: Duration) -> bool {
        let now = if self.too_long { took * 4 >= interval } else { took * 2 > interval };
        std::mem::replace(&mut self.too_long, now) != now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::AsyncRuntime;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_slowest_node_of_the_fastest_majority_counts() {
        let round_trips = RoundTrips::default();
        assert_eq!(round_trips.of_majority(1, [1].into_iter()), None, "no other voter");
        for (id, took) in [(1, 900), (2, 70), (3, 10), (4, 30)] {
            round_trips.record(id, ms(took));
        }
        assert_eq!(round_trips.of_majority(1, 1..=3), Some(ms(10)));
        assert_eq!(round_trips.of_majority(1, 1..=5), Some(ms(30)), "node 5 has not been measured");
        assert_eq!(round_trips.of_majority(1, [1, 5, 6].into_iter()), None);
    }

    #[test]
    fn the_time_of_an_earlier_leadership_does_not_count_for_a_later_one() {
        let (round_trips, of_term) = (RoundTrips::default(), |term| LeaderId { term, node_id: 1 });
        assert_eq!(round_trips.led_for(of_term(3)), Duration::ZERO);
        round_trips.set_led_for(of_term(3), ms(90_000));
        assert_eq!([3, 5].map(|term| round_trips.led_for(of_term(term))), [ms(90_000), Duration::ZERO]);
    }

    #[test]
    fn only_heartbeats_count_including_dropped_ones() {
        let round_trips = RoundTrips::default();
        assert!(round_trips.timer::<Moment>(2, Lane::Heartbeat, &RPCTypes::Vote).is_none());
        assert!(round_trips.timer::<Moment>(2, Lane::Append, &RPCTypes::AppendEntries).is_none());
        let heartbeat = || round_trips.timer::<Moment>(2, Lane::Heartbeat, &RPCTypes::AppendEntries).unwrap();
        drop(heartbeat());
        assert!(round_trips.of(2).is_some());
        heartbeat().fail();
        assert_eq!(round_trips.of(2), None);
    }

    #[test]
    fn the_percentiles_are_those_of_the_last_minute() {
        let round_trips = RoundTrips::default();
        assert_eq!(round_trips.percentiles(2), None);
        round_trips.record(2, ms(500));
        round_trips.next_window();
        (1..=100).for_each(|took| round_trips.record(2, ms(took)));
        let slow = round_trips.percentiles(2).unwrap();
        assert_eq!((slow.p50, slow.p99), (ms(51), ms(100)));
        (1..WINDOWS).for_each(|_| round_trips.next_window());
        let later = round_trips.percentiles(2).unwrap();
        assert_eq!((later.p50, later.p99), (ms(50), ms(99)), "the first heartbeat is more than a minute old");
        round_trips.retain(|id| id != 2);
        assert_eq!(round_trips.percentiles(2), None);
    }

    #[test]
    fn a_round_trip_is_shown_in_whole_milliseconds_and_never_as_none() {
        let shown = |micros| whole_millis(Duration::from_micros(micros));
        assert_eq!([1, 420, 1_000, 1_001, 9_999].map(shown), [1, 1, 1, 2, 10].map(ms));
        let exact = Percentiles { p50: Duration::from_micros(420), p99: Duration::from_micros(2_100) };
        assert_eq!(exact.in_whole_millis(), Percentiles { p50: ms(1), p99: ms(3) });
    }

    #[test]
    fn a_change_is_reported_once() {
        let mut alarm = RoundTripAlarm::default();
        let changes = [20, 25, 26, 40, 20, 13, 12, 25].map(|took| alarm.update(ms(took), ms(50)));
        assert_eq!(changes, [false, false, true, false, false, false, true, false]);
    }
}

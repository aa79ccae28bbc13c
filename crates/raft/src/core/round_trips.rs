//! The round trips of heartbeats, and when they are too long for this cluster's heartbeat interval.
//!
//! openraft waits for a heartbeat's answer until the next heartbeat is due. If the answers of a majority take longer,
//! the leader believes that it has lost its followers: it serves no reads, and elections repeat.

use crate::base::peer::Lane;
use fairhold_types::NodeId;
use openraft::{Instant, RPCTypes};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Weight of the mean: each answer moves it by this fraction of the difference.
const MEAN_OF: u32 = 8;

/// The mean round trips of the last heartbeats, by node. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RoundTrips(Arc<Mutex<BTreeMap<NodeId, Duration>>>);

impl RoundTrips {
    /// Starts a timer for a request, if it is a heartbeat.
    pub(crate) fn timer<I: Instant>(&self, to: NodeId, lane: Lane, action: &RPCTypes) -> Option<Timer<I>> {
        let is_heartbeat = lane == Lane::Heartbeat && matches!(action, RPCTypes::AppendEntries);
        is_heartbeat.then(|| Timer { round_trips: self.clone(), to, started_at: I::now(), failed: false })
    }

    /// The mean round trip to a node, in whole milliseconds, rounded up.
    pub(crate) fn of(&self, id: NodeId) -> Option<Duration> {
        let mean = self.0.lock().get(&id).copied()?;
        Some(Duration::from_millis(u64::try_from(mean.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)))
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

    fn record(&self, id: NodeId, took: Duration) {
        let mut means = self.0.lock();
        let mean = means.entry(id).or_insert(took);
        *mean = (*mean * (MEAN_OF - 1) + took) / MEAN_OF;
    }
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
        self.round_trips.0.lock().remove(&self.to);
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
    fn a_change_is_reported_once() {
        let mut alarm = RoundTripAlarm::default();
        let changes = [20, 25, 26, 40, 20, 13, 12, 25].map(|took| alarm.update(ms(took), ms(50)));
        assert_eq!(changes, [false, false, true, false, false, false, true, false]);
    }
}

//! The alarms of a node, and when it looked for the first time.

use fairhold_health::alarms::{
    AlarmBoard, AlarmChange, AlarmName,
    readings::{ClusterReading, MachineReading, NodeReading},
};
use fairhold_metrics::Scrape;
use fairhold_types::{dto::Alarm, time::WallMillis};
use openraft_rt::Instant;
use parking_lot::Mutex;
use std::fmt;

/// The alarms, and when the node looked for the first time.
#[derive(Debug)]
pub(crate) struct NodeAlarms<I>(Mutex<(Option<I>, AlarmBoard)>);

impl<I> Default for NodeAlarms<I> {
    fn default() -> Self {
        NodeAlarms(Mutex::new((None, AlarmBoard::default())))
    }
}

impl<I: Instant> NodeAlarms<I> {
    /// Judges what the node sees now, and returns what has changed.
    pub(crate) fn look(&self, wall: WallMillis, machine: MachineReading, cluster: ClusterReading) -> Vec<AlarmChange> {
        let now = I::now();
        let (first, board) = &mut *self.0.lock();
        let now = now.saturating_duration_since(*first.get_or_insert(now));
        board.look(&NodeReading { now, wall, machine, cluster })
    }
}

impl<I> NodeAlarms<I> {
    /// The alarms that are raised.
    pub(crate) fn raised(&self) -> Vec<Alarm> {
        self.0.lock().1.raised()
    }

    /// Writes each alarm into a scrape.
    pub(crate) fn write(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let cells = {
            let (_, board) = &*self.0.lock();
            AlarmName::ALL.map(|name| (name.as_str().to_owned(), u64::from(board.is_raised(name))))
        };
        scrape.gauges("alarm", "1 while this node raises the alarm, otherwise 0", "alarm", cells)
    }
}

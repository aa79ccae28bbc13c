//! The locks by name. A lock has one record: its node with the settings, its queue, its statistics and its history.

use crate::{
    history::{HistoryKey, PastHolding},
    queue::Queue,
    record::{Contender, LockSettings, NodeRole, Znode},
    statistics::Statistics,
    weight::{STATISTICS_BYTES, len},
};
use fairhold_types::{FencingToken, LockName, Revision};
use imbl::{OrdMap, OrdSet, Vector};
use std::{collections::BTreeMap, sync::Arc};

/// Everything about one lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LockRecord {
    /// Its node, with its settings; `None` once it is forgotten. The record stays as long as its history.
    pub(crate) node: Option<Znode>,
    /// Its contenders: a cache.
    pub(crate) queue: Queue,
    /// Its statistics, once there is something to count. They stay as long as the record.
    pub(crate) statistics: Option<Box<Statistics>>,
    /// Its finished holding periods, the oldest end first.
    pub(crate) history: Vector<Arc<PastHolding>>,
}

impl LockRecord {
    pub(crate) fn settings(&self) -> Option<&LockSettings> {
        match &self.node.as_ref()?.role {
            NodeRole::Lock(settings) => Some(settings),
            NodeRole::Data | NodeRole::Contender(_) => None,
        }
    }

    pub(crate) fn settings_mut(&mut self) -> Option<&mut LockSettings> {
        match &mut self.node.as_mut()?.role {
            NodeRole::Lock(settings) => Some(settings),
            NodeRole::Data | NodeRole::Contender(_) => None,
        }
    }

    /// The limit in force; without one, the lock is a mutex.
    pub(crate) fn limit(&self) -> u32 {
        self.settings().and_then(LockSettings::limit_in_force).unwrap_or(1)
    }

    /// The statistics, to count something.
    pub(crate) fn count(&mut self) -> &mut Statistics {
        self.statistics.get_or_insert_default()
    }

    /// Counts a contender's node that will be created. Returns its number in the order of creation.
    pub(crate) fn add_child(&mut self, revision: Revision) -> u32 {
        self.node.as_mut().map_or(0, |node| {
            let sequence = node.creates;
            node.add_child(revision);
            sequence
        })
    }

    /// Makes a contender a holder. Returns whether the lock is an election, and whether its holders need an index.
    pub(crate) fn grant(&mut self, contender: &Contender, token: FencingToken, waited_ms: u64, at_once: bool) -> (bool, bool) {
        self.count().granted(waited_ms, at_once);
        self.queue.grant(contender);
        (self.set_token(token), self.queue.is_unindexed())
    }

    /// Sets the last token. Returns whether the lock is an election.
    pub(crate) fn set_token(&mut self, token: FencingToken) -> bool {
        self.settings_mut().is_some_and(|settings| {
            assert!(settings.last_token <= Some(token), "the fencing token of a lock went back to {token}");
            settings.last_token = Some(token);
            settings.election == Some(true)
        })
    }

    /// The queue, if it has contenders.
    pub(crate) fn busy_queue(&self) -> Option<&Queue> {
        Some(&self.queue).filter(|queue| !queue.is_empty())
    }
}

/// The records of all locks that have a node or a history.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LockTable {
    pub(crate) records: OrdMap<LockName, Arc<LockRecord>>,
    /// How many locks have statistics: a cache.
    pub(crate) counted: usize,
    /// The bytes that the statistics count: a cache.
    pub(crate) counted_bytes: u64,
    /// The locks with a history, by their oldest entry: a cache. Entries of one lock are dropped in order, so this gives
    /// the oldest of all.
    pub(crate) oldest: OrdSet<(HistoryKey, LockName)>,
    /// The number of entries in all histories: a cache.
    pub(crate) past: usize,
    /// The bytes that these entries count: a cache.
    pub(crate) past_bytes: u64,
}

impl LockTable {
    pub(crate) fn get(&self, lock: &str) -> Option<&LockRecord> {
        self.records.get(lock).map(|record| &**record)
    }

    /// A lock's name as the table has it, and its record.
    pub(crate) fn entry(&self, lock: &LockName) -> Option<(&LockName, &LockRecord)> {
        self.records.get_key_value(lock).map(|(lock, record)| (lock, &**record))
    }

    /// The bytes that statistics and histories count. The tree counts the nodes.
    pub(crate) fn bytes(&self) -> u64 {
        self.counted_bytes + self.past_bytes
    }

    /// The same, by a walk over all records.
    pub(crate) fn recounted(&self) -> u64 {
        self.statistics().map(|(lock, _)| statistics_weight(lock)).sum::<u64>() + self.recounted_past()
    }

    /// Changes a record, but not its history.
    #[inline]
    pub(crate) fn update<T>(&mut self, lock: &LockName, change: impl FnOnce(&mut LockRecord) -> T) -> Option<T> {
        let record = Arc::make_mut(self.records.get_mut(lock)?);
        let had_statistics = record.statistics.is_some();
        let changed = change(record);
        if !had_statistics && record.statistics.is_some() {
            self.counted += 1;
            self.counted_bytes += statistics_weight(lock);
        }
        Some(changed)
    }

    /// The node of a lock, to change fields that do not count in its weight.
    pub(crate) fn node_mut(&mut self, lock: &str) -> Option<&mut Znode> {
        Arc::make_mut(self.records.get_mut(lock)?).node.as_mut()
    }

    /// Sets the node of a lock. Returns whether it had one.
    pub(crate) fn insert_node(&mut self, lock: LockName, node: Znode) -> bool {
        self.record_mut(lock).node.replace(node).is_some()
    }

    pub(crate) fn remove_node(&mut self, lock: &LockName) -> Option<Znode> {
        let node = self.update(lock, |record| record.node.take())?;
        self.drop_if_unused(lock);
        node
    }

    /// Replaces the queues of all locks.
    pub(crate) fn set_queues(&mut self, mut queues: BTreeMap<LockName, Queue>) {
        for (lock, _) in self.records.iter().filter(|(_, record)| !record.queue.is_empty()) {
            queues.entry(lock.clone()).or_default();
        }
        for (lock, queue) in queues {
            self.update(&lock, |record| record.queue = queue);
        }
    }

    /// Sets the statistics of a lock from a snapshot.
    pub(crate) fn restore_statistics(&mut self, lock: LockName, statistics: Statistics) {
        self.record_mut(lock.clone());
        self.update(&lock, |record| record.statistics = Some(Box::new(statistics)));
    }

    /// The statistics of all locks that have any.
    pub(crate) fn statistics(&self) -> impl Iterator<Item = (&LockName, &Statistics)> {
        self.records.iter().filter_map(|(lock, record)| Some((lock, &**record.statistics.as_ref()?)))
    }

    /// The record of a lock; a new one if it has none.
    pub(crate) fn record_mut(&mut self, lock: LockName) -> &mut LockRecord {
        Arc::make_mut(self.records.entry(lock).or_default())
    }

    /// Removes a record without a node and a history.
    pub(crate) fn drop_if_unused(&mut self, lock: &LockName) {
        if self.get(lock.as_str()).is_some_and(|record| record.node.is_none() && record.history.is_empty())
            && let Some(record) = self.records.remove(lock)
            && record.statistics.is_some()
        {
            self.counted -= 1;
            self.counted_bytes -= statistics_weight(lock);
        }
    }
}

/// The bytes that the statistics of a lock count.
pub(crate) fn statistics_weight(lock: &LockName) -> u64 {
    STATISTICS_BYTES + len(lock.as_str())
}

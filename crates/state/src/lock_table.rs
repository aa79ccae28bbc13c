//! The locks by name. A lock has one record: its node with the settings, its queue, its statistics and its history. A
//! cache here always agrees with the rest of the state, and is rebuilt from it at a start.

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
    /// Its contenders, if it has any: a cache.
    queue: Option<Box<Queue>>,
    /// Its statistics, once there is something to count. They stay as long as the record.
    pub(crate) statistics: Option<Box<Statistics>>,
    /// Its finished holding periods, in the order in which they ended.
    pub(crate) history: Vector<Arc<PastHolding>>,
}

impl LockRecord {
    pub(crate) fn settings(&self) -> Option<&LockSettings> {
        self.node.as_ref()?.settings()
    }

    pub(crate) fn settings_mut(&mut self) -> Option<&mut LockSettings> {
        if let NodeRole::Lock(settings) = &mut self.node.as_mut()?.role { Some(settings) } else { None }
    }

    /// The limit in force; without one, the lock is a mutex.
    pub(crate) fn limit(&self) -> u32 {
        self.settings().and_then(LockSettings::limit_in_force).unwrap_or(1)
    }

    /// The statistics, to count something.
    pub(crate) fn statistics_mut(&mut self) -> &mut Statistics {
        self.statistics.get_or_insert_default()
    }

    /// Counts a contender's node that will be created. Returns its number in the order of creation.
    pub(crate) fn add_child(&mut self, revision: Revision) -> u32 {
        let Some(node) = &mut self.node else { unreachable!("a lock with a contender has a node") };
        let sequence = node.creates;
        node.add_child(revision);
        sequence
    }

    /// Makes a contender a holder. Returns whether the lock is an election, and whether its holders need an index.
    pub(crate) fn grant(&mut self, contender: &Contender, token: FencingToken, waited_ms: u64, at_once: bool) -> (bool, bool) {
        self.statistics_mut().granted(waited_ms, at_once);
        let queue = self.queue_mut();
        queue.grant(contender);
        let unindexed = queue.is_unindexed();
        (self.set_token(token), unindexed)
    }

    /// Sets the last token. Returns whether the lock is an election: that saves a look-up.
    pub(crate) fn set_token(&mut self, token: FencingToken) -> bool {
        self.settings_mut().is_some_and(|settings| {
            assert!(settings.last_token <= Some(token), "the fencing token of a lock went back to {token}");
            settings.last_token = Some(token);
            settings.election == Some(true)
        })
    }

    /// The queue, if it has contenders.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.queue.as_deref()
    }

    /// The queue of a lock that has or gets a contender.
    pub(crate) fn queue_mut(&mut self) -> &mut Queue {
        self.queue.get_or_insert_default()
    }

    /// Removes a contender from the queue. Returns whether it was the last one.
    pub(crate) fn remove(&mut self, contender: &Contender) -> bool {
        self.queue_mut().remove(contender);
        let was_last = self.queue_mut().is_empty();
        if was_last {
            self.queue = None;
        }
        was_last
    }
}

/// The records of all locks that have a node or a history.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LockTable {
    pub(crate) records: OrdMap<LockName, Arc<LockRecord>>,
    /// How many locks have statistics: a cache.
    pub(crate) with_statistics: usize,
    /// The bytes charged for the statistics: a cache.
    pub(crate) statistics_bytes: u64,
    /// The locks with a history, by their oldest entry: a cache. Entries of one lock are dropped in order, so this gives
    /// the oldest of all.
    pub(crate) oldest: OrdSet<(HistoryKey, LockName)>,
    /// The number of entries in all histories: a cache.
    pub(crate) history_len: usize,
    /// The bytes charged for these entries: a cache.
    pub(crate) history_bytes: u64,
}

impl LockTable {
    pub(crate) fn get(&self, lock: &str) -> Option<&LockRecord> {
        self.records.get(lock).map(|record| &**record)
    }

    /// A lock's name as the table has it, and its record.
    pub(crate) fn entry(&self, lock: &LockName) -> Option<(&LockName, &LockRecord)> {
        self.records.get_key_value(lock).map(|(lock, record)| (lock, &**record))
    }

    /// The bytes charged for statistics and histories. The tree charges the nodes.
    pub(crate) fn bytes(&self) -> u64 {
        self.statistics_bytes + self.history_bytes
    }

    /// The same, by a walk over all records.
    pub(crate) fn recounted(&self) -> u64 {
        self.statistics().map(|(lock, _)| statistics_weight(lock)).sum::<u64>() + self.recounted_history()
    }

    /// Changes a record, and counts new statistics. The caller counts changes of the history.
    #[inline]
    pub(crate) fn update<T>(&mut self, lock: &LockName, change: impl FnOnce(&mut LockRecord) -> T) -> Option<T> {
        let record = Arc::make_mut(self.records.get_mut(lock)?);
        let had_statistics = record.statistics.is_some();
        let changed = change(record);
        if !had_statistics && record.statistics.is_some() {
            self.with_statistics += 1;
            self.statistics_bytes += statistics_weight(lock);
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
    pub(crate) fn set_queues(&mut self, queues: BTreeMap<LockName, Queue>) {
        let busy = self.records.iter().filter(|(_, record)| record.queue.is_some());
        for lock in busy.map(|(lock, _)| lock.clone()).collect::<Vec<_>>() {
            self.update(&lock, |record| record.queue = None);
        }
        for (lock, queue) in queues {
            self.update(&lock, |record| record.queue = Some(Box::new(queue)));
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

    /// Removes the record if it has neither a node nor a history.
    pub(crate) fn drop_if_unused(&mut self, lock: &LockName) {
        if self.get(lock.as_str()).is_some_and(|record| record.node.is_none() && record.history.is_empty())
            && let Some(record) = self.records.remove(lock)
            && record.statistics.is_some()
        {
            self.with_statistics -= 1;
            self.statistics_bytes -= statistics_weight(lock);
        }
    }
}

/// The bytes charged for the statistics of a lock.
pub(crate) fn statistics_weight(lock: &LockName) -> u64 {
    STATISTICS_BYTES + len(lock.as_str())
}

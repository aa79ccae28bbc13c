//! Reads and checks the statistics of each lock and of all locks (`statistics`).

use crate::{State, statistics::Statistics};
use fairhold_types::{GrantNumber, LockName};

impl State {
    /// The statistics of a lock, while its node or its history exists.
    #[must_use]
    pub fn statistics(&self, lock: &LockName) -> Option<&Statistics> {
        self.lock_record(lock)?.statistics.as_deref()
    }

    /// The statistics of all locks since the cluster was formed, forgotten locks included.
    #[must_use]
    pub fn totals(&self) -> &Statistics {
        &self.totals
    }

    pub(crate) fn check_statistics(&self) -> Result<(), String> {
        let locks = &self.tree.locks;
        if locks.statistics().count() != locks.with_statistics {
            return Err(format!("{} locks have statistics, not {}", locks.statistics().count(), locks.with_statistics));
        }
        let mut all: u64 = 0;
        for (lock, record) in &self.tree.locks.records {
            let holders = record
                .queue()
                .into_iter()
                .flat_map(|queue| &queue.holders)
                .filter(|number| !self.index.cooling.contains(*number));
            let first = |number: &GrantNumber| self.contender(*number).is_some_and(|contender| contender.lock == *lock);
            let held: Vec<bool> = holders.map(first).collect();
            all += held.iter().filter(|first| **first).count() as u64;
            let counted = record.statistics.as_deref().cloned().unwrap_or_default();
            if counted.holding() != Some(held.len() as u64) {
                return Err(format!("the statistics of {lock} count {:?} holders, not {}", counted.holding(), held.len()));
            }
            if counted.held.total() < record.history.len() as u64 {
                return Err(format!("the history of {lock} has more entries than its statistics"));
            }
        }
        if self.totals.holding() != Some(all) {
            return Err(format!("the totals count {:?} held grants, but there are {all}", self.totals.holding()));
        }
        Ok(())
    }
}

//! Reads and checks the statistics of each lock and of all locks (`statistics`).

use crate::{State, check::ensure, statistics::Statistics};
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
        let (found, counted) = (locks.statistics().count(), locks.with_statistics);
        ensure(found == counted, || format!("{found} locks have statistics, not {counted}"))?;
        let mut all: u64 = 0;
        for (lock, record) in &locks.records {
            let holders = record.queue().into_iter().flat_map(|queue| &queue.holders);
            let holders = holders.filter(|number| !self.index.cooling.contains(*number));
            let first = |number: &GrantNumber| self.contender(*number).is_some_and(|contender| contender.lock == *lock);
            let held: Vec<bool> = holders.map(first).collect();
            all += held.iter().filter(|first| **first).count() as u64;
            let counted = record.statistics.as_deref().cloned().unwrap_or_default();
            let (holding, holders) = (counted.holding(), held.len());
            let agree = holding == Some(holders as u64);
            ensure(agree, || format!("the statistics of {lock} count {holding:?} holders, not {holders}"))?;
            let covered = counted.held.total() >= record.history.len() as u64;
            ensure(covered, || format!("the history of {lock} has more entries than its statistics"))?;
        }
        let counted = self.totals.holding();
        ensure(counted == Some(all), || format!("the totals count {counted:?} held grants, but there are {all}"))
    }
}

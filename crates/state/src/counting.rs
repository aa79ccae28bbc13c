//! Updates the statistics of each lock and of all locks (`statistics`).

use crate::{State, change::Change, history::Holding, record::Contender, statistics::Statistics};
use fairhold_types::{EndReason, GrantNumber, LockName};
use std::{collections::BTreeMap, sync::Arc};

impl Change<'_> {
    /// Counts a contender that was just granted.
    pub(crate) fn count_granted(&mut self, contender: &Contender) {
        let waited = self.at.0.saturating_sub(contender.queued_at.0);
        let at_once = contender.number.0 == self.revision.0;
        self.count(contender, |statistics| statistics.granted(waited, at_once));
    }

    /// Counts a contender that ends now, held or not.
    pub(crate) fn count_ended(&mut self, contender: &Contender, holding: Option<&Holding>, how: EndReason) {
        let held = holding.map(|holding| self.at.0.saturating_sub(holding.from.at.0));
        self.count(contender, |statistics| statistics.ended(held, how));
    }

    /// Counts a holder whose mode changes now. It has one lock.
    pub(crate) fn count_changed_mode(&mut self, holding: &Holding) {
        let held = self.at.0.saturating_sub(holding.from.at.0);
        let contender = self.contender(holding.number).clone();
        self.count(&contender, |statistics| {
            statistics.held.add(held);
            statistics.changed_mode += 1;
        });
    }

    fn count(&mut self, contender: &Contender, mut what: impl FnMut(&mut Statistics)) {
        if !contender.secondary {
            what(Arc::make_mut(&mut self.state.totals));
        }
        match self.state.statistics.get_mut(&contender.lock) {
            Some(statistics) => what(Arc::make_mut(statistics)),
            None => {
                let mut statistics = Statistics::default();
                what(&mut statistics);
                self.state.statistics.insert(contender.lock.clone(), Arc::new(statistics));
            }
        }
    }
}

impl State {
    /// The statistics of a lock, while its node or its history exists.
    #[must_use]
    pub fn statistics(&self, lock: &LockName) -> Option<&Statistics> {
        self.statistics.get(lock).map(|statistics| &**statistics)
    }

    /// The statistics of all locks since the cluster was formed, forgotten locks included.
    #[must_use]
    pub fn totals(&self) -> &Statistics {
        &self.totals
    }

    /// Drops the statistics of locks that have neither a node nor a history.
    pub(crate) fn drop_statistics(&mut self, locks: impl IntoIterator<Item = LockName>) {
        for lock in locks {
            if self.history.count(&lock) == 0 && self.settings(&lock).is_none() {
                self.statistics.remove(&lock);
            }
        }
    }

    pub(crate) fn check_statistics(&self) -> Result<(), String> {
        let mut holding: BTreeMap<&LockName, u64> = BTreeMap::new();
        let mut all: u64 = 0;
        for (lock, queue) in &self.index.queues {
            let held: Vec<_> = queue.holders.iter().filter(|number| !self.index.cooling.contains(*number)).collect();
            holding.insert(lock, held.len() as u64);
            let first = |number: &&&GrantNumber| self.contender(***number).is_some_and(|contender| contender.lock == *lock);
            all += held.iter().filter(first).count() as u64;
        }
        for (lock, statistics) in self.statistics.iter() {
            if self.settings(lock).is_none() && self.history.count(lock) == 0 {
                return Err(format!("{lock} has statistics but neither a node nor a history"));
            }
            let held = holding.remove(lock).unwrap_or(0);
            if statistics.holding() != Some(held) {
                return Err(format!("the statistics of {lock} count {:?} holders, but it has {held}", statistics.holding()));
            }
            if statistics.held.total() < self.history.count(lock) as u64 {
                return Err(format!("the history of {lock} has more entries than its statistics"));
            }
        }
        if let Some((lock, _)) = holding.into_iter().find(|(_, held)| *held > 0) {
            return Err(format!("{lock} is held but has no statistics"));
        }
        if self.totals.holding() != Some(all) {
            return Err(format!("the totals count {:?} held grants, but there are {all}", self.totals.holding()));
        }
        Ok(())
    }
}

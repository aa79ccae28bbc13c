//! Judges a history. Each checker checks one promise of docs/guarantees.md. `wing_gong` trusts no revision; the others
//! do.

mod administration;
mod batches;
mod blind;
mod coverage;
mod durability;
mod ephemerals;
mod fences;
mod fencing;
mod leases;
mod order;
mod overdue;
mod pairs;
#[cfg(test)]
pub(crate) mod plant;
mod queue;
mod replay;
mod rights;
mod watches;
mod wing_gong;

pub(crate) use blind::blind;
pub(crate) use coverage::{FaultCoverage, RunRequirements, coverage, longest_gap};
pub(crate) use leases::lives;

use crate::{history::History, workload::Workload};
use std::collections::BTreeMap;

/// The maximum number of findings that a report shows of one checker.
const FINDINGS_MAX: usize = 20;

/// The result of a checker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Its name.
    pub(crate) name: &'static str,
    /// The promise, as text.
    pub(crate) promise: &'static str,
    /// How many things it checked.
    pub(crate) checked: usize,
    /// How many of them belong to each workload.
    of_workload: BTreeMap<&'static str, usize>,
    /// The violations.
    pub(crate) broken: Vec<String>,
    /// The undecided cases.
    pub(crate) undecided: Vec<String>,
}

impl Check {
    fn new(name: &'static str, promise: &'static str) -> Check {
        let (broken, undecided) = (Vec::new(), Vec::new());
        Check { name, promise, checked: 0, of_workload: BTreeMap::new(), broken, undecided }
    }

    /// Counts one more checked thing, with this key.
    fn count(&mut self, key: &str) {
        self.checked += 1;
        if let Some(workload) = Workload::of(key) {
            *self.of_workload.entry(workload.name()).or_default() += 1;
        }
    }

    /// How many things of this workload it checked.
    fn checked_of(&self, workload: Workload) -> usize {
        self.of_workload.get(workload.name()).copied().unwrap_or(0)
    }

    fn broken(&mut self, what: impl FnOnce() -> String) {
        match self.broken.len() {
            0..FINDINGS_MAX => self.broken.push(what()),
            FINDINGS_MAX => self.broken.push("… and more of the same".to_owned()),
            _more => {}
        }
    }
}

/// The results of all checkers. `blind` says which of them must have checked something.
pub(crate) fn all(history: &History) -> Vec<Check> {
    let mut checks = vec![
        order::check(history),
        replay::check(history),
        queue::check(history),
        fencing::check(history),
        fences::check(history),
        pairs::check(history),
        batches::check(history),
        administration::check(history),
        leases::check(history),
        overdue::check(history),
        ephemerals::check(history),
        watches::check(history),
        durability::check(history),
        wing_gong::locks::check(history),
        wing_gong::registers::check(history),
    ];
    checks.extend(rights::checks(history));
    checks
}

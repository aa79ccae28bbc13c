//! Judges a history. Each checker looks at one promise of docs/guarantees.md; `wing_gong` believes no revision, the others do.

mod administration;
mod batches;
mod coverage;
mod durability;
mod fences;
mod fencing;
mod leases;
mod order;
mod pairs;
#[cfg(test)]
pub(crate) mod plant;
mod queue;
mod replay;
mod watches;
mod wing_gong;

pub(crate) use coverage::{Cover, Demands, coverage, longest_gap};
pub(crate) use leases::lives;

use crate::history::History;

/// Findings that a report shows of one checker: the rest is more of the same.
const FINDINGS_MAX: usize = 20;

/// What a checker found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it makes sure of, in words.
    pub(crate) promise: &'static str,
    /// How many things it looked at.
    pub(crate) looked_at: usize,
    /// What broke the promise.
    pub(crate) broken: Vec<String>,
    /// What it could not decide.
    pub(crate) undecided: Vec<String>,
}

impl Check {
    fn new(name: &'static str, promise: &'static str) -> Check {
        Check { name, promise, looked_at: 0, broken: Vec::new(), undecided: Vec::new() }
    }

    fn broken(&mut self, what: impl FnOnce() -> String) {
        match self.broken.len() {
            0..FINDINGS_MAX => self.broken.push(what()),
            FINDINGS_MAX => self.broken.push("… and more of the same".to_owned()),
            _more => {}
        }
    }
}

/// All checkers that had something to check.
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
        watches::check(history),
        durability::check(history),
        wing_gong::locks::check(history),
        wing_gong::registers::check(history),
    ];
    checks.retain(|check| check.looked_at > 0);
    checks
}

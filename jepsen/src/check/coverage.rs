//! Whether a run proves anything: each fault must take effect, and clients must succeed during it. Otherwise the run is
//! invalid.

use crate::{
    history::{Call, FaultSpan, History},
    nemesis::{FAULTS, Fault},
};
use std::collections::BTreeMap;

/// The requirements of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunRequirements<'a> {
    /// The requested faults.
    pub(crate) faults: &'a [Fault],
    /// The requested faults that were injected alone.
    pub(crate) alone: &'a [Fault],
    /// The requested faults that this machine cannot inject, and why.
    pub(crate) not_covered: &'a BTreeMap<&'static str, String>,
    /// How many operations must have succeeded in total.
    pub(crate) successes: usize,
    /// How many operations must have succeeded during each fault that leaves a majority, over all its periods.
    pub(crate) successes_each: usize,
}

/// The coverage of a fault in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FaultCoverage {
    /// The fault.
    pub(crate) fault: Fault,
    /// How often it took effect.
    pub(crate) times: usize,
    /// The number of operations sent while it was in effect.
    pub(crate) sent: usize,
    /// How many of them succeeded.
    pub(crate) succeeded: usize,
    /// How many of the successful ones were grants.
    pub(crate) grants: usize,
    /// The longest time without a success, from its start until `AFTER_FAULT` after its end, in microseconds.
    pub(crate) longest_gap: u64,
}

/// How long after a fault gaps still count, in microseconds: a gap may last beyond the fault's end.
const AFTER_FAULT: u64 = 5_000_000;

/// The coverage of each fault, and the reasons why the run proves nothing.
pub(crate) fn coverage(history: &History, requirements: &RunRequirements<'_>) -> (Vec<FaultCoverage>, Vec<String>) {
    let mut missing = Vec::new();
    let mut successes: Vec<u64> = history.ops.iter().filter(|op| op.is_ok()).map(|op| op.end).collect();
    successes.sort_unstable();
    if successes.len() < requirements.successes {
        missing.push(format!("only {} operations succeeded; at least {} are required", successes.len(), requirements.successes));
    }
    let mut covers = Vec::new();
    for fault in
        FAULTS.iter().filter(|fault| requirements.faults.contains(fault) && !requirements.not_covered.contains_key(fault.name()))
    {
        let cover = cover(history, *fault, &successes);
        // In a pair, the other fault may prevent its effect, or any success.
        let alone = requirements.alone.contains(fault);
        if alone && cover.times == 0 {
            missing.push(format!("{} never took effect", fault.name()));
        } else if alone && fault.leaves_majority() && cover.succeeded < requirements.successes_each {
            let least = requirements.successes_each;
            missing.push(format!(
                "{}: only {} operations succeeded meanwhile; at least {least} are required",
                fault.name(),
                cover.succeeded
            ));
        }
        covers.push(cover);
    }
    if !requirements.faults.is_empty()
        && requirements.faults.iter().all(|fault| requirements.not_covered.contains_key(fault.name()))
    {
        missing.push("this machine can do none of the requested faults".to_owned());
    }
    (covers, missing)
}

fn cover(history: &History, fault: Fault, successes: &[u64]) -> FaultCoverage {
    let spans: Vec<&FaultSpan> = history.faults.iter().filter(|span| span.fault == fault.name() && span.effect.is_ok()).collect();
    let within = |time: u64| spans.iter().any(|span| (span.start..=span.end).contains(&time));
    let sent: Vec<_> = history.ops.iter().filter(|op| within(op.start)).collect();
    let succeeded = || sent.iter().filter(|op| op.is_ok());
    // After the clients have ended there are no successes either.
    let last = history.ops.last().map_or(0, |op| op.start);
    let gaps = spans.iter().map(|span| longest_gap(successes, span.start, (span.end + AFTER_FAULT).min(last)));
    FaultCoverage {
        fault,
        times: spans.len(),
        sent: sent.len(),
        succeeded: succeeded().count(),
        grants: succeeded().filter(|op| op.call == Call::Acquire).count(),
        longest_gap: gaps.max().unwrap_or(0),
    }
}

/// The longest time without a success between two moments.
pub(crate) fn longest_gap(successes: &[u64], start: u64, end: u64) -> u64 {
    let from = successes.partition_point(|time| *time < start);
    let (mut last, mut longest) = (start, 0);
    for time in successes[from..].iter().take_while(|time| **time <= end).chain([&end]) {
        longest = longest.max(time.saturating_sub(last));
        last = *time;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, fault, write};

    fn run(effect: Result<String, String>, write_at: u64) -> Vec<String> {
        let mut history = Planted::new().op(write("x", 1).at(write_at, write_at + 1)).done();
        history.faults.push(FaultSpan { start: 100, end: 200, effect, ..fault("kill-leader", false) });
        let not_covered = BTreeMap::new();
        let faults = &[Fault::KillLeader];
        let requirements = RunRequirements { faults, alone: faults, not_covered: &not_covered, successes: 1, successes_each: 1 };
        coverage(&history, &requirements).1
    }

    #[test]
    fn a_run_with_an_effective_fault_and_successes_is_valid() {
        assert_eq!(run(Ok("1 was gone".to_owned()), 150), Vec::<String>::new());
    }

    #[test]
    fn a_fault_without_effect_or_without_successes_makes_it_invalid() {
        assert_eq!(run(Err("it was still there".to_owned()), 150).len(), 1);
        assert_eq!(run(Ok("1 was gone".to_owned()), 250).len(), 1);
    }

    #[test]
    fn the_longest_gap_is_found_at_the_ends_too() {
        assert_eq!(longest_gap(&[10, 20, 90], 0, 100), 70);
        assert_eq!(longest_gap(&[50], 0, 200), 150);
        assert_eq!(longest_gap(&[], 5, 10), 5);
    }
}

//! Figures of all periods in which the same fault was in effect, from a history.

use crate::{
    check::{lives, longest_gap},
    history::{Call, FaultSpan, History, Op, Outcome},
};
use std::collections::BTreeMap;

/// The figures of all periods of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) times: usize,
    /// Operations sent in them.
    pub(super) sent: usize,
    pub(super) succeeded: usize,
    pub(super) unknown: usize,
    /// The times of the successful acquires sent in them, in microseconds, sorted.
    pub(super) acquires: Vec<u64>,
    /// The longest time without any success in each period, in microseconds.
    pub(super) gaps: Vec<u64>,
    /// How often the leader changed.
    pub(super) changes: usize,
    /// After how long another node first led, if one did, in microseconds.
    pub(super) next_leader: Vec<u64>,
    /// The errors that clients received, and how often.
    pub(super) errors: BTreeMap<String, usize>,
    /// How long each lease that expired lived after its last acknowledged renewal was sent, in thousandths of the
    /// lease.
    pub(super) lives: Vec<u64>,
}

impl Measured {
    /// The figures of all periods with that name.
    pub(super) fn of(history: &History, name: &str) -> Measured {
        Measured::of_ops(history, name, |_| true)
    }

    /// The same, for some of the operations.
    pub(super) fn of_ops(history: &History, name: &str, which: impl Fn(&Op) -> bool) -> Measured {
        let mut measured = Measured::default();
        let mut successes: Vec<u64> = history.ops.iter().filter(|op| op.is_ok()).map(|op| op.end).collect();
        successes.sort_unstable();
        let lives = lives(history);
        for span in history.faults.iter().filter(|span| span.fault == name && span.effect.is_ok()) {
            measured.times += 1;
            let within = |time: u64| (span.start..=span.end).contains(&time);
            for op in history.ops.iter().filter(|op| within(op.start) && which(op)) {
                measured.operation(op);
            }
            measured.gaps.push(longest_gap(&successes, span.start, span.end));
            measured.leaders(history, span);
            let ended = lives.iter().filter(|life| within(life.ended) && within(life.sent));
            measured.lives.extend(ended.map(|life| (life.ended - life.sent) * 1_000 / life.ttl.max(1)));
        }
        measured.acquires.sort_unstable();
        measured.lives.sort_unstable();
        measured
    }

    fn operation(&mut self, op: &Op) {
        self.sent += 1;
        match op.outcome {
            Outcome::Ok => self.succeeded += 1,
            Outcome::Unknown => self.unknown += 1,
            Outcome::Fail => {}
        }
        if op.is_ok() && op.call == Call::Acquire {
            self.acquires.push(op.end - op.start);
        }
        if let Some(error) = op.error.as_ref().filter(|_| !op.is_ok()) {
            *self.errors.entry(error.clone()).or_default() += 1;
        }
    }

    fn leaders(&mut self, history: &History, span: &FaultSpan) {
        let mut leader = history.leaders.iter().rev().find(|seen| seen.at <= span.start).map(|seen| seen.node);
        let mut first = None;
        for seen in history.leaders.iter().filter(|seen| seen.at > span.start && seen.at <= span.end) {
            if leader.is_some_and(|node| node != seen.node) {
                self.changes += 1;
                first = first.or(Some(seen.at - span.start));
            }
            leader = Some(seen.node);
        }
        self.next_leader.extend(first);
    }

    /// Percentiles of the acquires, in microseconds.
    pub(super) fn acquire(&self, percent: usize) -> u64 {
        percentile(&self.acquires, percent)
    }

    /// The most frequent errors, as text.
    pub(super) fn frequent_errors(&self) -> String {
        let mut errors: Vec<(&String, &usize)> = self.errors.iter().collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown: Vec<String> = errors.iter().take(4).map(|(error, count)| format!("{count} \"{}\"", error.trim())).collect();
        if shown.is_empty() { "no errors".to_owned() } else { shown.join(", ") }
    }
}

/// A percentile of sorted values, the smallest first; 0 without values.
pub(super) fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(0)
}

/// The smallest and the largest, in milliseconds, as text.
pub(super) fn range(micros: &[u64]) -> String {
    match (micros.iter().min(), micros.iter().max()) {
        (Some(least), Some(most)) => format!("{} to {} ms", least / 1_000, most / 1_000),
        (_, _) => "never".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::plant::{Planted, fault, grant},
        history::Leadership,
    };

    #[test]
    fn operations_sent_in_a_period_count_and_the_next_leader_is_another_node() {
        let mut history = Planted::new().op(grant("a", 1).at(10, 40)).op(grant("a", 2).at(150, 160)).done();
        history.faults.push(fault("slow-sync", false));
        let leads = |at, node, term| Leadership { at, node, term };
        history.leaders = vec![leads(0, 1, 1), leads(30, 1, 2), leads(60, 2, 3), leads(120, 3, 4)];
        let measured = Measured::of(&history, "slow-sync");
        assert_eq!((measured.sent, measured.acquires.as_slice()), (1, [30].as_slice()));
        assert_eq!((measured.changes, measured.next_leader.as_slice()), (1, [60].as_slice()));
        assert_eq!(Measured::of(&history, "nothing").times, 0);
    }

    #[test]
    fn percentiles_of_few_and_of_none() {
        assert_eq!((percentile(&[], 99), percentile(&[7], 50), percentile(&[1, 2, 3, 4], 50)), (0, 7, 3));
    }
}

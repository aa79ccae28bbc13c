//! Which revision was current at which time, as a pure structure: tells the leader's clock which revision is old enough
//! to forget everything before it. A new leader starts without notes, so it only errs late.

use fairhold_types::Revision;
use std::{collections::VecDeque, ops::Add, time::Duration};

/// Past revisions, noted at intervals.
#[derive(Debug)]
pub(crate) struct RevisionClock<I> {
    every: Duration,
    age: Duration,
    /// Oldest first; at most `age / every + 2` entries.
    noted: VecDeque<(I, Revision)>,
    passed: Option<Revision>,
}

impl<I: Copy + Ord + Add<Duration, Output = I>> RevisionClock<I> {
    pub(crate) fn new(every: Duration, age: Duration) -> Self {
        RevisionClock { every, age, noted: VecDeque::new(), passed: None }
    }

    /// Notes the current revision if it is time, and returns the newest revision that is at least `age` old.
    pub(crate) fn passed(&mut self, now: I, revision: Revision) -> Option<Revision> {
        if self.noted.back().is_none_or(|(noted, _)| now >= *noted + self.every) {
            self.noted.push_back((now, revision));
        }
        while let Some((noted, revision)) = self.noted.front().copied()
            && now >= noted + self.age
        {
            self.passed = Some(revision);
            self.noted.pop_front();
        }
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_clock::AtOffset;

    #[test]
    fn the_newest_revision_that_is_old_enough_has_passed() {
        let mut clock = RevisionClock::new(Duration::from_secs(10), Duration::from_secs(100));
        for now in 0..500 {
            // The revision equals the time: the result is at least as old as required, and at most one interval older.
            let passed = clock.passed(AtOffset(now), Revision(now)).map(|revision| revision.0);
            let expected = now.checked_sub(100).map(|age| age / 10 * 10);
            assert_eq!(passed, expected, "at {now}");
            assert!(clock.noted.len() <= 12, "{clock:?}");
        }
    }
}

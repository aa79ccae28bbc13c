//! Which revision was current at which time, as a pure structure: the leader's clock learns which revision is old
//! enough to forget everything before it. A new leader starts without records, so it may forget late, but never early.

use fairhold_types::Revision;
use std::{collections::VecDeque, ops::Add, time::Duration};

/// Past revisions, recorded at intervals.
#[derive(Debug)]
pub(crate) struct RevisionClock<I> {
    every: Duration,
    age: Duration,
    /// Oldest first; at most `age / every + 2` entries.
    recorded: VecDeque<(I, Revision)>,
    passed: Option<Revision>,
}

impl<I: Copy + Ord + Add<Duration, Output = I>> RevisionClock<I> {
    pub(crate) fn new(every: Duration, age: Duration) -> Self {
        RevisionClock { every, age, recorded: VecDeque::new(), passed: None }
    }

    /// Records the current revision if it is time, and returns the newest revision that is at least `age` old.
    pub(crate) fn passed(&mut self, now: I, revision: Revision) -> Option<Revision> {
        if self.recorded.back().is_none_or(|(at, _)| now >= *at + self.every) {
            self.recorded.push_back((now, revision));
        }
        while let Some((at, revision)) = self.recorded.front().copied()
            && now >= at + self.age
        {
            self.passed = Some(revision);
            self.recorded.pop_front();
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
            assert!(clock.recorded.len() <= 12, "{clock:?}");
        }
    }
}

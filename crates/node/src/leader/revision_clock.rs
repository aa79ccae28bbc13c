//! Which revision was current when, as a pure structure: how the leader's clock knows that what is older than a revision is
//! older than a span of time. A new leader begins anew, so it only errs late.

use fairhold_types::Revision;
use std::{collections::VecDeque, ops::Add, time::Duration};

/// The revisions of the past, noted from time to time.
#[derive(Debug)]
pub(crate) struct RevisionClock<I> {
    every: Duration,
    age: Duration,
    /// Oldest first; no more than `age` divided by `every`, and two.
    noted: VecDeque<(I, Revision)>,
    passed: Option<Revision>,
}

impl<I: Copy + Ord + Add<Duration, Output = I>> RevisionClock<I> {
    pub(crate) fn new(every: Duration, age: Duration) -> Self {
        RevisionClock { every, age, noted: VecDeque::new(), passed: None }
    }

    /// Notes the present revision where it is time to, and says up to which revision everything is of that age.
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
    fn what_was_noted_long_enough_ago_has_passed_and_never_what_is_younger() {
        let mut marks = RevisionClock::new(Duration::from_secs(10), Duration::from_secs(100));
        for now in 0..500 {
            // The revision is the time: what has passed is as old as it must be, and at most one mark older.
            let passed = marks.passed(AtOffset(now), Revision(now)).map(|revision| revision.0);
            let expected = now.checked_sub(100).map(|age| age / 10 * 10);
            assert_eq!(passed, expected, "at {now}");
            assert!(marks.noted.len() <= 12, "{marks:?}");
        }
    }
}

//! When the client reads the members of the cluster: every minute, soon after a failure, and at once after a change of
//! the members, then again and again after pauses that grow.
//!
//! The client hears of a change only with its next renewal. By then others may be under way, and whoever replaces one
//! node often replaces them all.

use crate::wire::{backoff::jitter, clock::Moment};
use std::time::Duration;

/// The longest pause between two reads. Each pause is random between the half and the whole of its bound.
const DISCOVER_EVERY: Duration = Duration::from_secs(60);
/// The bound of the first pause after a change. It doubles after each read.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The shortest pause between two reads.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// After a failure, the client reads them once more, unless it has begun to do so more recently than this.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);
/// After a change or a failure, the reads of many clients spread over this time.
const SPREAD: Duration = Duration::from_millis(300);

/// When the next read is due.
#[derive(Debug)]
pub(crate) struct DiscoverySchedule {
    due_at: Moment,
    /// When the newest read began.
    begun_at: Option<Moment>,
    /// The bound of the pause after the next read.
    pause: Duration,
    /// The newest number of the members that a node has named.
    members: Option<u64>,
}

impl DiscoverySchedule {
    /// The first read is due now.
    pub(crate) fn new(now: Moment) -> DiscoverySchedule {
        DiscoverySchedule { due_at: now, begun_at: None, pause: DISCOVER_EVERY, members: None }
    }

    /// How long until the next read is due; zero if it is due.
    pub(crate) fn due_in(&self, now: Moment) -> Duration {
        now.until(self.due_at)
    }

    /// Notes that a read begins.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.due_at = now.plus(jitter(self.pause, 0.5));
        self.begun_at = Some(now);
        self.pause = (self.pause * 2).min(DISCOVER_EVERY);
    }

    /// Notes the number that an answer names. The first one is no change: the client reads the members at its start.
    /// Returns whether the next read is due earlier now.
    pub(crate) fn heard(&mut self, members: u64, now: Moment) -> bool {
        match self.members.replace(members) {
            Some(known) if known != members => {
                self.pause = FIRST_PAUSE;
                self.hasten(now, PAUSE_MIN)
            }
            Some(_) | None => false,
        }
    }

    /// Notes that a node has failed, that an unknown node leads, or that a read told nothing. Returns whether the next
    /// read is due earlier now.
    pub(crate) fn failed(&mut self, now: Moment) -> bool {
        self.hasten(now, FAILURE_PAUSE)
    }

    fn hasten(&mut self, now: Moment, pause: Duration) -> bool {
        let soon = now.plus(jitter(SPREAD, 0.0));
        let soon = self.begun_at.map_or(soon, |begun| soon.max(begun.plus(pause)));
        let is_earlier = soon < self.due_at;
        self.due_at = self.due_at.min(soon);
        is_earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schedule whose first read began now, and answered with this number.
    fn schedule(members: u64) -> (DiscoverySchedule, Moment) {
        let now = Moment::now();
        let mut schedule = DiscoverySchedule::new(now);
        assert_eq!(schedule.due_in(now), Duration::ZERO);
        schedule.begin(now);
        assert!(!schedule.heard(members, now), "the first number is no change");
        assert!(schedule.due_in(now) >= DISCOVER_EVERY / 2);
        (schedule, now)
    }

    #[test]
    fn another_number_is_followed_by_a_read_within_a_fraction_of_a_second() {
        let (mut schedule, begun) = schedule(7);
        let now = begun.plus(PAUSE_MIN);
        assert!(!schedule.heard(7, now) && schedule.due_in(now) > SPREAD, "nothing has changed");
        assert!(schedule.heard(9, now) && schedule.due_in(now) <= SPREAD);
        assert!(!schedule.heard(9, now.plus(SPREAD)), "it is the same number");
    }

    #[test]
    fn reads_are_a_second_apart_however_often_the_members_change() {
        let (mut schedule, mut now) = schedule(0);
        for members in 1..40 {
            schedule.heard(members, now);
            assert!(schedule.due_in(now) >= PAUSE_MIN, "{:?}", schedule.due_in(now));
            now = now.plus(schedule.due_in(now));
            schedule.begin(now);
        }
    }

    #[test]
    fn after_a_change_the_pauses_grow_from_a_second_to_a_minute() {
        let (mut schedule, begun) = schedule(1);
        let mut now = begun.plus(DISCOVER_EVERY);
        schedule.heard(2, now);
        let mut bound = FIRST_PAUSE;
        let mut reads = 0;
        while bound < DISCOVER_EVERY {
            now = now.plus(schedule.due_in(now));
            schedule.begin(now);
            assert!((bound / 2..=bound).contains(&schedule.due_in(now)), "{bound:?}: {:?}", schedule.due_in(now));
            bound *= 2;
            reads += 1;
        }
        assert!(reads >= 4, "only {reads} reads");
        now = now.plus(schedule.due_in(now));
        schedule.begin(now);
        assert!(schedule.due_in(now) >= DISCOVER_EVERY / 2);
    }

    #[test]
    fn the_members_are_read_soon_after_a_failure_and_not_after_each() {
        let (mut schedule, begun) = schedule(1);
        assert!(schedule.failed(begun) && schedule.due_in(begun) == FAILURE_PAUSE);
        let (mut schedule, begun) = self::schedule(1);
        let now = begun.plus(FAILURE_PAUSE);
        assert!(schedule.failed(now) && schedule.due_in(now) <= SPREAD);
    }

    #[test]
    fn many_clients_do_not_read_in_the_same_instant() {
        let due: Vec<Duration> = (0..100)
            .map(|_| {
                let (mut schedule, begun) = schedule(1);
                let now = begun.plus(PAUSE_MIN);
                schedule.heard(2, now);
                schedule.due_in(now)
            })
            .collect();
        let (first, last) = (due.iter().min().unwrap(), due.iter().max().unwrap());
        assert!(*last - *first > SPREAD / 4, "all within {:?}", *last - *first);
    }
}

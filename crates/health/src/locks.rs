//! The rules about locks: what a person should look at, because others wait.

use fairhold_types::{dto::AlarmSeverity, duration::rounded, time::WallMillis};
use std::time::Duration;

/// A holder is remarkable if it holds this many times as long as usual.
const USUAL_TIMES: u32 = 10;
/// A shorter hold is never remarkable.
const HELD_MIN: Duration = Duration::from_secs(600);
/// The percentage of a queue's limit from which on it is nearly full.
const QUEUE_PERCENT: u64 = 80;
/// Deadlocks of one owner are remarkable if this many were refused within `REFUSED_WITHIN`.
const REFUSED_TIMES: u64 = 3;
/// Lost sessions of one owner are remarkable if this many were lost within `LOST_WITHIN`.
pub const LOST_TIMES: u64 = 3;
/// How long a lost session counts.
pub const LOST_WITHIN: Duration = Duration::from_secs(600);
/// How long a refused deadlock counts.
pub const REFUSED_WITHIN: Duration = Duration::from_secs(600);

/// What is known of a lock with waiters.
#[derive(Debug, Clone, Copy)]
pub struct LockReading<'a> {
    /// Its name.
    pub lock: &'a str,
    /// How long its longest holder has held it, if it has one.
    pub held: Option<Duration>,
    /// How long recent holders have usually held it.
    pub usual: Option<Duration>,
    /// How many wait.
    pub waiting: u64,
    /// How many may wait, if an administrator set a limit.
    pub max_waiters: Option<u64>,
}

/// What a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockProblem {
    /// The stable name of the rule.
    pub check: &'static str,
    /// How bad it is.
    pub severity: AlarmSeverity,
    /// What was seen.
    pub seen: String,
    /// What to do.
    pub advice: &'static str,
    /// Since when, if that is known.
    pub since: Option<WallMillis>,
}

/// A holder that holds much longer than usual while others wait.
#[must_use]
pub fn held_too_long(reading: &LockReading<'_>) -> Option<LockProblem> {
    let (held, usual) = (reading.held?, reading.usual?);
    let remarkable = reading.waiting > 0 && held >= HELD_MIN && held >= usual.saturating_mul(USUAL_TIMES);
    remarkable.then(|| LockProblem {
        check: "held_too_long",
        severity: AlarmSeverity::Warning,
        seen: format!(
            "{} has been held for {}; usual is {}, and {} wait",
            reading.lock,
            rounded(held),
            rounded(usual),
            reading.waiting
        ),
        advice: "ask its holder what it is doing; if it hangs: fairhold locks revoke, then fairhold locks break",
        since: None,
    })
}

/// A queue that will soon refuse requests.
#[must_use]
pub fn queue_nearly_full(reading: &LockReading<'_>) -> Option<LockProblem> {
    let max = reading.max_waiters?;
    let nearly_full = reading.waiting > 0 && reading.waiting.saturating_mul(100) >= max.saturating_mul(QUEUE_PERCENT);
    nearly_full.then(|| LockProblem {
        check: "queue_nearly_full",
        severity: AlarmSeverity::Warning,
        seen: format!("{} wait for {}, and {max} may", reading.waiting, reading.lock),
        advice: "find out why its holders take so long, or raise the limit: fairhold locks set --max-waiters N",
        since: None,
    })
}

/// Requests of one owner that were refused within `REFUSED_WITHIN`, because waiting would have caused a deadlock.
#[derive(Debug, Clone, Copy)]
pub struct RefusedReading<'a> {
    /// The owner.
    pub owner: &'a str,
    /// The lock of the newest request.
    pub lock: &'a str,
    /// How many requests.
    pub times: u64,
    /// When the first of them was refused.
    pub since: WallMillis,
}

/// An owner that runs into deadlocks again and again.
#[must_use]
pub fn refused_repeatedly(reading: &RefusedReading<'_>) -> Option<LockProblem> {
    let RefusedReading { owner, lock, times, since } = *reading;
    (times >= REFUSED_TIMES).then(|| LockProblem {
        check: "refused_repeatedly",
        severity: AlarmSeverity::Warning,
        seen: format!("{owner} was refused {times} times within 10 minutes because of deadlocks, the last time for {lock}"),
        advice: "let it acquire all its locks in one request, or let all owners acquire them in the same order",
        since: Some(since),
    })
}

/// Sessions of one owner in which a hold expired within `LOST_WITHIN`.
#[derive(Debug, Clone, Copy)]
pub struct LostReading<'a> {
    /// The owner.
    pub owner: &'a str,
    /// The lock of the newest hold.
    pub lock: &'a str,
    /// How many sessions.
    pub times: u64,
    /// When the first of these holds expired.
    pub since: WallMillis,
}

/// An owner that loses its locks again and again, because its holds expire.
#[must_use]
pub fn lost_repeatedly(reading: &LostReading<'_>) -> Option<LockProblem> {
    let LostReading { owner, lock, times, since } = *reading;
    (times >= LOST_TIMES).then(|| LockProblem {
        check: "lost_repeatedly",
        severity: AlarmSeverity::Warning,
        seen: format!("holds of {owner} expired in {times} sessions within 10 minutes, the last time for {lock}"),
        advice: "look at its log: does it stop, pause for longer than its ttl, or lose its network? If it only needs more time: \
                 a longer ttl or max_hold",
        since: Some(since),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(held: u64, usual: u64, waiting: u64, max_waiters: Option<u64>) -> LockReading<'static> {
        LockReading {
            lock: "deploy",
            held: Some(Duration::from_secs(held)),
            usual: Some(Duration::from_secs(usual)),
            waiting,
            max_waiters,
        }
    }

    #[test]
    fn a_hold_is_remarkable_at_ten_times_the_usual_while_others_wait() {
        for (held, usual, waiting, expected) in [
            (600, 60, 1, true),
            (599, 1, 1, false),
            (600, 61, 1, false),
            (600, 60, 0, false),
            (36_000, 3_600, 9, true),
            (35_999, 3_600, 9, false),
        ] {
            let problem = held_too_long(&reading(held, usual, waiting, None));
            assert_eq!(problem.is_some(), expected, "{held} {usual} {waiting}");
        }
        let seen = held_too_long(&reading(10_920, 40, 12, None)).map(|problem| problem.seen);
        assert_eq!(seen.as_deref(), Some("deploy has been held for 3h02m; usual is 40s, and 12 wait"));
        let never_held = LockReading { usual: None, ..reading(10_000, 0, 1, None) };
        assert_eq!(held_too_long(&never_held), None, "nothing is usual yet");
    }

    #[test]
    fn three_refusals_within_ten_minutes_are_remarkable() {
        let of = |times| refused_repeatedly(&RefusedReading { owner: "ci-9", lock: "stock", times, since: WallMillis(7) });
        assert_eq!(of(2), None);
        let found = of(3).map(|problem| (problem.seen, problem.since));
        let seen = "ci-9 was refused 3 times within 10 minutes because of deadlocks, the last time for stock";
        assert_eq!(found, Some((seen.to_owned(), Some(WallMillis(7)))));
    }

    #[test]
    fn three_sessions_lost_within_ten_minutes_are_remarkable() {
        let of = |times| lost_repeatedly(&LostReading { owner: "ci-9", lock: "stock", times, since: WallMillis(7) });
        assert_eq!(of(2), None);
        let found = of(3).map(|problem| (problem.check, problem.seen, problem.since));
        let seen = "holds of ci-9 expired in 3 sessions within 10 minutes, the last time for stock";
        assert_eq!(found, Some(("lost_repeatedly", seen.to_owned(), Some(WallMillis(7)))));
    }

    #[test]
    fn a_queue_is_nearly_full_at_four_fifths() {
        for (waiting, max_waiters, expected) in
            [(80, Some(100), true), (79, Some(100), false), (100, Some(100), true), (1_000, None, false), (0, Some(0), false)]
        {
            let problem = queue_nearly_full(&reading(1, 1, waiting, max_waiters));
            assert_eq!(problem.is_some(), expected, "{waiting} {max_waiters:?}");
        }
    }
}

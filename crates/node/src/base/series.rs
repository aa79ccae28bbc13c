//! The totals of the last ten minutes by seconds, and of the last twelve hours by minutes. They are only in memory, and
//! their size does not depend on the load.

use crate::api::{RecentTotals, SeriesKey, SeriesRow, SeriesView};
use fairhold_metrics::BucketCounts;
use fairhold_types::{call::SeriesStep, time::WallMillis};
use parking_lot::Mutex;
use std::{collections::VecDeque, time::Duration};

/// How many rows of a second are kept: ten minutes.
const SECONDS_MAX: usize = 600;
/// How many rows of a minute are kept: twelve hours.
const MINUTES_MAX: usize = 720;
/// A row of a minute covers this many rows of a second.
const SECONDS_OF_MINUTE: u64 = 60;
/// The recent totals are over this many rows of a second.
const RECENT_ROWS: usize = 10;

/// What a node reads for a row. The counters only grow, unless the node takes over another state.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// When, by this node's clock.
    pub(crate) at: WallMillis,
    /// Counter: the grants given.
    pub(crate) granted: u64,
    /// Counter: those of them that had to wait.
    pub(crate) handed_over: u64,
    /// Counter: held grants that were released.
    pub(crate) released: u64,
    /// Counter: held grants that expired.
    pub(crate) expired: u64,
    /// Counter: held grants that an administrator broke.
    pub(crate) broken: u64,
    /// Counter: requests for a grant that this node refused.
    pub(crate) refused: u64,
    /// Held grants.
    pub(crate) held: u64,
    /// Queued grants.
    pub(crate) queued: u64,
    /// Sessions, including those made for one grant.
    pub(crate) sessions: u64,
    /// Counters: how long commits took.
    pub(crate) commits: BucketCounts,
    /// Counters: how long syncs of the disk took.
    pub(crate) syncs: BucketCounts,
    /// Counter: answers of the class 5xx at this node.
    pub(crate) server_errors: u64,
    /// The term.
    pub(crate) term: u64,
}

impl Reading {
    /// The row from an earlier reading to this one.
    fn row_since(&self, before: &Reading) -> SeriesRow {
        let grown = |count: fn(&Reading) -> u64| count(self).saturating_sub(count(before));
        // A measured time is never 0: the smallest bound of a bucket is larger.
        let micros = |p99: Option<Duration>| p99.map_or(0, |p99| u64::try_from(p99.as_micros()).unwrap_or(u64::MAX));
        [
            self.at.0,
            grown(|reading| reading.granted),
            grown(|reading| reading.handed_over),
            grown(|reading| reading.released),
            grown(|reading| reading.expired),
            grown(|reading| reading.broken),
            grown(|reading| reading.refused),
            self.held,
            self.queued,
            self.sessions,
            micros(self.commits.p99_since(&before.commits)),
            micros(self.syncs.p99_since(&before.syncs)),
            grown(|reading| reading.server_errors),
            self.term,
        ]
    }
}

/// The newest rows of one step, the oldest first.
#[derive(Debug)]
struct Ring {
    rows: VecDeque<SeriesRow>,
    max: usize,
    /// The number of the newest row, which is also the number of rows so far.
    newest: u64,
    /// The reading at the end of the newest row.
    before: Reading,
}

impl Ring {
    fn new(max: usize, first: Reading) -> Ring {
        Ring { rows: VecDeque::with_capacity(max), max, newest: 0, before: first }
    }

    fn add(&mut self, reading: Reading) {
        if self.rows.len() == self.max {
            self.rows.pop_front();
        }
        self.rows.push_back(reading.row_since(&self.before));
        self.newest += 1;
        self.before = reading;
    }

    /// The kept rows after that number, and whether these are all rows after it.
    fn after(&self, number: u64) -> (Vec<SeriesRow>, bool) {
        let new = self.newest.saturating_sub(number);
        let kept = self.rows.len();
        let wanted = usize::try_from(new).unwrap_or(usize::MAX).min(kept);
        (self.rows.range(kept - wanted..).copied().collect(), new == wanted as u64)
    }
}

/// The rings of a node since its start.
#[derive(Debug)]
struct Rings {
    /// Distinguishes them from those of other nodes, and of other starts of this node. Times do not: clocks step back.
    series: u64,
    seconds: Ring,
    minutes: Ring,
}

/// The rings of a node. They begin with its first reading, which makes no row: there is nothing before it.
#[derive(Debug, Default)]
pub(crate) struct Series(Mutex<Option<Rings>>);

impl Series {
    /// Adds the row that ends with this reading. `new_series` is a random number, needed for the first reading.
    pub(crate) fn add(&self, reading: Reading, new_series: impl FnOnce() -> u64) {
        let mut begun = self.0.lock();
        let Some(rings) = begun.as_mut() else {
            *begun = Some(Rings {
                series: new_series(),
                seconds: Ring::new(SECONDS_MAX, reading.clone()),
                minutes: Ring::new(MINUTES_MAX, reading),
            });
            return;
        };
        rings.seconds.add(reading.clone());
        if rings.seconds.newest.is_multiple_of(SECONDS_OF_MINUTE) {
            rings.minutes.add(reading);
        }
    }

    /// What happened in the newest rows of a second; `None` if there are none.
    pub(crate) fn recent(&self) -> Option<RecentTotals> {
        let begun = self.0.lock();
        let rows = &begun.as_ref()?.seconds.rows;
        let newest = rows.back()?;
        let counted = rows.len().min(RECENT_ROWS);
        // The row before them ends when they begin. The first row covers a second.
        let before = rows.len().checked_sub(counted + 1).map_or(u64::MAX, |before| rows[before][0]);
        // A clock that stepped back says nothing. A row covers one second at least.
        let over = Duration::from_millis(newest[0].saturating_sub(before)).max(Duration::from_secs(counted as u64));
        let mut recent = RecentTotals { over, granted: 0, handed_over: 0, lost: 0, refused: 0 };
        for row in rows.range(rows.len() - counted..) {
            let [_, granted, handed_over, _released, expired, broken, refused, ..] = row;
            recent.granted += granted;
            recent.handed_over += handed_over;
            recent.lost += expired + broken;
            recent.refused += refused;
        }
        Some(recent)
    }

    /// How many held grants expired in the last ten minutes, or since the start of a node that is younger.
    pub(crate) fn expired(&self) -> u64 {
        let begun = self.0.lock();
        let rows = begun.iter().flat_map(|begun| &begun.seconds.rows);
        rows.map(|[_, _granted, _handed_over, _released, expired, ..]| expired).sum()
    }

    /// The rows after that position. All of them if there is no position, or if it is in another series.
    pub(crate) fn read(&self, step: SeriesStep, after: Option<SeriesKey>) -> SeriesView {
        let begun = self.0.lock();
        let Some(rings) = begun.as_ref() else {
            return SeriesView { rows: Vec::new(), to: None, continues: false, next: SeriesKey { step, series: 0, number: 0 } };
        };
        let ring = match step {
            SeriesStep::Second => &rings.seconds,
            SeriesStep::Minute => &rings.minutes,
        };
        let known = after.filter(|after| after.series == rings.series && after.step == step);
        let (rows, has_all) = ring.after(known.map_or(0, |known| known.number));
        SeriesView {
            rows,
            to: ring.rows.back().map(|row| WallMillis(row[0])),
            continues: known.is_some() && has_all,
            next: SeriesKey { step, series: rings.series, number: ring.newest },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_metrics::{Histogram, LATENCY_SECONDS};

    /// What a node without load reads.
    fn idle(at: u64) -> Reading {
        let counts = Histogram::of_seconds(LATENCY_SECONDS).counts();
        Reading {
            at: WallMillis(at),
            granted: 0,
            handed_over: 0,
            released: 0,
            expired: 0,
            broken: 0,
            refused: 0,
            held: 0,
            queued: 0,
            sessions: 0,
            commits: counts.clone(),
            syncs: counts,
            server_errors: 0,
            term: 1,
        }
    }

    /// A series of that many readings, one a second, with two grants in each second.
    fn filled(series: u64, readings: u64) -> Series {
        let filled = Series::default();
        for number in 0..readings {
            filled.add(Reading { granted: number * 2, ..idle(number * 1_000) }, || series);
        }
        filled
    }

    #[test]
    fn what_expired_in_the_last_ten_minutes_is_counted() {
        let series = Series::default();
        let add = |number: u64, expired: u64| series.add(Reading { expired, ..idle(number * 1_000) }, || 7);
        let last = SECONDS_MAX as u64;
        assert_eq!(series.expired(), 0);
        (0..=last).for_each(|number| add(number, number));
        assert_eq!(series.expired(), last);
        add(last + 1, last);
        assert_eq!(series.expired(), last - 1, "the oldest row is gone");
    }

    fn key(step: SeriesStep, series: u64, number: u64) -> Option<SeriesKey> {
        Some(SeriesKey { step, series, number })
    }

    #[test]
    fn a_row_has_the_growth_of_counters_the_values_of_gauges_and_new_percentiles() {
        let commits = Histogram::of_seconds(LATENCY_SECONDS);
        commits.observe(Duration::from_secs(1));
        let before = Reading { granted: 10, broken: 1, held: 5, commits: commits.counts(), ..idle(1_000) };
        commits.observe(Duration::from_millis(2));
        let after = Reading {
            granted: 30,
            handed_over: 20,
            released: 19,
            expired: 2,
            broken: 2,
            refused: 3,
            held: 4,
            queued: 6,
            sessions: 7,
            commits: commits.counts(),
            server_errors: 8,
            term: 9,
            ..idle(2_500)
        };
        assert_eq!(after.row_since(&before), [2_500, 20, 20, 19, 2, 1, 3, 4, 6, 7, 2_500, 0, 8, 9]);
        let figures = before.row_since(&after);
        assert_eq!(figures[1..=6], [0; 6], "the counters of a state that the node took over: they went back");
    }

    #[test]
    fn the_first_reading_makes_no_row() {
        let series = Series::default();
        let empty = series.read(SeriesStep::Second, None);
        assert_eq!((empty.rows.len(), empty.to, empty.continues), (0, None, false));
        series.add(idle(0), || 7);
        let view = series.read(SeriesStep::Second, None);
        assert_eq!((view.rows.len(), view.to, view.next.number), (0, None, 0));
        series.add(idle(1_000), || unreachable!("the series has begun"));
        let view = series.read(SeriesStep::Second, Some(view.next));
        assert_eq!((view.rows.len(), view.to, view.continues), (1, Some(WallMillis(1_000)), true));
    }

    #[test]
    fn only_the_newest_rows_are_kept() {
        let series = filled(7, 1 + SECONDS_MAX as u64 + 5);
        let all = series.read(SeriesStep::Second, None);
        assert_eq!((all.rows.len(), all.rows[0][0], all.next.number), (SECONDS_MAX, 6_000, 605));
        assert!(all.rows.iter().all(|row| row[1] == 2), "each second gave two grants");
        assert_eq!(all.to, Some(WallMillis(605_000)));
    }

    #[test]
    fn the_recent_totals_are_of_the_last_ten_rows_and_of_the_time_that_they_cover() {
        assert_eq!(filled(7, 1).recent(), None, "the first reading makes no row");
        let of = |granted, seconds| {
            let over = Duration::from_secs(seconds);
            Some(RecentTotals { over, granted, handed_over: 0, lost: 0, refused: 0 })
        };
        assert_eq!(filled(7, 1 + 3).recent(), of(6, 3));
        assert_eq!(filled(7, 1 + 25).recent(), of(20, 10));
        let late = filled(7, 1 + 25);
        late.add(Reading { granted: 70, expired: 2, broken: 1, refused: 4, ..idle(27_500) }, || 7);
        let over = Duration::from_millis(11_500);
        assert_eq!(late.recent(), Some(RecentTotals { over, granted: 38, handed_over: 0, lost: 3, refused: 4 }));
        late.add(Reading { granted: 70, expired: 2, broken: 1, refused: 4, ..idle(1_000) }, || 7);
        assert_eq!(late.recent().map(|recent| recent.over), Some(Duration::from_secs(10)), "the clock stepped back");
    }

    #[test]
    fn a_position_gets_only_newer_rows_and_learns_of_a_gap() {
        let series = filled(7, 1 + SECONDS_MAX as u64 + 5);
        let read = |number| {
            let view = series.read(SeriesStep::Second, key(SeriesStep::Second, 7, number));
            (view.rows.len(), view.rows.first().map(|row| row[0]), view.continues)
        };
        assert_eq!(read(605), (0, None, true), "nothing is newer");
        assert_eq!(read(603), (2, Some(604_000), true));
        assert_eq!(read(5), (SECONDS_MAX, Some(6_000), true), "the oldest row follows");
        assert_eq!(read(4), (SECONDS_MAX, Some(6_000), false), "row 5 is gone");
        assert_eq!(read(u64::MAX), (0, None, true), "no row has that number yet");
    }

    #[test]
    fn a_position_of_another_start_or_another_step_gets_all_rows() {
        let restarted = filled(8, 4);
        for (series, step) in [(7, SeriesStep::Second), (8, SeriesStep::Minute)] {
            let view = restarted.read(SeriesStep::Second, key(step, series, 2));
            assert_eq!((view.rows.len(), view.continues, view.next.series), (3, false, 8), "{step:?}");
        }
    }

    #[test]
    fn a_minute_adds_up_its_seconds() {
        let series = filled(7, 1 + 2 * SECONDS_OF_MINUTE + 5);
        let view = series.read(SeriesStep::Minute, None);
        let figures: Vec<_> = view.rows.iter().map(|row| (row[0], row[1])).collect();
        assert_eq!(figures, [(60_000, 120), (120_000, 120)]);
        assert_eq!(view.next, SeriesKey { step: SeriesStep::Minute, series: 7, number: 2 });
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_row_and_a_late_row_has_its_time() {
        let series = Series::default();
        for (at, granted) in [(10_000, 0), (11_000, 1), (14_500, 9), (3_000, 10), (4_000, 12)] {
            series.add(Reading { granted, ..idle(at) }, || 7);
        }
        let view = series.read(SeriesStep::Second, key(SeriesStep::Second, 7, 1));
        let figures: Vec<_> = view.rows.iter().map(|row| (row[0], row[1])).collect();
        assert_eq!(figures, [(14_500, 8), (3_000, 1), (4_000, 2)]);
        assert_eq!((view.to, view.continues), (Some(WallMillis(4_000)), true));
    }
}

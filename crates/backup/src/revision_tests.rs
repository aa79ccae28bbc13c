//! Tests of the first revision of a restored state.

use super::*;

const SECOND: u64 = 1000;
const DAY: u64 = 86_400 * SECOND;
/// 2026-11-29T00:00:00Z.
const START: u64 = 1_795_910_400_000;

fn at(ms: u64) -> WallMillis {
    WallMillis(START + ms)
}

/// What a cluster gave out, or a file of it.
#[derive(Debug, Clone, Copy)]
struct Known {
    revision: Revision,
    at: WallMillis,
}

/// The revision at which a file is restored.
fn restored(file: Known, now: WallMillis, above: Option<Revision>) -> Revision {
    restored_revision((file.revision, file.at), now, above)
}

/// A backup of a cluster that began with this revision, after this many changes and this time.
fn backup(begun: Known, changes: u64, later: u64) -> Known {
    Known { revision: Revision(begun.revision.0 + changes + 1), at: WallMillis(begun.at.0 + later) }
}

/// The file of a cluster that was never restored.
fn first_file() -> Known {
    Known { revision: Revision(90_412), at: at(0) }
}

#[test]
fn two_restores_of_one_file_are_as_far_apart_as_their_times() {
    let [first, second] = [SECOND, 2 * SECOND].map(|ms| restored(first_file(), at(ms), None));
    assert_eq!(second.0 - first.0, 1 << 20);
    assert!(first.0 > first_file().revision.0 + (1 << 32));
}

/// The file of a restored cluster is ahead of the clock for an hour; with `above`, for years.
#[test]
fn the_file_of_a_restored_cluster_is_restored_again_and_again_and_then_the_first_file() {
    for above in [None, Some(Revision(7_000_000_000_000_000))] {
        let begun = Known { revision: restored(first_file(), at(SECOND), above), at: at(SECOND) };
        let second = backup(begun, 10, 5 * SECOND);
        let mut last = second.revision;
        for ms in [10, 11, 12].map(|seconds| seconds * SECOND) {
            let now = restored(second, at(ms), None);
            assert!(now.0 > last.0 + 1_000_000, "{now} after {last}");
            last = now;
        }
        // Only `above` tells the first file how far ahead the line is.
        let old = restored(first_file(), at(13 * SECOND), above);
        assert!(old.0 > last.0 + 1_000_000, "{old} after {last}");
        assert!(last.0 < REVISION_MAX && is_ahead(last, at(12 * SECOND)) == above.is_some());
    }
}

#[test]
fn a_line_does_not_run_away() {
    let mut file = first_file();
    for restore in 1..=1000 {
        let now = WallMillis(file.at.0 + SECOND);
        let revision = restored(file, now, None);
        assert!(!is_ahead(revision, now), "restore {restore}");
        file = backup(Known { revision, at: now }, 100_000, SECOND);
    }
}

#[test]
fn a_revision_that_is_given_twice_leads_further_by_the_clock_alone() {
    let above = Some(Revision(1 << 50));
    let [first, second] = [SECOND, 2 * SECOND].map(|ms| restored(first_file(), at(ms), above));
    assert!(first > Revision(1 << 50));
    assert_eq!(second.0 - first.0, 1 << 20);
    // A number below the clock changes nothing.
    assert_eq!(restored(first_file(), at(0), Some(Revision(90_412))), restored(first_file(), at(0), None));
    assert!(restored(first_file(), at(0), Some(Revision(u64::MAX))).0 > REVISION_MAX);
}

/// Otherwise every restore of every file of the line fails after that, and no option helps.
#[test]
fn the_largest_number_that_may_be_named_leaves_fifty_years() {
    let first = first_file();
    let largest = largest_above((first.revision, first.at), at(0));
    let [works, fails] = [largest, largest.next()].map(|above| {
        let begun = Known { revision: restored(first, at(0), Some(above)), at: at(0) };
        assert!(begun.revision.0 < REVISION_MAX && begun.revision > above);
        restored(backup(begun, 10, 5 * SECOND), at(LIFE_MS), None)
    });
    assert!(works.0 <= REVISION_MAX && fails.0 > REVISION_MAX, "{works} and {fails}");
}

#[test]
fn a_number_that_takes_a_line_no_further_may_be_named_however_far_the_line_is() {
    let begun = Known { revision: restored(first_file(), at(0), Some(Revision(8_700_000_000_000_000))), at: at(0) };
    let file = backup(begun, 10, 5 * SECOND);
    let largest = largest_above((file.revision, file.at), at(DAY));
    assert!(largest > largest_above((first_file().revision, first_file().at), at(DAY)));
    let [none, same, further] = [None, Some(largest), Some(largest.next())].map(|above| restored(file, at(DAY), above));
    assert!(none == same && further > same, "{none}, {same} and {further}");
    assert_eq!(largest_above((file.revision, file.at), WallMillis(u64::MAX)), largest, "whatever the clock says");
}

/// The first cluster of a line that a wrong clock put ahead is so without `above`.
#[test]
fn a_file_that_is_ahead_of_a_corrected_clock_is_exceeded_again_and_again() {
    let year_ahead = at(365 * DAY);
    let begun = Known { revision: restored(first_file(), year_ahead, None), at: at(0) };
    let file = backup(begun, 10, 2 * SECOND);
    let [first, second] = [3 * SECOND, 4 * SECOND].map(|ms| restored(file, at(ms), None));
    assert!(first > file.revision);
    assert_eq!(second.0 - first.0, 1 << 20);
}

#[test]
fn a_revision_is_exact_in_json_for_250_years() {
    assert!(restored(first_file(), at(250 * 366 * DAY), None).0 < REVISION_MAX);
    assert_eq!(restored(Known { revision: Revision(u64::MAX), at: at(0) }, at(0), None), Revision(u64::MAX));
}

/// A file of March, restored in November by a clock that says June: its tokens could go back.
#[test]
fn a_clock_that_is_months_behind_is_not_set() {
    let [epoch, first, before] = [WallMillis(0), FIRST, WallMillis(RELEASED.0 - 1)].map(is_set);
    assert!(!epoch && !first && !before && is_set(RELEASED) && is_set(at(0)));
}

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// A time from a millisecond to three months: short ones are as likely as long ones.
    fn span(&mut self) -> u64 {
        let longest = [10, SECOND, 3600 * SECOND, 90 * DAY][usize::try_from(self.below(4)).unwrap()];
        1 + self.below(longest)
    }

    /// How many changes a cluster makes in this time: often none, often nearly as many as it may.
    fn changes(&mut self, ms: u64) -> u64 {
        let most = ms * 900;
        match self.below(3) {
            0 => 0,
            1 => most,
            _ => self.below(most + 1),
        }
    }
}

/// A line of clusters, and what its operators know.
struct Line {
    numbers: Numbers,
    now: WallMillis,
    /// All files that were ever made, each with the number of uses of `above` before it.
    files: Vec<(Known, u32)>,
    /// The largest revision that was ever given out.
    largest: Revision,
    /// The last revision that was named, and how often another one was.
    above: Option<Revision>,
    uses: u32,
}

impl Line {
    /// Restores one of the files, and runs that cluster for a while, with a backup now and then.
    fn restore(&mut self) {
        self.now.0 += self.numbers.span();
        let chosen = usize::try_from(self.numbers.below(self.files.len() as u64)).unwrap();
        let (file, uses) = self.files[chosen];
        let names_another = self.uses < 4 && self.numbers.below(12) == 0;
        if names_another {
            self.above = Some(self.largest);
            self.uses += 1;
        }
        // A file from before the last use does not know of it.
        let above = if uses < self.uses || self.numbers.below(8) == 0 { self.above } else { None };
        let revision = restored(file, self.now, above);
        assert!(revision > self.largest, "{revision} after {}: {file:?} at {:?}, above {above:?}", self.largest, self.now);
        assert!(revision.0 <= REVISION_MAX, "{revision}");
        let mut last = Known { revision, at: self.now };
        for _ in 0..self.numbers.below(4) {
            let span = self.numbers.span();
            last = backup(last, self.numbers.changes(span), span);
            self.files.push((last, self.uses));
        }
        let span = self.numbers.span();
        self.largest = Revision(last.revision.0 + self.numbers.changes(span));
        self.now = WallMillis(last.at.0 + span);
    }
}

#[test]
fn each_restored_cluster_of_a_line_begins_after_all_that_was_given_out() {
    for seed in 0..2000 {
        let first = first_file();
        let numbers = Numbers(seed);
        let files = vec![(first, 0)];
        let mut line = Line { numbers, now: at(SECOND), files, largest: first.revision, above: None, uses: 0 };
        for _ in 0..25 {
            line.restore();
        }
    }
}

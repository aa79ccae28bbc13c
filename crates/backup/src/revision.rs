//! The revision at which a restored state begins.
//!
//! A fencing token is a revision. So no cluster of a line, which begins with one cluster and goes on with each restore of a
//! backup of it, may give a revision that an earlier one gave.
//!
//! ```text
//! revision = clock(now) + ahead          clock(t) = seconds from 2020 to t, times 2^20
//! ahead    = the larger of  2^32 + the larger of  lead - 2^33  and  above - clock(2025),  rounded up to steps of 2^48
//!                           lead + 1
//! lead     = revision of the backup - clock(time of the backup)
//! ```
//!
//! **Proof.** A cluster that makes fewer than 2^20 changes a second falls behind the clock: what it gives until a time t is
//! at most clock(t) + `ahead`. (1) For a cluster that was never restored, `lead` is negative, and `ahead` is 2^32. (2) For
//! a restored one, `lead` is at most its `ahead`, and for 8 years larger than that minus a step. So `lead` is rounded up to
//! the same `ahead`: all files of the line have the same. (3) Two restores with the same `ahead` are as far apart as their
//! times, and the first cluster gave less in between. (4) With `lead + 1`, a revision is larger than clock(now) + `lead`, so
//! than all that a cluster which was at the revision of the backup has given since. (5) `above` gives the same `ahead` at
//! each time, so a repeated restore with it begins later; and clock(now) is at least clock(2025), so the sum exceeds it.
//!
//! **What it cannot know:** that the clock is behind the true time, or was ahead at an earlier restore; and, of a file from
//! before `above` was used, that a newer one has another `ahead`. These need `above`. Each larger `above` takes steps of
//! the numbers that JSON can hold, so `largest_above` bounds it.

use fairhold_types::{Revision, time::WallMillis};

/// 2020-01-01T00:00:00Z in milliseconds since 1970.
const EPOCH: WallMillis = WallMillis(1_577_836_800_000);
/// 2025-01-01T00:00:00Z. It stays as it is, because a revision that is given with `above` must lead to the same `ahead` in
/// every release.
const FIRST: WallMillis = WallMillis(1_735_689_600_000);
/// 2026-11-01T00:00:00Z: no clock that is right says an earlier time. Each release raises it; it is never before `FIRST`.
const RELEASED: WallMillis = WallMillis(1_793_491_200_000);
/// The revisions of one second.
const PER_SECOND: i128 = 1 << 20;
/// How far a line is ahead of the clock, more than an hour: as far as the program once began ahead of it with a second
/// restore, so that these lines go on.
const AHEAD: i128 = 1 << 32;
/// A line that is further ahead is so by whole steps, each of 8 years.
const STEP: i128 = 1 << 48;
/// For so long, files of a line must be restorable after a use of `above`: 50 years.
const LIFE_MS: u64 = 50 * 31_557_600_000;
/// Larger revisions are not exact in JSON.
pub(crate) const REVISION_MAX: u64 = (1 << 53) - 1;

/// Whether a clock that says this time was set: it is not before this release.
pub(crate) fn is_set(now: WallMillis) -> bool {
    now >= RELEASED
}

/// The revision at which a state begins that is restored now from a backup with this revision and time: larger than every
/// revision that an earlier cluster of its line gave out, except as the module says. If the clock is behind the backup, it
/// is larger than `above` alone.
#[must_use]
pub fn restored_revision((backup, made): (Revision, WallMillis), now: WallMillis, above: Option<Revision>) -> Revision {
    let lead = lead_of(backup, made);
    let of_above = above.map_or(0, |above| i128::from(above.0) - clock(FIRST));
    let ahead = (AHEAD + steps_of_line(lead).max(whole_steps(of_above))).max(lead + 1);
    Revision(u64::try_from(clock(now) + ahead).unwrap_or(u64::MAX))
}

/// The largest `above` after which the files of the line can be restored for 50 years from now. A number that takes the
/// line no further ahead of the clock than this backup is can always be named.
#[must_use]
pub(crate) fn largest_above((backup, made): (Revision, WallMillis), now: WallMillis) -> Revision {
    let end = WallMillis(now.0.saturating_add(LIFE_MS));
    let room = i128::from(REVISION_MAX) - clock(end) - AHEAD;
    let steps = (room.max(0) / STEP * STEP).max(steps_of_line(lead_of(backup, made)));
    Revision(u64::try_from(clock(FIRST) + steps).unwrap_or(u64::MAX))
}

/// Whether a state that began now at this revision is further ahead of the clock than a line that needed no `above`. Backups
/// from before it was so lead to smaller revisions.
#[must_use]
pub fn is_ahead(revision: Revision, now: WallMillis) -> bool {
    i128::from(revision.0) > clock(now) + AHEAD
}

/// A time as a revision.
fn clock(at: WallMillis) -> i128 {
    i128::from(at.0.saturating_sub(EPOCH.0)) * PER_SECOND / 1000
}

/// How far a backup is ahead of its time, or behind it.
fn lead_of(backup: Revision, made: WallMillis) -> i128 {
    i128::from(backup.0) - clock(made)
}

/// The whole steps by which the line of a backup with this lead is ahead of the clock.
fn steps_of_line(lead: i128) -> i128 {
    // An hour more: the clocks of the machines differ a little.
    whole_steps(lead - 2 * AHEAD)
}

/// The smallest number of whole steps that is at least as large.
fn whole_steps(revisions: i128) -> i128 {
    (revisions.max(0) + STEP - 1) / STEP * STEP
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;

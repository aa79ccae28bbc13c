//! The ring: the newest events, kept for watches, up to a number of bytes. Apply adds to it and never waits for a
//! watcher. A watcher has a position in it and reads from there. A position that is no longer kept is an error, never a
//! gap.

use crate::{api::Compacted, feed::change::Changes};
use fairhold_types::{
    Revision,
    planted::{self, Bug},
};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{collections::VecDeque, sync::Arc};

/// Counts the revisions with events that this node has seen since it started. A snapshot that replaces events skips one
/// position.
pub(crate) type Position = u64;

pub(crate) struct Ring {
    bytes_max: usize,
    kept: RwLock<Kept>,
}

struct Kept {
    list: VecDeque<Arc<Changes>>,
    /// The position of the first entry.
    first: Position,
    bytes: usize,
    /// All events of this revision and later ones are kept.
    oldest: Revision,
    /// The last revision known here.
    newest: Revision,
}

impl Ring {
    pub(crate) fn new(bytes_max: u64) -> Ring {
        let kept = Kept { list: VecDeque::new(), first: 0, bytes: 0, oldest: Revision(1), newest: Revision(0) };
        Ring { bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX), kept: RwLock::new(kept) }
    }

    /// Adds the changes of the next revision, and drops the oldest ones if they do not fit.
    pub(crate) fn push(&self, changes: Changes) {
        let mut kept = self.write();
        kept.newest = changes.revision;
        kept.bytes += changes.bytes();
        kept.list.push_back(Arc::new(changes));
        let mut dropped = Vec::new();
        while kept.bytes > self.bytes_max
            && let Some(oldest) = kept.list.pop_front()
        {
            kept.first += 1;
            kept.bytes -= oldest.bytes();
            kept.oldest = oldest.revision.next();
            dropped.push(oldest);
        }
        drop(kept);
        // Freed after the lock is released, so that readers do not wait for it.
        drop(dropped);
    }

    /// Notes a revision without changes for watchers.
    pub(crate) fn skip(&self, revision: Revision) {
        let mut kept = self.write();
        kept.newest = kept.newest.max(revision);
    }

    /// A snapshot replaced the state: the events up to its revision are unknown here.
    pub(crate) fn reset(&self, revision: Revision) {
        let mut kept = self.write();
        if revision == kept.newest {
            return;
        }
        let dropped = std::mem::take(&mut kept.list);
        // The skipped position makes every earlier one invalid, even the one after the last event.
        kept.first += dropped.len() as u64 + 1;
        kept.bytes = 0;
        kept.oldest = revision.next();
        kept.newest = revision;
        drop(kept);
        drop(dropped);
    }

    /// The position after the last event.
    pub(crate) fn end(&self) -> Position {
        self.read().end()
    }

    /// The position after the last event, and the last revision known here.
    pub(crate) fn newest(&self) -> (Position, Revision) {
        let kept = self.read();
        (kept.end(), kept.newest)
    }

    /// The last revision known here, if no event is at this position or later.
    pub(crate) fn newest_before(&self, position: Position) -> Option<Revision> {
        let kept = self.read();
        (position == kept.end()).then_some(kept.newest)
    }

    /// The position of the first event of a revision or of a later one.
    pub(crate) fn position_of(&self, revision: Revision) -> Result<Position, Compacted> {
        let kept = self.read();
        if revision < kept.oldest && !hides_gaps() {
            return Err(Compacted { oldest: kept.oldest });
        }
        Ok(kept.first + kept.list.partition_point(|changes| changes.revision < revision) as u64)
    }

    /// The entries from a position on, at most `max` revisions; none at the end.
    pub(crate) fn from(&self, position: Position, max: usize) -> Result<Vec<Arc<Changes>>, Compacted> {
        let kept = self.read();
        let position = if hides_gaps() { position.max(kept.first) } else { position };
        let skip = position.checked_sub(kept.first).ok_or(Compacted { oldest: kept.oldest })?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(kept.list.len());
        Ok(kept.list.range(skip..).take(max).cloned().collect())
    }

    /// The last entries before a revision, in order, at most `max`; and the revision from which on everything is kept.
    pub(crate) fn before(&self, revision: Revision, max: usize) -> (Vec<Arc<Changes>>, Revision) {
        let kept = self.read();
        let end = kept.list.partition_point(|changes| changes.revision < revision);
        (kept.list.range(end.saturating_sub(max)..end).cloned().collect(), kept.oldest)
    }

    /// The number of bytes and of revisions that are kept.
    pub(crate) fn kept(&self) -> (usize, usize) {
        let kept = self.read();
        (kept.bytes, kept.list.len())
    }

    /// The first position that is kept, and the revision from which on everything is kept.
    pub(crate) fn first(&self) -> (Position, Revision) {
        let kept = self.read();
        (kept.first, kept.oldest)
    }

    fn read(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write()
    }
}

impl Kept {
    fn end(&self) -> Position {
        self.first + self.list.len() as u64
    }
}

/// Whether a reader may skip events that are no longer kept: only as a planted bug.
fn hides_gaps() -> bool {
    planted::has(Bug::WatchHidesGap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::change::Change;
    use fairhold_types::Path;

    fn changes(revision: u64) -> Changes {
        let path = Path::parse(&format!("/node-{revision:04}")).unwrap();
        Changes { revision: Revision(revision), list: [Change::NodeCreated(path)].into() }
    }

    fn filled(bytes_max: usize, revisions: std::ops::RangeInclusive<u64>) -> Ring {
        let ring = Ring::new(bytes_max as u64);
        revisions.for_each(|revision| ring.push(changes(revision)));
        ring
    }

    fn revisions(ring: &Ring, position: Position) -> Vec<u64> {
        ring.from(position, usize::MAX).unwrap().iter().map(|changes| changes.revision.0).collect()
    }

    #[test]
    fn the_newest_revisions_that_fit_are_kept() {
        let each = changes(1).bytes();
        for (bytes_max, kept) in [(each * 3 - 1, 2), (each * 3, 3), (each * 3 + 1, 3)] {
            let ring = filled(bytes_max, 1..=10);
            let oldest = Revision(11 - kept);
            assert_eq!(ring.position_of(oldest.next()).unwrap(), ring.position_of(oldest).unwrap() + 1);
            assert_eq!(revisions(&ring, ring.position_of(oldest).unwrap()), (oldest.0..=10).collect::<Vec<_>>());
            assert_eq!(ring.position_of(Revision(oldest.0 - 1)), Err(Compacted { oldest }), "{bytes_max}");
        }
    }

    #[test]
    fn a_revision_that_is_larger_than_the_ring_is_lost_with_an_error() {
        let ring = filled(changes(1).bytes() - 1, 1..=1);
        assert_eq!(ring.from(0, 1), Err(Compacted { oldest: Revision(2) }));
        assert_eq!(ring.position_of(Revision(2)), Ok(ring.end()));
    }

    #[test]
    fn reading_continues_where_it_stopped() {
        let ring = filled(usize::MAX, 1..=10);
        let mut position = ring.position_of(Revision(3)).unwrap();
        let mut read = Vec::new();
        loop {
            let next = ring.from(position, 3).unwrap();
            if next.is_empty() {
                break;
            }
            position += next.len() as u64;
            read.extend(next.iter().map(|changes| changes.revision.0));
        }
        assert_eq!((read, position), ((3..=10).collect(), ring.end()));
    }

    #[test]
    fn reading_backwards_continues_where_it_stopped() {
        let ring = filled(usize::MAX, 1..=10);
        let mut before = Revision(9);
        let mut read = Vec::new();
        loop {
            let (next, oldest) = ring.before(before, 3);
            assert!(next.len() <= 3 && oldest == Revision(1));
            let Some(first) = next.first() else { break };
            before = first.revision;
            read.extend(next.iter().rev().map(|changes| changes.revision.0));
        }
        assert_eq!(read, (1..=8).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_revision_without_events_starts_at_the_next_one_with_events() {
        let ring = filled(usize::MAX, 1..=2);
        ring.push(changes(5));
        assert_eq!(revisions(&ring, ring.position_of(Revision(3)).unwrap()), [5]);
        assert_eq!(ring.position_of(Revision(9)), Ok(ring.end()));
    }

    #[test]
    fn every_position_from_before_a_snapshot_is_an_error() {
        let ring = filled(usize::MAX, 1..=4);
        let at_the_end = ring.end();
        ring.reset(Revision(9));
        for position in 0..=at_the_end {
            assert_eq!(ring.from(position, 1), Err(Compacted { oldest: Revision(10) }), "{position}");
        }
        assert_eq!(ring.position_of(Revision(9)), Err(Compacted { oldest: Revision(10) }));
        ring.push(changes(10));
        assert_eq!(revisions(&ring, ring.position_of(Revision(10)).unwrap()), [10]);
    }

    #[test]
    fn a_snapshot_of_the_known_revision_changes_nothing() {
        let ring = filled(usize::MAX, 1..=4);
        ring.reset(Revision(4));
        assert_eq!(revisions(&ring, 0), [1, 2, 3, 4]);
    }
}

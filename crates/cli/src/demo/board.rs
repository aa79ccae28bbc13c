//! What the demo's clients measure: when they got a lock, and how long a lock was free although a client wanted it.

use super::frame::DemoFrame;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// How many of the last grants to keep.
const LAST_GRANTS: usize = 5;

/// The records of all locks. The clients write them, and the view reads them.
#[derive(Debug)]
pub(super) struct Board {
    locks: Mutex<BTreeMap<&'static str, Record>>,
}

/// The record of one lock.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// The last grants, newest first.
    pub(super) last: VecDeque<DemoGrant>,
    /// The number of grants so far.
    pub(super) grants: u64,
    /// How long it was last free while a client waited, and the longest such time.
    pub(super) free: Option<(Duration, Duration)>,
    /// When a client released it; none once it is held again.
    released: Option<Instant>,
    /// The token of a holder outside the demo, and when it was first seen.
    outsider: Option<(u64, Instant)>,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoGrant {
    /// The client.
    pub(super) owner: &'static str,
    /// Its token.
    pub(super) token: u64,
    /// When the client learned of it.
    pub(super) at: Instant,
}

impl Board {
    /// Records without grants.
    pub(super) fn new(locks: &[&'static str]) -> Board {
        Board { locks: Mutex::new(locks.iter().map(|lock| (*lock, Record::default())).collect()) }
    }

    /// A client that had waited since `requested_at` got the lock.
    pub(super) fn granted(&self, lock: &'static str, grant: DemoGrant, requested_at: Instant) {
        self.with(lock, |record| {
            if let Some(released) = record.released.take() {
                let free = grant.at.saturating_duration_since(released.max(requested_at));
                let longest = record.free.map_or(free, |(_, longest)| longest.max(free));
                record.free = Some((free, longest));
            }
            record.grants += 1;
            record.last.push_front(grant);
            record.last.truncate(LAST_GRANTS);
        });
    }

    /// A client is about to release the lock.
    pub(super) fn released(&self, lock: &'static str, at: Instant) {
        self.with(lock, |record| record.released = Some(at));
    }

    /// Looks for holders outside the demo: while one of them holds the lock, it is not free.
    pub(super) fn compare(&self, frame: &DemoFrame) {
        for (lock, seen) in &frame.locks {
            let token = seen.as_ref().and_then(|seen| seen.holder.as_ref()).map(|holder| (holder.token, holder.owner.as_str()));
            self.with(lock, |record| match token {
                Some((token, owner)) if !super::names::CLIENTS.contains(&owner) => {
                    record.released = None;
                    if record.outsider.is_none_or(|(known, _)| known != token) {
                        record.outsider = Some((token, Instant::now()));
                    }
                }
                Some(_) | None => record.outsider = None,
            });
        }
    }

    /// The record of a lock.
    pub(super) fn record(&self, lock: &str) -> Record {
        let locks = self.locks.lock();
        locks.get(lock).cloned().unwrap_or_default()
    }

    /// The number of grants of all locks.
    pub(super) fn grants(&self) -> u64 {
        self.locks.lock().values().map(|record| record.grants).sum()
    }

    fn with(&self, lock: &str, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.locks.lock().get_mut(lock) {
            change(record);
        }
    }
}

impl Record {
    /// For how long the grant with this token is held, if a client or the view saw its start.
    pub(super) fn held_for(&self, token: u64) -> Option<Duration> {
        let ours = self.last.iter().find(|grant| grant.token == token).map(|grant| grant.at);
        let outsider = self.outsider.filter(|(outsider, _)| *outsider == token).map(|(_, at)| at);
        ours.or(outsider).map(|at| at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::frame::{DemoHolder, DemoQueue},
        *,
    };

    const LOCK: &str = "report";

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn grant(owner: &'static str, token: u64, at: Instant) -> DemoGrant {
        DemoGrant { owner, token, at }
    }

    #[test]
    fn a_lock_counts_as_free_from_its_release_or_from_the_next_request() {
        let (board, start) = (Board::new(&[LOCK]), Instant::now());
        board.granted(LOCK, grant("alice", 1, after(start, 0)), start);
        assert_eq!(board.record(LOCK).free, None);
        board.released(LOCK, after(start, 1_000));
        board.granted(LOCK, grant("bob", 2, after(start, 1_300)), after(start, 500));
        assert_eq!(board.record(LOCK).free, Some((Duration::from_millis(300), Duration::from_millis(300))));
        board.released(LOCK, after(start, 2_000));
        board.granted(LOCK, grant("carol", 3, after(start, 9_010)), after(start, 9_000));
        let record = board.record(LOCK);
        assert_eq!(record.free, Some((Duration::from_millis(10), Duration::from_millis(300))));
        assert_eq!(record.grants, 3);
        assert_eq!(record.last.iter().map(|grant| grant.owner).collect::<Vec<_>>(), ["carol", "bob", "alice"]);
    }

    #[test]
    fn only_the_last_grants_are_kept() {
        let (board, start) = (Board::new(&[LOCK]), Instant::now());
        for token in 0..20 {
            board.granted(LOCK, grant("alice", token, start), start);
        }
        assert_eq!((board.record(LOCK).last.len(), board.grants()), (LAST_GRANTS, 20));
    }

    #[test]
    fn a_lock_held_by_an_outsider_does_not_count_as_free() {
        let (board, start) = (Board::new(&[LOCK]), Instant::now());
        board.granted(LOCK, grant("alice", 1, start), start);
        board.released(LOCK, start);
        let holder = DemoHolder { owner: "curl".to_owned(), token: 2 };
        let seen = DemoQueue { holder: Some(holder), waiting: vec![] };
        board.compare(&DemoFrame { nodes: vec![], locks: vec![(LOCK, Some(seen))] });
        assert!(board.record(LOCK).held_for(2).is_some() && board.record(LOCK).held_for(3).is_none());
        board.granted(LOCK, grant("bob", 3, after(start, 5_000)), start);
        assert_eq!(board.record(LOCK).free, None);
    }
}

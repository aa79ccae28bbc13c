//! What the demo's clients saw: when they were granted, and how long a lock was free although somebody wanted it.

use super::look::DemoFrame;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// How many of the last grants are kept.
const LAST_GRANTS: usize = 5;

/// All clients write on it, the view reads it.
#[derive(Debug)]
pub(super) struct Board {
    locks: Mutex<BTreeMap<&'static str, Record>>,
}

/// What is known of one lock.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// The last grants, the newest first.
    pub(super) last: VecDeque<DemoGrant>,
    /// How many there were.
    pub(super) grants: u64,
    /// The last time that it was free while a client waited, and the longest.
    pub(super) free: Option<(Duration, Duration)>,
    /// Since when it is free, as far as a client knows.
    released: Option<Instant>,
    /// A holder that is none of the demo's clients, and since when it was seen.
    guest: Option<(u64, Instant)>,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoGrant {
    /// To whom.
    pub(super) owner: &'static str,
    /// Its token.
    pub(super) token: u64,
    /// When the client knew of it.
    pub(super) at: Instant,
}

impl Board {
    /// Nothing was granted yet.
    pub(super) fn new(locks: &[&'static str]) -> Board {
        Board { locks: Mutex::new(locks.iter().map(|lock| (*lock, Record::default())).collect()) }
    }

    /// A client that has been waiting since `asked` got the lock.
    pub(super) fn granted(&self, lock: &'static str, grant: DemoGrant, asked: Instant) {
        self.with(lock, |record| {
            if let Some(released) = record.released.take() {
                let free = grant.at.saturating_duration_since(released.max(asked));
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

    /// Takes notice of holders that are none of the demo's clients: while one holds, the lock is not free.
    pub(super) fn compare(&self, look: &DemoFrame) {
        for (lock, seen) in &look.locks {
            let token = seen.as_ref().and_then(|seen| seen.holder.as_ref()).map(|holder| (holder.token, holder.owner.as_str()));
            self.with(lock, |record| match token {
                Some((token, owner)) if !super::names::CLIENTS.contains(&owner) => {
                    record.released = None;
                    if record.guest.is_none_or(|(known, _)| known != token) {
                        record.guest = Some((token, Instant::now()));
                    }
                }
                Some(_) | None => record.guest = None,
            });
        }
    }

    /// What is known of a lock.
    pub(super) fn record(&self, lock: &str) -> Record {
        let locks = self.locks.lock();
        locks.get(lock).cloned().unwrap_or_default()
    }

    /// How many grants there were in all.
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
    /// Since when the grant with this token is held, as far as somebody here saw it begin.
    pub(super) fn held_for(&self, token: u64) -> Option<Duration> {
        let ours = self.last.iter().find(|grant| grant.token == token).map(|grant| grant.at);
        let guest = self.guest.filter(|(guest, _)| *guest == token).map(|(_, at)| at);
        ours.or(guest).map(|at| at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::look::{DemoHolder, LockLook},
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
    fn a_lock_is_free_from_its_release_or_from_the_next_wish_on() {
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
    fn a_guest_holds_so_the_lock_was_not_free() {
        let (board, start) = (Board::new(&[LOCK]), Instant::now());
        board.granted(LOCK, grant("alice", 1, start), start);
        board.released(LOCK, start);
        let holder = DemoHolder { owner: "curl".to_owned(), token: 2 };
        let seen = LockLook { holder: Some(holder), waiting: vec![] };
        board.compare(&DemoFrame { nodes: vec![], locks: vec![(LOCK, Some(seen))] });
        assert!(board.record(LOCK).held_for(2).is_some() && board.record(LOCK).held_for(3).is_none());
        board.granted(LOCK, grant("bob", 3, after(start, 5_000)), start);
        assert_eq!(board.record(LOCK).free, None);
    }
}

//! The owners that lost sessions lately. The histories tell which holds expired, as far as they go back.

use crate::{State, history::PastHolding, lock_table::LockRecord, lock_walk::records_from};
use fairhold_types::{HoldingEnd, LockName, SessionNumber, time::WallMillis};
use imbl::{ordmap::RangedIter, shared_ptr::DefaultSharedPtr};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, iter,
    sync::Arc,
};

/// An owner whose holds expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredOwner<'a> {
    /// The owner.
    pub owner: &'a str,
    /// In how many of its sessions a hold expired. A session that held several locks counts once.
    pub sessions: usize,
    /// The lock of the newest of these holds.
    pub lock: &'a LockName,
    /// When the first of these holds expired.
    pub since: WallMillis,
}

/// What is known of an owner so far.
struct Expired<'a> {
    sessions: BTreeSet<SessionNumber>,
    newest: &'a PastHolding,
    since: WallMillis,
}

/// Looks at the holds that expired from a time on. It visits a given number of locks and holds at a time, so that the
/// caller can let other tasks run in between. A lock whose holds never expired costs one step.
pub struct ExpiredWalk<'a> {
    from: WallMillis,
    /// Which locks it may show; `None`: all.
    visible: Option<&'a (dyn Fn(&LockName) -> bool + Sync)>,
    records: RangedIter<'a, LockName, Arc<LockRecord>, DefaultSharedPtr>,
    /// The rest of the history of the newest lock, the newest end first.
    holds: Box<dyn Iterator<Item = &'a PastHolding> + Send + 'a>,
    owners: BTreeMap<&'a str, Expired<'a>>,
}

impl fmt::Debug for ExpiredWalk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExpiredWalk of {} owners", self.owners.len())
    }
}

impl<'a> ExpiredWalk<'a> {
    /// The same walk, limited to these locks: the holds of other locks count for nothing.
    #[must_use]
    pub fn only(self, visible: &'a (dyn Fn(&LockName) -> bool + Sync)) -> ExpiredWalk<'a> {
        ExpiredWalk { visible: Some(visible), ..self }
    }

    /// Visits `count` more locks and holds. Returns whether all were visited.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if let Some(past) = self.holds.next() {
                self.consider(past);
            } else if !self.begin_next_lock() {
                return true;
            }
        }
        false
    }

    /// The owners, by name.
    pub fn owners(&self) -> impl Iterator<Item = ExpiredOwner<'a>> {
        self.owners.iter().map(|(&owner, found)| ExpiredOwner {
            owner,
            sessions: found.sessions.len(),
            lock: &found.newest.holding.lock,
            since: found.since,
        })
    }

    fn begin_next_lock(&mut self) -> bool {
        let Some((lock, record)) = self.records.next() else { return false };
        let has_expired = record.statistics.as_ref().is_some_and(|statistics| statistics.expired > 0);
        if has_expired && self.visible.is_none_or(|is_visible| is_visible(lock)) {
            let (from, history) = (self.from, &record.history);
            let newest_first = (0..history.len()).rev().filter_map(move |at| history.get(at)).map(|past| &**past);
            // The times of a history grow, unless the clock of a new leader is behind.
            self.holds = Box::new(newest_first.take_while(move |past| past.ending.to.at >= from));
        }
        true
    }

    fn consider(&mut self, past: &'a PastHolding) {
        let PastHolding { holding, ending } = past;
        if ending.how != HoldingEnd::Expired {
            return;
        }
        let new = || Expired { sessions: BTreeSet::new(), newest: past, since: ending.to.at };
        let found = self.owners.entry(&holding.owner).or_insert_with(new);
        found.sessions.insert(holding.session);
        found.since = found.since.min(ending.to.at);
        if found.newest.key() < past.key() {
            found.newest = past;
        }
    }
}

impl State {
    /// A walk over the holds that expired at this time or later.
    #[must_use]
    pub fn expired_walk(&self, from: WallMillis) -> ExpiredWalk<'_> {
        ExpiredWalk {
            from,
            visible: None,
            records: records_from(&self.tree.locks, ""),
            holds: Box::new(iter::empty()),
            owners: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{Acquire, Command, Outcome, Owner},
        request_for_tests::{acquire_in, open_session},
    };
    use fairhold_types::{GrantId, Mode, SessionId};

    /// Opens a session that acquires these locks, each with a grant of its own.
    fn acquire(state: &mut State, id: u128, owner: &str, locks: &[&str]) -> SessionNumber {
        let session = SessionId(id);
        let Ok(Outcome::SessionOpened { number, .. }) = state.apply(&open_session(session)).answer.result else {
            panic!("no session was opened")
        };
        for (lock, place) in locks.iter().zip(1..) {
            let grant = GrantId::from_ulid((id * 100 + place) << 64);
            let owner = Owner { text: owner.to_owned(), given: true };
            let acquire = Acquire { owner, ..acquire_in(session, grant, &[*lock], Mode::Exclusive) };
            assert!(state.apply(&Command::Acquire(acquire)).answer.result.is_ok());
        }
        number
    }

    /// The same, and the session expires at that time.
    fn lose(state: &mut State, id: u128, owner: &str, locks: &[&str], at: u64) {
        let session = acquire(state, id, owner, locks);
        assert!(state.apply(&Command::ExpireSession { session, at: WallMillis(at) }).answer.result.is_ok());
    }

    fn lost_by(mut walk: ExpiredWalk<'_>, step: usize) -> Vec<(&str, usize, &str, u64)> {
        while !walk.visit(step) {}
        walk.owners().map(|found| (found.owner, found.sessions, found.lock.as_str(), found.since.0)).collect()
    }

    #[test]
    fn the_sessions_of_an_owner_that_expired_with_a_hold_are_counted() {
        let mut state = State::new();
        lose(&mut state, 1, "ci-7", &["a", "b"], 100);
        lose(&mut state, 2, "ci-7", &["b"], 200);
        lose(&mut state, 3, "ci-9", &["c"], 300);
        lose(&mut state, 4, "ci-7", &["a"], 400);
        acquire(&mut state, 5, "ci-7", &["d"]);
        // It only waits.
        lose(&mut state, 6, "ci-8", &["d"], 500);
        let all = [("ci-7", 3, "a", 100), ("ci-9", 1, "c", 300)];
        for step in [1, 2, 64] {
            assert_eq!(lost_by(state.expired_walk(WallMillis(0)), step), all, "{step}");
        }
        assert_eq!(lost_by(state.expired_walk(WallMillis(200)), 1), [("ci-7", 2, "a", 200), ("ci-9", 1, "c", 300)]);
        assert_eq!(lost_by(state.expired_walk(WallMillis(401)), 1), []);
    }

    #[test]
    fn a_hold_that_was_released_is_not_lost() {
        let mut state = State::new();
        let session = acquire(&mut state, 1, "ci-7", &["a"]);
        let release = Command::Release { grant: GrantId::from_ulid(101 << 64), session: None, at: WallMillis(50) };
        assert!(state.apply(&release).answer.result.is_ok());
        assert!(state.apply(&Command::ExpireSession { session, at: WallMillis(60) }).answer.result.is_ok());
        lose(&mut state, 2, "ci-9", &["a"], 70);
        assert_eq!(lost_by(state.expired_walk(WallMillis(0)), 1), [("ci-9", 1, "a", 70)]);
    }

    #[test]
    fn locks_that_are_not_visible_count_for_nothing() {
        let mut state = State::new();
        for (id, lock) in [(1, "open"), (2, "secret"), (3, "secret"), (4, "open")] {
            lose(&mut state, id, "ci-7", &[lock], 100);
        }
        let is_visible = |lock: &LockName| lock.as_str() == "open";
        assert_eq!(lost_by(state.expired_walk(WallMillis(0)).only(&is_visible), 1), [("ci-7", 2, "open", 100)]);
    }
}

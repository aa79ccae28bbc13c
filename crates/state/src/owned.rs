//! Lists what a session owns, from any position on: its grants by number, with one entry for each of their locks, and
//! its ephemeral nodes by path.

use crate::{State, record::Contender, small_set::SmallSet};
use fairhold_types::{GrantNumber, LockName, Path, SessionNumber};
use std::ops::Bound::{Excluded, Unbounded};

/// The position of one lock of a session's grant. It stays valid when the grant has ended, so a page can begin after
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedKey {
    /// The grant.
    pub number: GrantNumber,
    /// The index of the lock in the grant's request.
    pub lock: usize,
}

impl State {
    /// The live grants of a session, one entry for each of their locks: those after a key, or all.
    pub fn grants_after(
        &self,
        session: SessionNumber,
        after: Option<OwnedKey>,
    ) -> impl Iterator<Item = (OwnedKey, &Contender, &LockName)> + Send {
        let first = first_number(after);
        let numbers = self.index.of_session.get(&session).into_iter().flat_map(move |numbers| numbers.range(first..));
        self.entries_after(numbers.copied(), after)
    }

    /// The same for the grants of all sessions, and for cooling grants.
    pub(crate) fn all_grants_after(
        &self,
        after: Option<OwnedKey>,
    ) -> impl Iterator<Item = (OwnedKey, &Contender, &LockName)> + Send {
        self.entries_after(self.tree.grant_numbers_from(first_number(after)), after)
    }

    fn entries_after(
        &self,
        numbers: impl Iterator<Item = GrantNumber> + Send,
        after: Option<OwnedKey>,
    ) -> impl Iterator<Item = (OwnedKey, &Contender, &LockName)> + Send {
        let entries = numbers.filter_map(|number| self.contender(number)).flat_map(|grant| {
            grant.locks().enumerate().map(move |(lock, name)| (OwnedKey { number: grant.number, lock }, grant, name))
        });
        // The first grant may have locks up to the key.
        entries.skip_while(move |(key, _, _)| Some(*key) <= after)
    }

    /// How many live grants a session has.
    #[must_use]
    pub fn grant_count(&self, session: SessionNumber) -> usize {
        self.index.of_session.get(&session).map_or(0, SmallSet::len)
    }

    /// The ephemeral nodes of a session: those after a path, or all.
    pub fn ephemerals_after(&self, session: SessionNumber, after: Option<&Path>) -> impl Iterator<Item = &Path> + Send {
        let begin = after.map_or(Unbounded, |after| Excluded(after.clone()));
        self.index.ephemerals.get(&session).into_iter().flat_map(move |paths| paths.range((begin.clone(), Unbounded)))
    }
}

/// The grant whose locks a page may begin with.
fn first_number(after: Option<OwnedKey>) -> GrantNumber {
    after.map_or(GrantNumber(0), |after| after.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{Acquire, Claimant, Command, Lifetime, Operation, Outcome, Transact},
        request_for_tests::{acquire_in, open_session},
    };
    use fairhold_types::{GrantId, Mode, SessionId, time::WallMillis};

    const AT: WallMillis = WallMillis(1);
    const ID: SessionId = SessionId(7);

    fn applied(state: &mut State, command: Command) -> Outcome {
        state.apply(&command).answer.result.unwrap()
    }

    fn acquire(state: &mut State, id: u128, locks: &[&str]) {
        acquire_of(state, Claimant::Session(ID), id, locks);
    }

    fn acquire_of(state: &mut State, claimant: Claimant, id: u128, locks: &[&str]) {
        let acquire = Acquire { claimant, ..acquire_in(ID, GrantId::from_ulid(id), locks, Mode::Exclusive) };
        applied(state, Command::Acquire(acquire));
    }

    fn owner_of_much() -> (State, SessionNumber) {
        let mut state = State::new();
        let Outcome::SessionOpened { number, .. } = applied(&mut state, open_session(ID)) else { panic!("not opened") };
        acquire(&mut state, 1, &["a"]);
        acquire(&mut state, 2, &["c", "b", "d"]);
        acquire(&mut state, 3, &["e"]);
        let put = |path: &&str| Operation::Put {
            path: Path::parse(path).unwrap(),
            value: Vec::new().into(),
            parents: false,
            lifetime: Lifetime::Ephemeral { session: ID },
        };
        let then = ["/z", "/x", "/y"].iter().map(put).collect();
        let transact = Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: AT };
        applied(&mut state, Command::Transact(transact));
        (state, number)
    }

    #[test]
    fn a_page_can_begin_after_any_key() {
        let (state, session) = owner_of_much();
        let all: Vec<_> = state.grants_after(session, None).map(|(key, _, lock)| (key, lock.as_str())).collect();
        assert_eq!(all.iter().map(|(_, lock)| *lock).collect::<Vec<_>>(), ["a", "c", "b", "d", "e"]);
        for (index, (key, _)) in all.iter().enumerate() {
            let rest: Vec<_> = state.grants_after(session, Some(*key)).map(|(key, _, lock)| (key, lock.as_str())).collect();
            assert_eq!(rest, all[index + 1..]);
        }
        assert_eq!((state.grant_count(session), state.grant_count(SessionNumber(99))), (3, 0));
        assert_eq!((state.ephemeral_count(session), state.ephemeral_count(SessionNumber(99))), (3, 0));
        let nodes = |after: Option<&str>| {
            let after = after.map(|path| Path::parse(path).unwrap());
            state.ephemerals_after(session, after.as_ref()).map(Path::as_str).collect::<Vec<_>>()
        };
        assert_eq!(
            (nodes(None), nodes(Some("/x")), nodes(Some("/xx"))),
            (vec!["/x", "/y", "/z"], vec!["/y", "/z"], vec!["/y", "/z"])
        );
    }

    #[test]
    fn a_grant_made_by_the_very_first_command_is_on_the_first_page() {
        let mut state = State::new();
        acquire_of(&mut state, Claimant::Anonymous { timeout_ms: 10_000 }, 1, &["a"]);
        let first: Vec<_> = state.grants_after(SessionNumber(1), None).map(|(key, _, lock)| (key, lock.as_str())).collect();
        assert_eq!(first, [(OwnedKey { number: GrantNumber(1), lock: 0 }, "a")]);
    }

    #[test]
    fn a_page_can_begin_after_a_grant_that_has_ended() {
        let (mut state, session) = owner_of_much();
        let (key, _, _) = state.grants_after(session, None).nth(1).unwrap();
        applied(&mut state, Command::Release { grant: GrantId::from_ulid(2), session: None, at: AT });
        let rest: Vec<&str> = state.grants_after(session, Some(key)).map(|(_, _, lock)| lock.as_str()).collect();
        assert_eq!(rest, ["e"]);
    }
}

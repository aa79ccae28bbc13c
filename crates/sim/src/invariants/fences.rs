//! A fence passes only while a grant with its token is held. After a write with the token of an exclusive holder, no
//! write with an older exclusive token of that lock is accepted.

use super::invariant::Invariant;
use crate::facts::{Applied, Fact};
use fairhold_state::command::Event;
use fairhold_types::{FencingToken, GrantNumber, LockName, Revision};
use std::collections::BTreeMap;

/// A grant, and when its token ended, if it has.
type Term = (GrantNumber, Option<Revision>);

#[derive(Default)]
pub(crate) struct Fences {
    terms: BTreeMap<(LockName, FencingToken), Vec<Term>>,
    accepted: BTreeMap<LockName, BTreeMap<Revision, FencingToken>>,
}

impl Fences {
    fn happened(&mut self, event: &Event, at: Revision) {
        if let Event::Granted { lock, grant, token } = event {
            // A holder that is granted again gets a new token. Its previous token ends here.
            let before = self.terms.iter_mut().filter(|((of, _), _)| of == lock).flat_map(|(_, terms)| terms);
            before.filter(|(number, end)| number == grant && end.is_none()).for_each(|(_, end)| *end = Some(at));
            self.terms.entry((lock.clone(), *token)).or_default().push((*grant, None));
        }
        if let Event::Ended { grant, .. } = event {
            let ended = self.terms.values_mut().flatten().filter(|(number, end)| number == grant && end.is_none());
            ended.for_each(|(_, end)| *end = Some(at));
        }
    }

    /// Checks an accepted write with that token as its fence.
    fn passed(&mut self, lock: &LockName, token: FencingToken, exclusive: bool, revision: Revision) -> Result<(), String> {
        let terms = self.terms.get(&(lock.clone(), token)).map(Vec::as_slice).unwrap_or_default();
        if !terms.iter().any(|(_, end)| end.is_none_or(|end| end > revision)) {
            return Err(format!("{lock}: a write with token {token} was accepted at revision {revision}, held by {terms:?}"));
        }
        if !exclusive {
            return Ok(());
        }
        let accepted = self.accepted.entry(lock.clone()).or_default();
        accepted.insert(revision, token);
        // Answers arrive in any order, so both neighbours count.
        let earlier = accepted.range(..revision).next_back().is_some_and(|(_, before)| *before > token);
        let later = accepted.range(revision..).nth(1).is_some_and(|(_, after)| *after < token);
        if earlier || later {
            return Err(format!("{lock}: a write with token {token} was accepted at revision {revision}, out of order"));
        }
        Ok(())
    }
}

impl Invariant for Fences {
    fn name(&self) -> &'static str {
        "fences hold"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if applied.first {
            applied.events.iter().for_each(|event| self.happened(event, applied.revision));
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Fenced { lock, token, exclusive, revision } = fact else { return Ok(()) };
        self.passed(lock, *token, *exclusive, *revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{EndReason, SessionNumber};

    fn lock() -> LockName {
        LockName::parse("a").unwrap()
    }

    /// Tokens 5 and 6 were granted at those revisions; the grant with token 5 ended at revision 12.
    fn fences() -> Fences {
        let mut fences = Fences::default();
        for token in [5, 6] {
            let granted = Event::Granted { lock: lock(), grant: GrantNumber(token), token: FencingToken(token) };
            fences.happened(&granted, Revision(token));
        }
        let (grant, session) = (GrantNumber(5), SessionNumber(5));
        let ended = Event::Ended { lock: lock(), grant, session, reason: EndReason::Expired };
        fences.happened(&ended, Revision(12));
        fences
    }

    #[test]
    fn a_token_without_a_holder_is_found() {
        let passes = |token, revision| fences().passed(&lock(), FencingToken(token), false, Revision(revision)).is_ok();
        assert!(passes(5, 11) && passes(6, 13));
        assert!(!passes(5, 13) && !passes(7, 13));
    }

    #[test]
    fn a_token_from_before_an_upgrade_is_found() {
        let mut fences = fences();
        let upgraded = Event::Granted { lock: lock(), grant: GrantNumber(6), token: FencingToken(9) };
        fences.happened(&upgraded, Revision(9));
        let mut passes = |token, revision| fences.passed(&lock(), FencingToken(token), false, Revision(revision)).is_ok();
        assert!(passes(6, 8) && passes(9, 10));
        assert!(!passes(6, 10));
    }

    #[test]
    fn an_older_token_after_a_newer_one_is_found_in_any_order_of_answers() {
        let passes = |first: (u64, u64), second: (u64, u64)| {
            let mut fences = fences();
            assert!(fences.passed(&lock(), FencingToken(first.0), true, Revision(first.1)).is_ok());
            fences.passed(&lock(), FencingToken(second.0), true, Revision(second.1)).is_ok()
        };
        assert!(passes((5, 10), (6, 11)) && passes((6, 11), (5, 10)));
        assert!(!passes((6, 10), (5, 11)) && !passes((5, 11), (6, 10)));
    }
}

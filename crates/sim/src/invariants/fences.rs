//! After a write with a token of an exclusive holder was accepted, no write with an older such token of that lock is.

use super::Invariant;
use crate::oracle::Fact;
use fairhold_types::{FencingToken, LockName, Revision};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Fences {
    accepted: BTreeMap<LockName, BTreeMap<Revision, FencingToken>>,
}

impl Invariant for Fences {
    fn name(&self) -> &'static str {
        "fences hold"
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Fenced { lock, token, revision } = fact else { return Ok(()) };
        let accepted = self.accepted.entry(lock.clone()).or_default();
        accepted.insert(*revision, *token);
        // Answers arrive in any order, so both neighbours count.
        let earlier = accepted.range(..*revision).next_back().is_some_and(|(_, before)| before > token);
        let later = accepted.range(*revision..).nth(1).is_some_and(|(_, after)| after < token);
        if earlier || later {
            return Err(format!("{lock}: a write with token {token} was accepted at revision {revision}, out of order"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_token_after_a_newer_one_is_found_in_whatever_order_it_is_told() {
        let fenced = |token, revision| Fact::Fenced {
            lock: LockName::parse("a").unwrap(),
            token: FencingToken(token),
            revision: Revision(revision),
        };
        let mut fences = Fences::default();
        assert!(fences.told(&fenced(5, 10)).is_ok());
        assert!(fences.told(&fenced(6, 12)).is_ok());
        assert!(fences.told(&fenced(5, 11)).is_ok());
        assert!(fences.told(&fenced(5, 13)).is_err());
        let mut fences = Fences::default();
        assert!(fences.told(&fenced(5, 13)).is_ok());
        assert!(fences.told(&fenced(6, 12)).is_err());
    }
}

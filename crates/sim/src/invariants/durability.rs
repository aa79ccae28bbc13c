//! Nothing acknowledged is lost: the content of a revision that a client has seen never changes, on any node.

use super::invariant::Invariant;
use crate::facts::{Applied, Fact};
use fairhold_state::{State, command::Event};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Durability {
    grants: BTreeMap<u64, Vec<(String, u64)>>,
    written: BTreeMap<u64, Vec<String>>,
    highest_answered: u64,
}

impl Durability {
    fn check(&self, fact: &Fact) -> Result<(), String> {
        if let Fact::Held { lock, number, token } = fact {
            let grants = self.grants.get(&token.0).map(Vec::as_slice).unwrap_or_default();
            if !grants.contains(&(lock.to_string(), *number)) {
                return Err(format!("grant #{number} of {lock} was acknowledged with token {token}, which granted {grants:?}"));
            }
        }
        if let Fact::Wrote { path, revision, .. } = fact {
            let written = self.written.get(&revision.0).map(Vec::as_slice).unwrap_or_default();
            if !written.contains(path) {
                return Err(format!("a write of {path} was acknowledged at revision {revision}, which wrote {written:?}"));
            }
        }
        Ok(())
    }
}

impl Invariant for Durability {
    fn name(&self) -> &'static str {
        "nothing acknowledged is lost"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::Granted { lock, grant, token } = event {
                self.grants.entry(token.0).or_default().push((lock.to_string(), grant.0));
            }
            if let Event::NodeCreated { path } | Event::NodeChanged { path, .. } = event {
                self.written.entry(applied.revision.0).or_default().push(path.to_string());
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::Answered { revision, .. } = fact {
            self.highest_answered = self.highest_answered.max(revision.0);
        }
        self.check(fact)
    }

    fn finished(&mut self, state: &State) -> Result<(), String> {
        if state.revision().0 < self.highest_answered {
            return Err(format!(
                "a client received revision {}, but the last one is {}",
                self.highest_answered,
                state.revision()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{FencingToken, LockName, Revision};

    #[test]
    fn a_grant_and_a_write_that_never_existed_are_found() {
        let mut durability = Durability::default();
        let held = Fact::Held { lock: LockName::parse("a").unwrap(), number: 3, token: FencingToken(4) };
        let wrote = Fact::Wrote { path: "/x".to_owned(), version: 0, value: String::new(), revision: Revision(5) };
        assert!(durability.observe(&held).is_err());
        assert!(durability.observe(&wrote).is_err());
        durability.grants.insert(4, vec![("a".to_owned(), 3)]);
        durability.written.insert(5, vec!["/x".to_owned()]);
        assert!(durability.observe(&held).is_ok());
        assert!(durability.observe(&wrote).is_ok());
        let ahead = Fact::Answered { what: String::new(), floor: Revision(0), revision: Revision(9) };
        assert!(durability.observe(&ahead).is_ok());
        assert!(durability.finished(&State::new()).is_err(), "the final state is older than an answer");
    }
}

//! The tokens of a lock grow from holder to holder, strictly if one of the two is exclusive.

use super::invariant::Invariant;
use crate::facts::Applied;
use fairhold_state::command::Event;
use fairhold_types::{FencingToken, LockName};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Tokens {
    last: BTreeMap<LockName, (FencingToken, u64)>,
}

impl Tokens {
    /// Checks the token of a grant at a revision.
    fn granted(&mut self, lock: &LockName, token: FencingToken, revision: u64) -> Result<(), String> {
        if token.0 != revision {
            return Err(format!("{lock} was granted at revision {revision} with the token {token}"));
        }
        match self.last.insert(lock.clone(), (token, revision)) {
            Some((before, at)) if before > token || (before == token && at != revision) => {
                Err(format!("{lock} granted token {token} after token {before}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Invariant for Tokens {
    fn name(&self) -> &'static str {
        "tokens grow"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::Granted { lock, token, .. } = event {
                self.granted(lock, *token, applied.revision.0)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decreasing_token_is_found() {
        let lock: LockName = LockName::parse("a").unwrap();
        let mut tokens = Tokens::default();
        assert!(tokens.granted(&lock, FencingToken(5), 5).is_ok());
        assert!(tokens.granted(&lock, FencingToken(5), 5).is_ok(), "readers granted together share a token");
        assert!(tokens.granted(&lock, FencingToken(4), 4).is_err());
        assert!(tokens.granted(&lock, FencingToken(7), 8).is_err());
    }
}

//! Each version of a leader's value is announced once. A read of the leader returns an announced value.

use super::invariant::Invariant;
use crate::facts::{Applied, Fact};
use fairhold_state::command::Event;
use fairhold_types::{FencingToken, LockName};
use std::collections::BTreeMap;

/// A leader's token, and the version of its value.
type Version = (LockName, FencingToken, u64);

#[derive(Default)]
pub(crate) struct Elections {
    values: BTreeMap<Version, String>,
    /// No two requests have the same value.
    versions: BTreeMap<String, Version>,
}

impl Elections {
    fn proclaimed(&mut self, version: Version, value: &str) -> Result<(), String> {
        if let Some(before) = self.versions.insert(value.to_owned(), version.clone()) {
            return Err(format!("{value:?} was proclaimed as {before:?} and as {version:?}"));
        }
        match self.values.insert(version.clone(), value.to_owned()) {
            Some(before) => Err(format!("{version:?} is {before:?} and {value:?}")),
            None => Ok(()),
        }
    }

    fn led(&self, version: &Version, value: &str) -> Result<(), String> {
        match self.values.get(version) {
            Some(known) if known == value => Ok(()),
            known => Err(format!("{version:?} was reported as {value:?}, but is {known:?}")),
        }
    }
}

impl Invariant for Elections {
    fn name(&self) -> &'static str {
        "a leader's value is told once"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::Proclaimed { lock, token, version, value, .. } = event {
                let version = u64::try_from(*version).unwrap_or_default();
                self.proclaimed((lock.clone(), *token, version), &String::from_utf8_lossy(value.as_ref()))?;
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Led { election, token, version, value } = fact else { return Ok(()) };
        self.led(&(election.clone(), *token, *version), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_proclaimed_twice_and_a_value_never_proclaimed_are_found() {
        let version = |version| (LockName::parse("chief").unwrap(), FencingToken(5), version);
        let mut elections = Elections::default();
        assert!(elections.proclaimed(version(0), "a").is_ok() && elections.proclaimed(version(1), "b").is_ok());
        assert!(elections.led(&version(1), "b").is_ok());
        assert!(elections.led(&version(1), "a").is_err() && elections.led(&version(2), "b").is_err());
        assert!(elections.proclaimed(version(2), "a").is_err());
    }
}

//! A version of a node has one value, whoever reads it and wherever.

use super::Invariant;
use crate::oracle::Fact;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Registers {
    values: BTreeMap<(String, i64), String>,
}

impl Invariant for Registers {
    fn name(&self) -> &'static str {
        "a version has one value"
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        let (Fact::Wrote { path, version, value, .. } | Fact::Read { path, version, value }) = fact else { return Ok(()) };
        let known = self.values.entry((path.clone(), *version)).or_insert_with(|| value.clone());
        if known != value {
            return Err(format!("version {version} of {path} is {known:?} and {value:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_with_two_values_is_found() {
        let read = |value: &str| Fact::Read { path: "/x".to_owned(), version: 3, value: value.to_owned() };
        let mut registers = Registers::default();
        assert!(registers.told(&read("a")).is_ok());
        assert!(registers.told(&read("a")).is_ok());
        assert!(registers.told(&read("b")).is_err());
    }
}

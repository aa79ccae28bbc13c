//! A version of a node has the same value for every reader at every server, from the creation of the node to its
//! removal. A value that was written once has one version, even if its request was repeated. A read returns the value
//! at its revision.

use super::invariant::Invariant;
use crate::{
    facts::{Applied, Fact, Physics},
    host::TRUE_RATE,
};
use fairhold_state::command::Event;
use fairhold_types::Revision;
use std::collections::{BTreeMap, btree_map::Entry};

pub(crate) struct Registers {
    /// The value of each version of each node that exists. A node that is created again counts from zero again.
    values: BTreeMap<String, BTreeMap<i64, String>>,
    /// The version of each value. No two requests write the same value.
    versions: BTreeMap<(String, String), i64>,
    history: BTreeMap<String, BTreeMap<Revision, (i64, String)>>,
    /// The values of sequential nodes, each with the node that has it.
    sequential: BTreeMap<String, Option<String>>,
    /// Under a fast clock a node may forget a key sooner than its client gives up repeating it.
    keys_last: bool,
}

impl Registers {
    pub(crate) fn new(physics: Physics) -> Registers {
        Registers {
            values: BTreeMap::new(),
            versions: BTreeMap::new(),
            history: BTreeMap::new(),
            sequential: BTreeMap::new(),
            keys_last: physics.rate_max == TRUE_RATE,
        }
    }

    fn check_version(&mut self, path: &str, version: i64, value: &str) -> Result<(), String> {
        let known = self.values.entry(path.to_owned()).or_default().entry(version).or_insert_with(|| value.to_owned());
        if known != value {
            return Err(format!("version {version} of {path} is {known:?} and {value:?}"));
        }
        Ok(())
    }

    /// A request creates one node, even if it arrives twice, and even after that node was deleted.
    fn made(&mut self, path: &str, value: &str) -> Result<(), String> {
        match self.sequential.get_mut(value) {
            Some(Some(first)) if self.keys_last => Err(format!("one request made {first} and {path}")),
            Some(first) => {
                *first = Some(path.to_owned());
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn written(&mut self, path: &str, version: i64, value: &str, revision: Revision) -> Result<(), String> {
        self.history.entry(path.to_owned()).or_default().insert(revision, (version, value.to_owned()));
        match self.versions.entry((path.to_owned(), value.to_owned())) {
            Entry::Occupied(first) if self.keys_last => {
                return Err(format!("{value:?} was written to {path} twice: as version {} and as {version}", first.get()));
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(none) => drop(none.insert(version)),
        }
        self.check_version(path, version, value)
    }

    fn removed(&mut self, path: &str) {
        self.values.remove(path);
    }

    fn read(&self, path: &str, version: i64, value: &str, revision: Revision) -> Result<(), String> {
        let history = self.history.get(path);
        let there = history.and_then(|history| history.range(..=revision).next_back()).map(|(_, there)| there);
        match there {
            Some((known, text)) if *known == version && text == value => Ok(()),
            there => {
                Err(format!("version {version} with {value:?} of {path} was read at revision {revision}, but it is {there:?}"))
            }
        }
    }
}

impl Invariant for Registers {
    fn name(&self) -> &'static str {
        "a version has one value"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::NodeDeleted { path, .. } = event {
                self.removed(path.as_str());
            }
            if let Event::NodeCreated { path } | Event::NodeChanged { path, .. } = event
                && let Some(node) = applied.state.node(path)
                && let Ok(value) = std::str::from_utf8(node.value.as_ref())
                && node.ephemeral_owner.0 == 0
            {
                if let Event::NodeCreated { .. } = event {
                    self.made(path.as_str(), value)?;
                }
                self.written(path.as_str(), i64::from(node.version), value, applied.revision)?;
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::Wrote { path, version, value, .. } = fact {
            return self.check_version(path, *version, value);
        }
        if let Fact::CreatingSequential { value } = fact {
            self.sequential.insert(value.clone(), None);
        }
        let Fact::Read { path, version, value, revision } = fact else { return Ok(()) };
        self.read(path, *version, value, *revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        let mut registers = Registers::new(Physics { rate_max: TRUE_RATE });
        assert!(registers.written("/x", 0, "a", Revision(5)).is_ok());
        assert!(registers.written("/x", 1, "b", Revision(7)).is_ok());
        registers
    }

    #[test]
    fn a_version_with_two_values_is_found() {
        let wrote =
            |value: &str| Fact::Wrote { path: "/x".to_owned(), version: 1, value: value.to_owned(), revision: Revision(7) };
        assert!(registers().observe(&wrote("b")).is_ok());
        assert!(registers().observe(&wrote("c")).is_err());
    }

    #[test]
    fn a_node_that_is_created_again_counts_its_versions_again() {
        let mut registers = registers();
        assert!(registers.written("/x", 0, "c", Revision(9)).is_err());
        registers.removed("/x");
        assert!(registers.written("/x", 0, "d", Revision(10)).is_ok());
        assert!(registers.written("/x", 0, "e", Revision(11)).is_err());
    }

    #[test]
    fn a_request_that_makes_two_nodes_is_found() {
        let mut registers = registers();
        registers.observe(&Fact::CreatingSequential { value: "k".to_owned() }).unwrap();
        assert!(registers.made("/bed/1", "k").is_ok() && registers.made("/bed/2", "unknown").is_ok());
        assert!(registers.made("/bed/3", "k").is_err());
    }

    #[test]
    fn a_value_that_is_written_twice_is_found() {
        assert!(registers().written("/x", 2, "a", Revision(9)).is_err());
        assert!(registers().written("/y", 2, "a", Revision(9)).is_ok());
    }

    #[test]
    fn a_read_older_or_newer_than_its_revision_is_found() {
        let read = |version, value: &str, revision| {
            let (path, value) = ("/x".to_owned(), value.to_owned());
            registers().observe(&Fact::Read { path, version, value, revision: Revision(revision) }).is_ok()
        };
        assert!(read(0, "a", 5) && read(0, "a", 6) && read(1, "b", 7) && read(1, "b", 99));
        assert!(!read(0, "a", 7) && !read(1, "b", 6) && !read(0, "a", 4));
    }
}

//! The known survivors: mutants that no test notices, each with the reason.
//!
//! An unindented line describes a mutant. The indented lines below it say why no test notices it.

use std::{collections::BTreeMap, fs, io, path::Path};

/// The known survivors of a crate.
#[derive(Debug, Default)]
pub(crate) struct Survivors(BTreeMap<String, String>);

impl Survivors {
    /// Reads the list. A crate without a file has no known survivors.
    ///
    /// # Errors
    /// A file cannot be read, or a mutant has no reason.
    pub(crate) fn read(path: &Path) -> Result<Survivors, String> {
        match fs::read_to_string(path) {
            Ok(text) => Survivors::parse(&text).map_err(|why| format!("{}: {why}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Survivors::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Survivors, String> {
        let (mut all, mut current): (BTreeMap<String, String>, Option<String>) = (BTreeMap::new(), None);
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if line.starts_with(' ') {
                let reason = current.as_ref().and_then(|identity| all.get_mut(identity)).ok_or("it begins with a reason")?;
                reason.push_str(line.trim());
            } else {
                all.insert(line.to_owned(), String::new());
                current = Some(line.to_owned());
            }
        }
        match all.iter().find(|(_, reason)| reason.is_empty()) {
            Some((identity, _)) => Err(format!("there is no reason below: {identity}")),
            None => Ok(Survivors(all)),
        }
    }

    /// Whether the list has this mutant.
    pub(crate) fn has(&self, identity: &str) -> bool {
        self.0.contains_key(identity)
    }

    /// The new survivors, and the known ones that a test notices now.
    pub(crate) fn complaints(&self, survived: &[&str], killed: &[&str]) -> Vec<String> {
        let new =
            survived.iter().filter(|identity| !self.has(identity)).map(|identity| format!("new: no test notices: {identity}"));
        let old = killed
            .iter()
            .filter(|identity| self.has(identity))
            .map(|identity| format!("a test notices this one now: take it out: {identity}"));
        new.chain(old).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_needs_a_reason_and_the_list_must_be_true() {
        let known = Survivors::parse("# Why\na.rs f: x\n    It only logs.\n\nb.rs g: y\n    The same\n    twice.\n").unwrap();
        assert!(known.has("a.rs f: x") && known.has("b.rs g: y") && !known.has("It only logs."));
        assert!(Survivors::parse("a.rs f: x\nb.rs g: y\n    why\n").unwrap_err().contains("no reason below: a.rs"));
        assert!(Survivors::parse("    why\n").is_err());
        assert!(known.complaints(&["a.rs f: x"], &["c.rs h: z"]).is_empty());
        assert_eq!(known.complaints(&["c.rs h: z"], &["b.rs g: y"]).len(), 2);
    }
}

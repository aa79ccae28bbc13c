//! Public type names that two crates define. One name has one meaning, so each such pair needs a reason.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// The crates that define each public type, by its name. Binaries, tests and code below `#[cfg(test)]` do not count.
pub(crate) fn public_types(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test_file()) {
        let Some((krate, _)) = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else { continue };
        let tests = source.test_ranges();
        let mut offset = 0;
        for line in source.code.split_inclusive('\n') {
            let start = offset;
            offset += line.len();
            if tests.iter().any(|range| range.contains(&start)) {
                continue;
            }
            if let Some(name) = public_type(line) {
                found.entry(name.to_owned()).or_default().insert(krate.to_owned());
            }
        }
    }
    found
}

/// The name that a line declares, if it declares a public type. The parameter of a macro is no name.
fn public_type(line: &str) -> Option<&str> {
    let declaration = line.trim_start().strip_prefix("pub ")?;
    let declaration = declaration.strip_prefix("unsafe ").unwrap_or(declaration);
    let (keyword, rest) = declaration.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (KEYWORDS.contains(&keyword) && end > 0).then(|| &rest[..end])
}

/// `tests/tidy/names.txt`: each name that two crates define, and why both mean the same.
pub(crate) fn known_pairs(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let split = |line: &str| {
        let (name, reason) = line.split_once(": ").unwrap_or((line, ""));
        (name.to_owned(), reason.to_owned())
    };
    lines.map(split).collect()
}

/// Complains about a pair without a reason, and a reason without its pair.
pub(crate) fn check_pairs(sources: &[Source], known: &BTreeMap<String, String>) -> Vec<String> {
    let pairs: BTreeMap<String, BTreeSet<String>> =
        public_types(sources).into_iter().filter(|(_, crates)| crates.len() > 1).collect();
    let unknown = pairs.iter().filter(|(name, _)| known.get(*name).is_none_or(String::is_empty)).map(|(name, crates)| {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        format!(
            "{name}: {} each define it; rename one, or say in tests/tidy/names.txt why both mean the same",
            crates.join(" and ")
        )
    });
    let gone = known.keys().filter(|name| !pairs.contains_key(*name));
    unknown.chain(gone.map(|name| format!("{name}: one crate defines it; remove it from tests/tidy/names.txt"))).collect()
}

#[test]
fn a_name_with_two_meanings_is_found() {
    let file = |krate: &str, text: &str| Source::new(&format!("crates/{krate}/src/lib.rs"), text);
    let check = |one: &str, two: &str, known: &str| check_pairs(&[file("a", one), file("b", two)], &known_pairs(known)).len();
    assert_eq!(check("pub struct Bee;\n", "pub enum Bee {}\n", ""), 1);
    assert_eq!(check("pub struct Bee<T>(T);\n", "    pub type Bee = u8;\n", ""), 1);
    assert_eq!(check("pub struct Bee;\n", "pub enum Bee {}\n", "Bee: the same insect\n"), 0);
    assert_eq!(check("pub struct Bee;\n", "pub enum Bee {}\n", "Bee: \n"), 1, "an argument is missing");
    assert_eq!(check("pub struct Bee;\n", "pub(crate) enum Bee {}\nstruct Wasp;\n", ""), 0);
    assert_eq!(check("pub struct $name;\n", "pub struct $name(u8);\n", ""), 0, "parameters of macros");
    assert_eq!(check("pub struct Bee;\n", "#[cfg(test)]\nmod tests {\n    pub struct Bee;\n}\n", ""), 0, "tests do not count");
    assert_eq!(
        check("pub struct Bee;\n", "// pub struct Bee;\n", "Bee: the same insect\n"),
        1,
        "a line that is no longer needed"
    );
}

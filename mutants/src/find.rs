//! Finds the possible small changes of a source file.
//!
//! Constants, patterns, types, macros and test code are not changed: such a change cannot be switched on at run time,
//! or does not change the product.

mod visit;

use crate::plan::Plan;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// The longest piece of source text in a description, in characters.
const SHOWN_MAX: usize = 70;

/// The kind of text that a change replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An expression.
    Expression,
    /// A statement with its semicolon; the change removes it.
    Statement,
    /// The start of a function's body; the change returns at once.
    Body,
}

/// One change to the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The file, below the checkout.
    pub(crate) file: PathBuf,
    /// The bytes of the file that it replaces; empty for `Kind::Body`.
    pub(crate) range: Range<usize>,
    /// The kind of these bytes.
    pub(crate) kind: Kind,
    /// The replacement.
    pub(crate) text: String,
    /// The bytes of the function around it.
    pub(crate) function: Range<usize>,
    /// File, function and change as text: stable when the source changes elsewhere.
    pub(crate) identity: String,
}

impl Mutant {
    /// A number that does not depend on its place.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.identity).into()
    }

    /// By place.
    pub(crate) fn order(&self) -> (&Path, usize, &str) {
        (&self.file, self.range.start, &self.identity)
    }
}

/// All mutants of a crate, in the order of its source.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub(crate) fn in_crate(root: &Path, plan: &Plan) -> Result<Vec<Mutant>, String> {
    let folder = PathBuf::from("crates").join(plan.name).join("src");
    let (mut files, mut tests, mut mutants) = (Vec::new(), Vec::new(), Vec::new());
    collect(&root.join(&folder), &mut files)?;
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let syntax = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let inside = path.strip_prefix(root).unwrap_or(&path).to_owned();
        tests.extend(visit::test_modules(&syntax).into_iter().map(|module| module_folder(&inside).join(module)));
        let short = inside.strip_prefix(&folder).unwrap_or(&inside).to_owned();
        if !plan.left_out.iter().any(|left_out| short.starts_with(left_out)) {
            mutants.extend(in_text(&inside, &short, &text, &syntax));
        }
    }
    mutants.retain(|mutant| {
        !tests.iter().any(|module| mutant.file.starts_with(module) || mutant.file == module.with_extension("rs"))
    });
    mutants.sort_by(|one, other| one.order().cmp(&other.order()));
    Ok(mutants)
}

/// The folder of a file's modules.
fn module_folder(file: &Path) -> PathBuf {
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") | None => file.parent().unwrap_or(file).to_owned(),
        Some(_) => file.with_extension(""),
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The mutants of one file.
fn in_text(file: &Path, short: &Path, text: &str, syntax: &syn::File) -> Vec<Mutant> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut mutants = Vec::new();
    for change in visit::changes(text, syntax) {
        let mut identity = format!("{} {}: {}", short.display(), change.inside, shorten(&change.what));
        let times = seen.entry(identity.clone()).or_default();
        *times += 1;
        if *times > 1 {
            identity = format!("{identity} ({times})");
        }
        let visit::Mutation { range, kind, text, function, .. } = change;
        mutants.push(Mutant { file: file.to_owned(), range, kind, text, function, identity });
    }
    mutants
}

/// One line of a bounded length.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 2 * SHOWN_MAX {
        return line;
    }
    let start: String = line.chars().take(SHOWN_MAX).collect();
    let end: String = line.chars().rev().take(SHOWN_MAX).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests;

//! A copy of the checkout in which an environment variable switches on one mutant at a time.

use crate::{
    find::{Kind, Mutant},
    plan::Plan,
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

/// The environment variable with the number of the mutant, counted from 1.
pub(crate) const VARIABLE: &str = "FAIRHOLD_MUTANT";

/// The function that the changed crate calls at each place.
const SWITCH: &str = r#"

/// The number of the active mutant; 0: none.
pub(crate) fn fairhold_mutant() -> u32 {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *NUMBER.get_or_init(|| std::env::var("FAIRHOLD_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0))
}
"#;

/// Where a mutant is in the text of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planted {
    /// Its index.
    pub(crate) number: usize,
    /// The file, below the checkout.
    pub(crate) file: PathBuf,
    /// Its own text.
    pub(crate) own: Range<usize>,
    /// Its own text and the original.
    pub(crate) place: Range<usize>,
    /// The function around it.
    pub(crate) function: Range<usize>,
}

/// Creates or updates the copy.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn copy(root: &Path, to: &Path, plan: &Plan, mutants: &[(usize, &Mutant)]) -> Result<Vec<Planted>, String> {
    let mut changed: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut planted = Vec::new();
    let mut files: BTreeMap<&Path, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        files.entry(&mutant.file).or_default().push((*number, mutant));
    }
    for (file, of_file) in files {
        let text = read(&root.join(file))?;
        let (new, places) = render(&text, &of_file);
        planted.extend(places);
        changed.insert(file.to_owned(), new);
    }
    let folder = Path::new("crates").join(plan.name);
    let (library, manifest) = (folder.join("src/lib.rs"), folder.join("Cargo.toml"));
    let text = changed.remove(&library).map_or_else(|| read(&root.join(&library)), Ok)?;
    changed.insert(library, text + SWITCH);
    // The changes do not satisfy the lints of the workspace.
    changed.insert(manifest.clone(), read(&root.join(manifest))?.replace("[lints]\nworkspace = true\n", ""));
    sync(root, to, Path::new(""), &changed)?;
    Ok(planted)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a folder equal to the one in the checkout, except for the changed files. Equal files stay untouched, so that
/// cargo compiles only what is new.
fn sync(root: &Path, to: &Path, folder: &Path, changed: &BTreeMap<PathBuf, String>) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let (from, into) = (root.join(folder), to.join(folder));
    fs::create_dir_all(&into).map_err(|error| failed(&into, error))?;
    for entry in fs::read_dir(&into).map_err(|error| failed(&into, error))? {
        let path = entry.map_err(|error| failed(&into, error))?.path();
        let name = path.file_name().unwrap_or_default();
        if !from.join(name).exists() {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|error| failed(&path, error))?;
        }
    }
    for entry in fs::read_dir(&from).map_err(|error| failed(&from, error))? {
        let path = entry.map_err(|error| failed(&from, error))?.path();
        let name = path.file_name().unwrap_or_default();
        let inside = folder.join(name);
        if name.to_string_lossy().starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            sync(root, to, &inside, changed)?;
            continue;
        }
        let wanted = match changed.get(&inside) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(&path).map_err(|error| failed(&path, error))?,
        };
        let copy = to.join(&inside);
        if fs::read(&copy).ok().as_ref() != Some(&wanted) {
            fs::write(&copy, wanted).map_err(|error| failed(&copy, error))?;
        }
    }
    Ok(())
}

/// All mutants of one range.
struct CodePlace<'a> {
    range: Range<usize>,
    kind: Kind,
    mutants: Vec<(usize, &'a Mutant)>,
}

/// The text of a file with all its mutants, and their places in it.
fn render(text: &str, mutants: &[(usize, &Mutant)]) -> (String, Vec<Planted>) {
    let mut places: Vec<CodePlace> = Vec::new();
    for (number, mutant) in mutants {
        match places.iter_mut().find(|place| place.range == mutant.range && place.kind == mutant.kind) {
            Some(place) => place.mutants.push((*number, mutant)),
            None => places.push(CodePlace { range: mutant.range.clone(), kind: mutant.kind, mutants: vec![(*number, mutant)] }),
        }
    }
    // Outer places first. A statement contains its expression.
    let rank = |kind: Kind| match kind {
        Kind::Body => 0,
        Kind::Statement => 1,
        Kind::Expression => 2,
    };
    places.sort_by_key(|place| (place.range.start, std::cmp::Reverse(place.range.end), rank(place.kind)));
    let mut rendering = Rendering { text, out: String::new(), planted: Vec::new(), pieces: Vec::new() };
    rendering.write(0..text.len(), &places);
    let pieces = rendering.pieces;
    let now = |old: usize| {
        pieces.iter().rev().find(|piece| piece.old <= old).map_or(0, |piece| piece.new + (old - piece.old).min(piece.bytes))
    };
    for planted in &mut rendering.planted {
        planted.function = now(planted.function.start)..now(planted.function.end);
    }
    (rendering.out, rendering.planted)
}

struct Rendering<'a> {
    text: &'a str,
    out: String,
    planted: Vec<Planted>,
    /// The text that is the same in both, in order.
    pieces: Vec<Piece>,
}

/// A piece of text: its start in the old and in the new text.
struct Piece {
    old: usize,
    new: usize,
    bytes: usize,
}

impl Rendering<'_> {
    fn plain(&mut self, range: Range<usize>) {
        self.pieces.push(Piece { old: range.start, new: self.out.len(), bytes: range.len() });
        self.out.push_str(self.text.get(range).unwrap_or_default());
    }

    /// Writes a range of the text with the places in it.
    fn write(&mut self, range: Range<usize>, places: &[CodePlace]) {
        let (mut at, mut next) = (range.start, 0);
        while let Some(place) = places.get(next) {
            let inner = places[next + 1..].iter().take_while(|inner| inner.range.end <= place.range.end).count();
            self.plain(at..place.range.start);
            self.place(place, &places[next + 1..next + 1 + inner]);
            at = place.range.end;
            next += 1 + inner;
        }
        self.plain(at..range.end);
    }

    fn place(&mut self, place: &CodePlace, inner: &[CodePlace]) {
        let (start, first) = (self.out.len(), self.planted.len());
        let (open, close) = match place.kind {
            Kind::Expression => ("(match crate::fairhold_mutant() { ", " })"),
            Kind::Statement => ("match crate::fairhold_mutant() { ", " }"),
            Kind::Body => ("", ""),
        };
        self.out.push_str(open);
        for (number, mutant) in &place.mutants {
            let own = self.out.len();
            let (code, text) = (number + 1, &mutant.text);
            let written = match place.kind {
                Kind::Expression => write!(self.out, "{code}u32 => {text}, "),
                Kind::Statement => write!(self.out, "{code}u32 => {{}} "),
                Kind::Body => write!(self.out, " if crate::fairhold_mutant() == {code}u32 {{ return {text}; }}"),
            };
            debug_assert!(written.is_ok(), "a String takes everything");
            self.planted.push(Planted {
                number: *number,
                file: mutant.file.clone(),
                own: own..self.out.len(),
                place: 0..0,
                function: mutant.function.clone(),
            });
        }
        let last = self.planted.len();
        match place.kind {
            Kind::Expression => self.out.push_str("_ => "),
            Kind::Statement => self.out.push_str("_ => { "),
            Kind::Body => {}
        }
        self.write(place.range.clone(), inner);
        if place.kind == Kind::Statement {
            self.out.push_str(" }");
        }
        self.out.push_str(close);
        let end = self.out.len();
        self.planted[first..last].iter_mut().for_each(|planted| planted.place = start..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(range: Range<usize>, kind: Kind, text: &str) -> Mutant {
        let (file, identity) = (PathBuf::from("a.rs"), String::new());
        Mutant { file, range, kind, text: text.to_owned(), function: 7..20, identity }
    }

    #[test]
    fn mutants_are_nested_and_the_original_is_the_default() {
        let text = "fn f() { g(a < b); }";
        let all = [
            mutant(8..8, Kind::Body, ""),
            mutant(9..18, Kind::Statement, ""),
            mutant(11..16, Kind::Expression, "a <= b"),
            mutant(11..16, Kind::Expression, "true"),
            mutant(15..16, Kind::Expression, "c"),
        ];
        let numbered: Vec<(usize, &Mutant)> = all.iter().enumerate().collect();
        let (new, planted) = render(text, &numbered);
        let switch = "match crate::fairhold_mutant()";
        assert_eq!(
            new,
            format!(
                "fn f() {{ if crate::fairhold_mutant() == 1u32 {{ return ; }} {switch} {{ 2u32 => {{}} _ => {{ \
                 g(({switch} {{ 3u32 => a <= b, 4u32 => true, _ => a < ({switch} {{ 5u32 => c, _ => b }}) }})); }} }} }}"
            )
        );
        let own = |number: usize| &new[planted.iter().find(|planted| planted.number == number).unwrap().own.clone()];
        assert_eq!((own(2), own(3), own(4)), ("3u32 => a <= b, ", "4u32 => true, ", "5u32 => c, "));
        let third = planted.iter().find(|planted| planted.number == 2).unwrap();
        assert!(new[third.place.clone()].starts_with("(match") && new[third.place.clone()].ends_with("})"));
        assert!(new[third.function.clone()].starts_with("{ if crate::") && new[third.function.clone()].ends_with('}'));
    }

    #[test]
    fn a_text_without_mutants_stays_as_it_is() {
        assert_eq!(render("fn f() {}", &[]).0, "fn f() {}");
    }
}

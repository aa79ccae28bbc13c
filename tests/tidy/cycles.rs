//! Finds the files of a crate that import each other in a cycle. A cycle has no first file, so it cannot be read file
//! by file.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A module's path inside its crate, as `["network", "client"]`; the root is empty.
type Module = Vec<String>;

/// The files of one crate, by module.
struct Crate {
    code: BTreeMap<Module, String>,
    /// Names that a module re-exports from another place.
    passed_on: BTreeMap<(Module, String), Module>,
}

/// The cycles of each crate's files: each a sorted list of module paths.
pub(crate) fn cycles(sources: &[Source]) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut crates: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test_file()) {
        if let Some((name, module)) = place(&source.path) {
            crates.entry(name).or_default().insert(module, product_code(source));
        }
    }
    crates.into_iter().map(|(name, code)| (name, Crate::new(code).cycles())).collect()
}

/// The crate and the module of `crates/NAME/src/a/b.rs`. Binaries of a crate next to its root do not count.
fn place(path: &str) -> Option<(String, Module)> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Module = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.first().is_some_and(|first| first == "bin") {
        return None;
    }
    if module == ["lib"] || module == ["main"] {
        module.clear();
    }
    Some((name.to_owned(), module))
}

fn product_code(source: &Source) -> String {
    let mut code = source.code.clone();
    for range in source.test_ranges() {
        let blank: String = code[range.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        let kept = code[range.clone()].len() - blank.len();
        code.replace_range(range, &(blank + &" ".repeat(kept)));
    }
    code
}

impl Crate {
    fn new(code: BTreeMap<Module, String>) -> Crate {
        let mut made = Crate { code, passed_on: BTreeMap::new() };
        let mut passed_on = BTreeMap::new();
        for (module, text) in &made.code {
            for (path, public) in uses(text) {
                if let (true, Some(path)) = (public, made.absolute(module, &path)) {
                    let name = path.last().cloned().unwrap_or_default();
                    passed_on.insert((module.clone(), name), path);
                }
            }
        }
        made.passed_on = passed_on;
        made
    }

    /// A path as used in a module, made absolute within the crate; `None` if it leads elsewhere.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Module> {
        let first = path.first()?.as_str();
        let base = match first {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let base = module.get(..module.len().checked_sub(ups)?)?;
                return Some([base, &path[ups..]].concat());
            }
            _ => {
                let child = [module, &path[..1]].concat();
                return self.code.contains_key(&child).then(|| [module, path].concat());
            }
        };
        Some([base.as_slice(), &path[1..]].concat())
    }

    /// The file that defines the item at a path.
    fn home(&self, path: &[String], depth: usize) -> Module {
        let mut end = 0;
        while end < path.len() && self.code.contains_key(&path[..=end]) {
            end += 1;
        }
        let module = path[..end].to_vec();
        match path.get(end).and_then(|name| self.passed_on.get(&(module.clone(), name.clone()))) {
            Some(origin) if depth < 5 && origin.as_slice() != &path[..=end] => {
                self.home(&[origin.as_slice(), &path[end + 1..]].concat(), depth + 1)
            }
            Some(_) | None => module,
        }
    }

    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let mut arrows: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, text) in &self.code {
            let paths = uses(text).into_iter().chain(inline_paths(text).into_iter().map(|path| (path, false)));
            for (path, public) in paths {
                let Some(path) = self.absolute(module, &path) else { continue };
                let target = self.home(&path, 0);
                // A parent does not use what it re-exports from its child.
                let is_reexport = public && target.starts_with(module);
                if target != *module && !is_reexport {
                    arrows.entry(module).or_default().insert(target);
                }
            }
        }
        arrows
    }

    /// The sets of files that reach each other.
    fn cycles(&self) -> Vec<Vec<String>> {
        let arrows = self.arrows();
        let reached = |from: &Module| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(module) = next.pop() {
                for target in arrows.get(&module).into_iter().flatten() {
                    if seen.insert(target.clone()) {
                        next.push(target.clone());
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&Module, BTreeSet<Module>> = self.code.keys().map(|module| (module, reached(module))).collect();
        let mut cycles = BTreeSet::new();
        for (module, reached) in &reach {
            if reached.contains(*module) {
                let cycle = reached.iter().filter(|other| reach.get(other).is_some_and(|back| back.contains(*module)));
                let names = cycle.map(|module| if module.is_empty() { "lib".to_owned() } else { module.join("/") });
                cycles.insert(names.collect::<Vec<_>>());
            }
        }
        cycles.into_iter().collect()
    }
}

/// The paths that `use` imports, and whether they are re-exported.
fn uses(code: &str) -> Vec<(Vec<String>, bool)> {
    let mut found = Vec::new();
    for statement in code.split_inclusive(';').filter_map(|text| text.strip_suffix(';')) {
        let Some(start) = statement.rfind("use ") else { continue };
        let before = statement[..start].lines().last().unwrap_or_default().trim();
        if before.is_empty() || before.starts_with("pub") && !before.contains(' ') || before.starts_with("pub(in") {
            found.extend(branches(&statement[start + 4..]).into_iter().map(|path| (path, before.starts_with("pub"))));
        }
    }
    found
}

/// The paths of a tree such as `a::{b, c::d}`.
fn branches(tree: &str) -> Vec<Vec<String>> {
    let Some((stem, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()];
    };
    let stem: Vec<String> = stem.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut parts) = (0_usize, vec![String::new()]);
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let inner = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| branches(part));
    inner.map(|path| [stem.as_slice(), &path].concat()).collect()
}

/// Paths of two and more names anywhere in the code.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_part(c)).filter(|word| word.contains("::") && !word.starts_with(':') && !word.ends_with(':'));
    words.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

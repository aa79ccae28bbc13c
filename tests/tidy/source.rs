//! A minimal parser of Rust text for the rules: it finds code, tests and line numbers.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// A file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
    /// The same length and lines, with comments and the contents of strings blanked.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned(), code: code_only(text) }
    }

    /// `path:line` of a byte offset.
    pub(crate) fn at(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.text[..offset].matches('\n').count() + 1)
    }

    /// The offsets at which the code has this text.
    pub(crate) fn find(&self, needle: &str) -> Vec<usize> {
        self.code.match_indices(needle).map(|(offset, _)| offset).collect()
    }

    /// Whether the whole file is test code: an integration test, or a separate module for tests.
    pub(crate) fn is_test_file(&self) -> bool {
        let stem = self.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || stem == "tests"
            || stem.ends_with("_test")
            || stem.ends_with("_tests")
    }

    /// The byte ranges of test code.
    pub(crate) fn test_ranges(&self) -> Vec<Range<usize>> {
        if self.is_test_file() {
            return std::iter::once(0..self.code.len()).collect();
        }
        self.find("#[cfg(test)]").into_iter().map(|start| start..item_end(&self.code, start)).collect()
    }

    /// The number of lines that are not test code.
    pub(crate) fn product_lines(&self) -> usize {
        let tests: usize = self.test_ranges().into_iter().map(|range| self.text[range].lines().count()).sum();
        self.text.lines().count().saturating_sub(tests)
    }
}

/// The end of the item that begins at `start`: its `;`, or the brace that closes its first one.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// Every file under a folder with this extension, in order. A missing folder has none.
pub(crate) fn files_under(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| if path.is_dir() { files_under(&path, ending) } else { vec![path] })
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

/// Blanks comments and the contents of strings and characters: every other byte stays at its offset.
fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let blanked = blank_length(rest, out.chars().next_back());
        if blanked == 0 {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            let (gone, after) = rest.split_at(blanked);
            out.extend(gone.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            rest = after;
        }
    }
    out
}

/// How many bytes from here on are a comment, a string or a character; 0 for code.
fn blank_length(rest: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    if rest.starts_with('"') {
        return quoted_length(rest, '"');
    }
    if !in_word && (rest.starts_with("r\"") || rest.starts_with("r#") || rest.starts_with("br\"") || rest.starts_with("br#")) {
        return raw_string_length(rest);
    }
    // A quote opens a character if another quote closes it; otherwise it opens a lifetime.
    let mut after = rest.chars().skip(1);
    match (rest.starts_with('\''), after.next(), after.next()) {
        (true, Some('\\'), _) | (true, Some(_), Some('\'')) => quoted_length(rest, '\''),
        _ => 0,
    }
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut offset = 0;
    while offset < rest.len() {
        let here = &rest.as_bytes()[offset..];
        if here.starts_with(b"/*") {
            depth += 1;
            offset += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            offset += 2;
            if depth == 0 {
                return offset;
            }
        } else {
            offset += 1;
        }
    }
    rest.len()
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return offset + 1;
        }
    }
    rest.len()
}

/// The length of `r"…"`, `r#"…"#` and their `br` forms; 0 for a raw identifier like `r#type`.
fn raw_string_length(rest: &str) -> usize {
    let prefix = rest.find('r').map_or(0, |at| at + 1);
    let hashes = rest[prefix..].bytes().take_while(|byte| *byte == b'#').count();
    let open = prefix + hashes;
    if !rest[open..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    rest[open + 1..].find(&close).map_or(rest.len(), |at| open + 1 + at + close.len())
}

#[test]
fn comments_and_strings_are_not_code() {
    let text = concat!(
        "let a = \"b // { \\\" }\"; // c\n",
        "let d = 'e'; /* f /* g */ h */ let i: &'static str = r#\"j \" k\"#; let r#type = '\\'';\n"
    );
    let code = code_only(text);
    assert_eq!((code.len(), code.lines().count()), (text.len(), 2));
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words.join(" "), "let a = ; let d = ; let i: &'static str = ; let r#type = ;");
}

#[test]
fn a_test_module_ends_at_its_own_brace() {
    let text = "//! x\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { '}'; }\n}\nfn c() {}\n";
    assert_eq!(Source::new("crates/x/src/lib.rs", text).product_lines(), 3);
    assert_eq!(Source::new("crates/x/src/lock_tests.rs", text).product_lines(), 0);
}

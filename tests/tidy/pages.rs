//! Markdown pages: a line of prose has one sentence or at most 100 columns, and every link leads to an existing file
//! and heading.

use crate::source::files_under;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const COLUMNS_MAX: usize = 100;

struct Page {
    /// Its path from the root of the repository.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from("../..").canonicalize().expect("the repository is there")
}

fn pages() -> Vec<Page> {
    let root = root();
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md", "fuzz/README.md"]
        .iter()
        .map(|path| root.join(path))
        .collect();
    paths.extend(files_under(&root.join("docs"), ".md"));
    paths.extend(files_under(&root.join("proto"), ".md"));
    let page = |path: &PathBuf| Page {
        path: path.strip_prefix(&root).expect("it was found under the root").to_string_lossy().replace('\\', "/"),
        text: fs::read_to_string(path).expect("a page is UTF-8"),
    };
    let pages: Vec<Page> = paths.iter().map(page).collect();
    assert!(pages.len() > 20, "only {} pages were found", pages.len());
    pages
}

/// The lines outside code blocks, with their numbers.
fn lines_outside_code(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        if !is_code && !is_fence {
            lines.push((index + 1, line));
        }
        is_code ^= is_fence;
    }
    lines
}

/// Whether a line can be wrapped: no table row, no image, no single word or link.
fn is_prose(line: &str) -> bool {
    let text = line.trim().trim_start_matches(['-', '*']).trim_start();
    let is_link =
        text.starts_with('[') && text.matches("](").count() == 1 && text.trim_end_matches(['.', ';', ',']).ends_with(')');
    !text.starts_with('|') && !text.starts_with("![") && !is_link && text.contains(' ')
}

/// Whether a line is one whole sentence, which may be long.
fn is_one_sentence(line: &str) -> bool {
    let text = line.trim_end();
    let ends = |text: &str| text.ends_with(['.', ':', '!', '?']);
    let next = |(at, _): (usize, &str)| !ends(&text[..at]) || !text[at..].trim_start().starts_with(char::is_uppercase);
    ends(text) && text.match_indices(' ').all(next)
}

fn check_columns(page: &Page) -> Vec<String> {
    let lines = lines_outside_code(&page.text).into_iter().filter(|(_, line)| is_prose(line) && !is_one_sentence(line));
    let columns = lines.map(|(number, line)| (number, line.chars().count()));
    let long = columns.filter(|(_, columns)| *columns > COLUMNS_MAX);
    let complain = |(number, columns)| {
        format!("{}:{number}: {columns} columns, {COLUMNS_MAX} are the most: wrap it, or write one sentence a line", page.path)
    };
    long.map(complain).collect()
}

/// The targets of the links outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in lines_outside_code(text) {
        // Links in code spans are examples.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.map(|target| (number, target.to_owned())));
    }
    found
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn headings(text: &str) -> BTreeSet<String> {
    lines_outside_code(text).into_iter().filter(|(_, line)| line.starts_with('#')).map(|(_, line)| anchor(line)).collect()
}

/// `read` returns the text of a file, and an empty text for a folder.
fn check_links(page: &Page, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let is_local = |target: &str| !target.contains("://") && !target.starts_with("mailto:");
    let complain = |(number, target): (usize, String)| {
        let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
        let text = if file.is_empty() { Some(page.text.clone()) } else { read(&folder.join(file)) };
        let why = match text {
            None => "no such file",
            Some(text) if !heading.is_empty() && !headings(&text).contains(heading) => "no such heading",
            Some(_) => return None,
        };
        Some(format!("{}:{number}: {why}: {target}", page.path))
    };
    links(&page.text).into_iter().filter(|(_, target)| is_local(target)).filter_map(complain).collect()
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn a_line_of_prose_is_short_or_one_sentence() {
    assert_none(&pages().iter().flat_map(check_columns).collect::<Vec<_>>());
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let root = root();
    let read = |path: &Path| {
        let path = root.join(path);
        let is_picture = path.extension().is_some_and(|extension| extension == "png");
        if path.is_dir() || (is_picture && path.is_file()) { Some(String::new()) } else { fs::read_to_string(path).ok() }
    };
    assert_none(&pages().iter().flat_map(|page| check_links(page, read)).collect::<Vec<_>>());
}

#[test]
fn a_long_line_of_prose_is_found() {
    let long = "word ".repeat(21);
    let check = |text: &str| check_columns(&Page { path: "a.md".to_owned(), text: text.to_owned() });
    assert_eq!(
        check(&format!("# A\n\n{long}\n")),
        ["a.md:3: 105 columns, 100 are the most: wrap it, or write one sentence a line"]
    );
    assert_eq!(check(&format!("- {long}\n")).len(), 1);
    assert_eq!(check(&format!("One. Two {long}.\n")).len(), 1, "two sentences");
    assert_eq!(check(&format!("One {long}.\n")), Vec::<String>::new(), "one sentence");
    let exempt = format!("| {long} |\n```\n{long}\n```\n![{long}](a.svg)\n[{long}](b.md).\n{}\n", "x".repeat(120));
    assert_eq!(check(&exempt), Vec::<String>::new());
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let read = |path: &Path| match path.to_str() {
        Some("docs/b.md") => Some("# A heading, with more\n```\n# not one\n```\n".to_owned()),
        Some("docs/folder/") => Some(String::new()),
        _ => None,
    };
    let check = |text: &str| check_links(&Page { path: "docs/a.md".to_owned(), text: text.to_owned() }, read).len();
    let fine = "# Top\n[b](b.md), [b](b.md#a-heading-with-more), [here](#top), [f](folder/), [w](https://x/y), `[x](z.md)`\n";
    assert_eq!(check(fine), 0);
    assert_eq!(check("```\n[c](c.md)\n```\n"), 0);
    assert_eq!(check("[c](c.md)\n"), 1);
    assert_eq!(check("[b](b.md#not-one)\n"), 1);
    assert_eq!(check("| cell | [here](#below) |\n"), 1);
}

//! Every text that the program shows to people, in one listing: the titles and descriptions of the API, the help of the
//! command line, and the log lines. `cargo test --release -p fairhold-cli --test tidy listing -- --nocapture` prints
//! it.

use crate::source::Source;
use std::{collections::BTreeSet, process::Command};

/// Words that no native technical writer would use as the subject of a sentence, and words that personify a machine.
/// Each is matched in lower case, between word boundaries.
const SUBJECTS: &[&str] = &["who", "whoever", "one who", "one that", "those who", "those that"];
const PERSONS: &[&str] = &["he", "him", "his"];

/// A text and its origin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text {
    pub(crate) origin: String,
    pub(crate) text: String,
}

/// The message of every `tracing` macro in product code.
pub(crate) fn log_lines(sources: &[Source]) -> Vec<Text> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates/") && !source.is_test_file()) {
        let tests = source.test_ranges();
        for macro_name in ["tracing::error!(", "tracing::warn!(", "tracing::info!(", "tracing::debug!("] {
            for offset in source.find(macro_name) {
                if tests.iter().any(|range| range.contains(&offset)) {
                    continue;
                }
                if let Some(text) = last_string(source, offset + macro_name.len()) {
                    found.push(Text { origin: source.at(offset), text });
                }
            }
        }
    }
    found.sort();
    found
}

/// The last string among the arguments that begin at `start`: the message comes after the fields.
fn last_string(source: &Source, start: usize) -> Option<String> {
    let mut depth = 1_usize;
    let mut end = start;
    for (offset, byte) in source.code.bytes().enumerate().skip(start) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            end = offset;
            break;
        }
    }
    let arguments = &source.text[start..end];
    let close = arguments.rfind('"')?;
    let open = arguments[..close].match_indices('"').rfind(|(at, _)| !arguments[..*at].ends_with('\\'))?.0;
    let mut text = arguments[open + 1..close].replace("\\\"", "\"");
    // A string that continues on the next line.
    while let Some(at) = text.find("\\\n") {
        let rest = text[at + 2..].trim_start().to_owned();
        text.truncate(at);
        text.push_str(&rest);
    }
    Some(text)
}

/// Titles, summaries and descriptions in the description of the API.
pub(crate) fn api_texts(document: &str) -> Vec<Text> {
    let document: serde_json::Value = serde_json::from_str(document).expect("the description of the API is JSON");
    let mut found = BTreeSet::new();
    collect(&document, "", &mut found);
    found.into_iter().collect()
}

fn collect(value: &serde_json::Value, at: &str, found: &mut BTreeSet<Text>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                let is_text = ["title", "summary", "description", "detail", "advice"].contains(&name.as_str());
                match field.as_str() {
                    Some(text) if is_text => {
                        found.insert(Text { origin: format!("openapi.json {at}"), text: text.to_owned() });
                    }
                    _ => collect(field, if at.matches('/').count() < 3 { name } else { at }, found),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, at, found)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) | serde_json::Value::String(_) => {}
    }
}

/// The manual page, which contains the help of every command and option.
pub(crate) fn help_lines() -> Vec<Text> {
    let printed = Command::new(env!("CARGO_BIN_EXE_fairhold")).arg("man").output().expect("the program runs");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let mut page = String::from_utf8_lossy(&printed.stdout).into_owned();
    for (escape, text) in [("\\-", "-"), ("\\*(Aq", "'"), ("\\fB", ""), ("\\fI", ""), ("\\fR", "")] {
        page = page.replace(escape, text);
    }
    let mut origin = String::from("help");
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix(".TH ").or_else(|| line.strip_prefix(".SH ")).or_else(|| line.strip_prefix(".SS "))
        {
            origin = format!("help {title}");
        } else if !line.starts_with('.') && !line.trim().is_empty() {
            found.push(Text { origin: origin.clone(), text: line.replace("\\ ", " ").trim().to_owned() });
        }
    }
    found
}

/// A complaint about a text that a native editor would correct.
pub(crate) fn check_text(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    if let Some(person) = PERSONS.iter().find(|person| words.contains(*person)) {
        return Some(format!("\"{person}\" makes a person of a machine"));
    }
    let heads = lower.split(['.', ';', ':', '!']).map(str::trim_start);
    for head in heads {
        let is_question = lower.contains('?');
        let found = SUBJECTS.iter().find(|subject| head.strip_prefix(*subject).is_some_and(|rest| rest.starts_with(' ')));
        if let (Some(subject), false) = (found, is_question) {
            return Some(format!("\"{subject}\" is the subject of a sentence"));
        }
    }
    None
}

#[test]
fn odd_english_is_found() {
    assert!(check_text("Who asks is not known").is_some());
    assert!(check_text("the lock is lost; one that waits gets it").is_some());
    assert!(check_text("a node whose clock runs, and he does not know").is_some());
    assert_eq!(check_text("Who holds the lock, and who waits for it?"), None);
    assert_eq!(check_text("To queue for it, pass wait=30s"), None);
    assert_eq!(check_text("The client that holds the lock"), None);
}

#[test]
fn log_lines_are_found_with_their_messages() {
    let text =
        "//! x\nfn f() {\n    tracing::warn!(%error, path = %\"p\", \"the disk \\\n        is full: \\\"{}\\\"\", f());\n}\n";
    let lines = log_lines(&[Source::new("crates/x/src/a.rs", text)]);
    let wanted = Text { origin: "crates/x/src/a.rs:3".to_owned(), text: "the disk is full: \"{}\"".to_owned() };
    assert_eq!(lines, [wanted]);
}

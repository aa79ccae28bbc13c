//! Every command line in the code blocks of the pages is one that this program accepts. None is run.

use crate::args::Args;
use clap::{CommandFactory as _, error::ErrorKind};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Pages whose `fairhold` is often the script of the repository.
const OF_DEVELOPERS: &[&str] = &["docs/internals", "docs/contributing"];
/// What may stand before a command in a shell.
const BEFORE: &[&str] = &["sudo ", "exec ", "until ", "while ", "if ", "umask 077; "];

/// A command in a block, with the number of its first line.
#[derive(Debug, PartialEq, Eq)]
struct DocumentedCommand {
    line: usize,
    words: Vec<String>,
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The command of a line without its prompt, its variables and what else stands before it.
fn command_of(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("$ ").unwrap_or(line);
    loop {
        if rest.starts_with("fairhold ") {
            return Some(rest);
        }
        if let Some(after) = BEFORE.iter().find_map(|before| rest.strip_prefix(before)) {
            rest = after;
            continue;
        }
        let (name, value) = rest.split_once('=')?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        rest = match value.strip_prefix("$(") {
            Some(substituted) => substituted,
            None => value.split_once(' ')?.1,
        };
    }
}

/// The words of a command as a shell splits them, up to a pipe, a redirection, a remark or the next command.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let (mut quote, mut substitutions, mut before) = (None, 0, ' ');
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '(') if before == '$' => {
                substitutions += 1;
                word.get_or_insert_default().push(c);
            }
            (None, _) if substitutions > 0 => {
                substitutions -= i32::from(c == ')');
                word.get_or_insert_default().push(c);
            }
            (None, '|' | ';' | '&' | '<' | '>' | ')') => {
                // `2>` redirects, and is no word.
                word = word.filter(|word| !(matches!(c, '<' | '>') && word.chars().all(|c| c.is_ascii_digit())));
                break;
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
        before = c;
    }
    words.extend(word);
    words
}

/// The commands in the code blocks of a page. A line that ends with a backslash continues.
fn commands(page: &str) -> Vec<DocumentedCommand> {
    let (mut found, mut whole, mut first, mut is_code) = (Vec::new(), String::new(), 0, false);
    for (number, line) in (1..).zip(page.lines().map(str::trim)) {
        if line.starts_with("```") {
            is_code = !is_code;
            whole.clear();
        } else if is_code {
            if whole.is_empty() {
                first = number;
            }
            match line.strip_suffix('\\') {
                Some(part) => whole += part,
                None => {
                    whole += line;
                    let words = command_of(&whole).map(words);
                    found.extend(words.map(|words| DocumentedCommand { line: first, words }));
                    whole.clear();
                }
            }
        }
    }
    found
}

/// Why the program does not accept a command. `…` stands for more of it, and a variable of a shell for any value.
fn fault(command: &DocumentedCommand) -> Option<String> {
    let is_placeholder = |index: usize, word: &str| {
        word == "…" && index.checked_sub(1).is_none_or(|before| !command.words[before].starts_with("--"))
    };
    let words = command.words.iter().enumerate().filter(|(index, word)| !is_placeholder(*index, word)).map(|(_, word)| word);
    let error = Args::command().try_get_matches_from(words).err().filter(clap::Error::use_stderr)?;
    let is_variable = error.kind() == ErrorKind::ValueValidation && command.words.iter().any(|word| word.contains('$'));
    (!is_variable).then(|| format!("{}: {}", command.words.join(" "), error.to_string().lines().next().unwrap_or_default()))
}

#[test]
fn every_command_in_the_docs_is_one_that_the_program_accepts() {
    let root = PathBuf::from("../..");
    let mut paths = vec![root.join("README.md"), root.join("SECURITY.md")];
    pages(&root.join("docs"), &mut paths);
    paths.retain(|path| !OF_DEVELOPERS.iter().any(|folder| path.starts_with(root.join(folder))));
    let (mut count, mut faults) = (0, Vec::new());
    for path in paths {
        for command in commands(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            faults.extend(fault(&command).map(|fault| format!("{}:{}: {fault}", path.display(), command.line)));
        }
    }
    assert!(count > 300, "only {count} commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_wrong_command_in_a_page_is_found() {
    let page = "fairhold no block\n```\n$ fairhold access bind backup user:backup --auth-token-file admin\n\
                $ A=1 fairhold lock 'a b' \\\n  -n -- ./x --y  # why\n```\n```sh\nid=$(fairhold grants take a | cut -f1)\n\
                until fairhold locks show a 2> /dev/null; do sleep 1; done\nfairhold locks break a --token $t\n\
                fairhold serve --data d …\nfairhold: a message\n```\n";
    let found = commands(page);
    let lines: Vec<(usize, String)> = found.iter().map(|command| (command.line, command.words.join(" "))).collect();
    let expected = [
        (3, "fairhold access bind backup user:backup --auth-token-file admin"),
        (4, "fairhold lock a b -n -- ./x --y"),
        (8, "fairhold grants take a"),
        (9, "fairhold locks show a"),
        (10, "fairhold locks break a --token $t"),
        (11, "fairhold serve --data d …"),
    ];
    assert_eq!(lines, expected.map(|(line, words)| (line, words.to_owned())));
    assert_eq!(found[1].words[2], "a b");
    let faults: Vec<String> = found.iter().filter_map(fault).collect();
    assert!(matches!(&*faults, [fault] if fault.contains("'user:backup'")), "{faults:?}");
}

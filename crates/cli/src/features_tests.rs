//! `docs/features.md` lists every API call and every command with a link to its documentation, and every option of a
//! call is available from a command.

use crate::args::Args;
use clap::{Command, CommandFactory as _};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

/// Parameters of calls that have another name on the command line.
const RENAMED: &[(&str, &[&str])] = &[
    ("id", &["id", "ids", "session", "number"]),
    ("name", &["name", "names", "lock"]),
    ("locks", &["names", "locks"]),
    ("path", &["path", "file"]),
    ("mode", &["shared"]),
    ("Prefer", &["respond_async"]),
    ("consistency", &["local"]),
    ("Fairhold-Min-Revision", &["min_revision"]),
    ("Fairhold-Timeout", &["timeout"]),
    ("Fairhold-Cluster", &["cluster_id"]),
    ("Fairhold-Fence", &["fence"]),
    ("If-Match", &["version", "revision"]),
    ("recursive", &["recursive", "below"]),
    ("role", &["learner"]),
    ("timing", &["setting"]),
];

/// Parameters of calls that no command has as an option, and the reason.
const BY_ITSELF: &[(&str, &str)] = &[
    ("Fairhold-Route", "a command finds the leader by itself"),
    ("Idempotency-Key", "a command generates its own key, and retries with it"),
    ("Last-Event-ID", "an alias of `from`, for browsers"),
    ("disabled", "`fairhold users disable` and `fairhold users enable` are commands of their own"),
    ("hash", "`fairhold tokens create` makes the token, and sends its hash"),
    ("hold", "`fairhold lock` holds the lock while its command runs, even if nodes die"),
    ("verbose", "`fairhold cluster ready` is always verbose"),
    ("voter", "`fairhold cluster promote` and `fairhold cluster demote` are commands of their own"),
    ("If-None-Match", "`fairhold node create` is the write that needs it, and no command caches reads"),
    ("meta of nodes", "`fairhold node stat` shows it"),
    ("children of nodes", "`fairhold node ls` lists them"),
    ("recursive of nodes", "`fairhold node tree` lists all"),
    ("consistency of watch", "a watch continues after the last revision that it delivered, at any node"),
    ("Fairhold-Min-Revision of watch", "the same"),
    ("consistency of elections watch", "the same"),
];

fn root() -> PathBuf {
    PathBuf::from("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/features.md")).unwrap()
}

fn description() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("proto/openapi.json")).unwrap()).unwrap()
}

/// The cells of the tables on the page, without the headings.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what |"));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The strings in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Every command that runs without a subcommand, with all its options: `fairhold locks ls`.
fn leaves() -> BTreeMap<String, Command> {
    fn walk(name: &str, command: &Command, leaves: &mut BTreeMap<String, Command>) {
        let below: Vec<&Command> = command.get_subcommands().filter(|part| !part.is_hide_set()).collect();
        if below.is_empty() || !command.is_subcommand_required_set() {
            leaves.insert(name.to_owned(), command.clone());
        }
        for part in below.into_iter().filter(|part| part.get_name() != "help") {
            walk(&format!("{name} {}", part.get_name()), part, leaves);
        }
    }
    let mut all = Args::command();
    all.build();
    let mut leaves = BTreeMap::new();
    walk("fairhold", &all, &mut leaves);
    leaves
}

/// Every call as the page names it, with the names of its parameters.
fn operations(description: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut operations = BTreeMap::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let mut names: BTreeSet<String> = parameters.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
            names.extend(body.as_object().into_iter().flatten().map(|(name, _)| name.clone()));
            operations.insert(format!("{} {path}", method.to_uppercase()), names);
        }
    }
    operations
}

/// The entries that the page lacks, and the ones that it has but that do not exist.
fn complaints(page: &str) -> Vec<String> {
    let (rows, operations, leaves) = (rows(page), operations(&description()), leaves());
    let mut complaints: Vec<String> =
        rows.iter().filter(|row| row.len() != 5).map(|row| format!("not five cells: {row:?}")).collect();
    let named =
        |column: usize| rows.iter().filter_map(move |row| row.get(column)).flat_map(|cell| quoted(cell)).collect::<BTreeSet<_>>();
    for (column, sort, there) in
        [(1, "call", operations.keys().collect::<BTreeSet<_>>()), (2, "command", leaves.keys().collect::<BTreeSet<_>>())]
    {
        let on_page = named(column);
        complaints.extend(
            there.iter().filter(|name| !on_page.contains(name.as_str())).map(|name| format!("the {sort} {name} has no row")),
        );
        let unknown = on_page.iter().filter(|name| !there.iter().any(|known| known == *name));
        complaints.extend(unknown.map(|name| format!("there is no {sort} {name}")));
    }
    let client = client_sources();
    for name in named(3).iter().filter(|name| name.contains("::")) {
        let method = name.rsplit("::").next().unwrap_or_default();
        if !client.contains(&format!("fn {method}(")) && !client.contains(&format!("fn {method}<")) {
            complaints.push(format!("the client has no {name}"));
        }
    }
    complaints.extend(rows.iter().filter_map(|row| broken_link(row.get(4)?)));
    complaints
}

fn client_sources() -> String {
    let (mut folders, mut sources) = (vec![root().join("crates/client/src")], String::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                sources += &fs::read_to_string(path).unwrap();
            }
        }
    }
    sources
}

/// A complaint if the link in the cell leads to a missing file or heading.
fn broken_link(cell: &str) -> Option<String> {
    let target = cell.split_once("](").and_then(|(_, rest)| rest.split_once(')')).map(|(target, _)| target);
    let Some(target) = target else { return Some(format!("no link: {cell}")) };
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Ok(text) = fs::read_to_string(root().join("docs").join(file)) else { return Some(format!("no file {target}")) };
    let is_there = heading.is_empty() || text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!is_there).then(|| format!("no heading {target}"))
}

fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_call_and_every_command_has_a_row_with_a_valid_link() {
    let complaints = complaints(&page());
    assert!(complaints.is_empty(), "docs/features.md:\n{}", complaints.join("\n"));
}

#[test]
fn an_outdated_page_is_detected() {
    let page = page();
    for (from, to, complaint) in [
        ("`GET /v1/watch`", "", "the call GET /v1/watch has no row"),
        ("`fairhold txn`", "—", "the command fairhold txn has no row"),
        ("`fairhold txn`", "`fairhold txm`", "there is no command fairhold txm"),
        ("`GET /livez`", "`GET /alivez`", "there is no call GET /alivez"),
        ("`Nodes::delete`", "`Nodes::erase_all`", "the client has no Nodes::erase_all"),
        ("(nodes.md#read)", "(nodes.md#reed)", "no heading nodes.md#reed"),
        ("(metrics.md)", "(metrix.md)", "no file metrix.md"),
        ("[metrics](metrics.md)", "metrics", "no link: metrics"),
    ] {
        assert!(page.contains(from), "{from} is not on the page");
        let complaints = complaints(&page.replace(from, to));
        assert!(complaints.iter().any(|found| found == complaint), "{complaint} is not in {complaints:?}");
    }
}

/// The commands of a call, according to the page.
fn commands_of<'p>(rows: &[Vec<&'p str>], operation: &str) -> BTreeSet<&'p str> {
    let of = |row: &&Vec<&'p str>| row.get(1).is_some_and(|cell| quoted(cell).any(|named| named == operation));
    rows.iter().filter(of).flat_map(|row| quoted(row[2])).collect()
}

/// Whether one of the call's commands has this parameter as an option, or handles it by itself.
fn is_reached(operation: &str, name: &str, options: &BTreeSet<String>) -> bool {
    let area = ["nodes", "watch", "elections"].into_iter().find(|area| operation.contains(&format!("/v1/{area}")));
    let of_area = area.map(|area| format!("{name} of {area}"));
    let by_itself = |known: &str| known == name || of_area.as_deref() == Some(known);
    let renamed = RENAMED.iter().filter(|(known, _)| *known == name).flat_map(|(_, options)| options.iter());
    options.contains(name)
        || renamed.map(|option| (*option).to_owned()).any(|option| options.contains(&option))
        || BY_ITSELF.iter().any(|(known, _)| by_itself(known))
}

#[test]
fn every_option_of_a_call_is_available_from_a_command() {
    let (page, leaves) = (page(), leaves());
    let rows = rows(&page);
    let mut missing = Vec::new();
    for (operation, parameters) in operations(&description()) {
        let commands = commands_of(&rows, &operation);
        // The root is a node like any other, with the same commands.
        let commands =
            if operation.ends_with("/v1/nodes/") { commands_of(&rows, &format!("{operation}{{path}}")) } else { commands };
        if commands.is_empty() {
            continue;
        }
        let arguments = commands.iter().filter_map(|command| leaves.get(*command)).flat_map(Command::get_arguments);
        let options: BTreeSet<String> = arguments.map(|argument| argument.get_id().to_string()).collect();
        missing.extend(
            parameters.iter().filter(|name| !is_reached(&operation, name, &options)).map(|name| format!("{operation}: {name}")),
        );
    }
    assert!(missing.is_empty(), "no command has an option for:\n{}", missing.join("\n"));
    assert!(!is_reached("POST /v1/locks/{name}", "of_next_year", &BTreeSet::from(["wait".to_owned()])));
    assert!(
        !is_reached("GET /v1/locks", "consistency", &BTreeSet::new())
            && is_reached("GET /v1/watch", "consistency", &BTreeSet::new())
    );
}

/// The words of an example as a shell splits them, without its remark, and without pipes and redirections.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut spaces) = (Vec::new(), String::new(), None, 0);
    for c in line.trim().chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => (quote, spaces) = (Some(c), 0),
            (None, '|' | '>') if word.is_empty() => break,
            (None, ' ') => {
                spaces += 1;
                if spaces > 1 {
                    break;
                }
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            }
            (Some(_) | None, c) => {
                spaces = 0;
                word.push(c);
            }
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[test]
fn every_command_shows_a_valid_example() {
    assert_eq!(
        words("  fairhold lock a -- sh -c './x && y'     why | > not"),
        ["fairhold", "lock", "a", "--", "sh", "-c", "./x && y"]
    );
    assert_eq!(words("fairhold man > fairhold.1"), ["fairhold", "man"]);
    for (name, leaf) in leaves() {
        let help = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = help.lines().map(words).filter(|words| words.first().is_some_and(|word| word == "fairhold"));
        let own: Vec<Vec<String>> = own.collect();
        assert!(help.contains("Example") && !own.is_empty(), "{name} shows no example");
        for example in own {
            let parsed = Args::command().try_get_matches_from(&example);
            assert!(parsed.is_ok(), "{name}: {example:?}: {}", parsed.unwrap_err());
            assert!(example.join(" ").starts_with(&name), "{name} shows an example of another: {example:?}");
        }
    }
    assert!(Args::command().try_get_matches_from(words("fairhold lock --no-such-option a -- b")).is_err());
}

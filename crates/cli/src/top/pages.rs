//! The pages of text, as lines: the same result of the poller gives the same lines. What people wrote is escaped.

use super::{
    frame::{TopFrame, TopPage},
    shell::word,
};
use crate::remote::format::{OutputFormat, Table, cell, estimate_cell, rounded, terminal_safe};
use serde_json::Value;

/// The deepest level of the tree that is indented further.
const DEPTH_MAX: u64 = 12;
/// The most locks of one waiter that are named.
const HOLDS_MAX: usize = 3;
/// A longer text is cut in the middle, so that what stands beside it stays visible.
const TEXT_CHARS_MAX: usize = 64;

const HELP: &str = "\
Up Down k j    choose a lock; on other pages, scroll
Enter          show the chosen lock: its queue and its history
/              search: the beginning of a name, or state:held, state:queued, state:cooling, state:idle; Enter applies it
s              sort by longest_wait, waiters, hold, wait, contention, name
w              show who waits for whom
e              show the newest events
c              show the members, and what to do about problems
p              pause, or continue
Esc u          go back to the list, and clear the search
q Ctrl-C       quit; in the list, Esc does too

top changes nothing in the cluster. The page of a lock has the command that breaks it, to copy.";

/// The lines of a page; none for the list of locks and the members, which are tables.
pub(super) fn lines(frame: &TopFrame, page: &TopPage) -> Vec<String> {
    if *page == TopPage::Help {
        return HELP.lines().map(str::to_owned).collect();
    }
    if frame.page != *page {
        return vec!["loading".to_owned()];
    }
    match page {
        TopPage::Lock(name) => lock(frame, name),
        TopPage::Waits => waits(frame),
        TopPage::Events => events(frame),
        TopPage::Cluster => solutions(frame),
        TopPage::Locks | TopPage::Help => Vec::new(),
    }
}

fn lock(frame: &TopFrame, name: &str) -> Vec<String> {
    let mut lines = vec![holder_line(frame, name)];
    lines.extend(break_line(frame, name));
    lines.push(String::new());
    let headings = &["PLACE", "STATE", "GRANT", "SESSION", "MODE", "OWNER", "TOKEN", "SINCE", "WAITS FOR", "ESTIMATE"];
    let fields = ["position", "state", "number", "session", "mode", "owner", "token", "since", "waits_for.owner", "estimate"];
    lines.extend(table(headings, &fields, &frame.queue, &frame.usual_of_queue));
    lines.extend([String::new(), "HISTORY, newest first".to_owned()]);
    let headings = &["GRANT", "OWNER", "TOKEN", "FROM", "TO", "HELD FOR", "ENDED", "BY", "REASON"];
    let fields = ["number", "owner", "token", "from", "to", "held_for", "ended", "by", "reason"];
    lines.extend(table(headings, &fields, &frame.rows, &Value::Null));
    lines
}

/// Who holds the lock, for how long, and how many wait.
fn holder_line(frame: &TopFrame, name: &str) -> String {
    let holders: Vec<&Value> = frame.queue.iter().filter(|item| item["state"] == "held").collect();
    let waiting = frame.queue.iter().filter(|item| item["state"] == "queued").count();
    let held = match holders.as_slice() {
        [] => "held by nobody".to_owned(),
        [holder] => {
            let listed = frame.locks.iter().find(|lock| lock["lock"] == *name);
            let known = Value::Null;
            let usual = frame.usual_hold(listed.unwrap_or(&known)).map(|usual| format!(", usually {}", rounded(usual)));
            format!("held by {} for {}{}", cell(holder, "owner"), cell(holder, "held_for"), usual.unwrap_or_default())
        }
        [first, ..] => format!("held by {} and {} more", cell(first, "owner"), holders.len() - 1),
    };
    terminal_safe(&format!("{name}: {held}; {waiting} waiting"))
}

/// The command that breaks the lock, if somebody holds it. It breaks only what is on the screen.
fn break_line(frame: &TopFrame, name: &str) -> Option<String> {
    let token = frame.queue.iter().find(|item| item["state"] == "held")?["token"].as_u64()?;
    let node = frame.url().map_or_else(String::new, |url| format!(" -e {}", word(url)));
    let end_of_options = if name.starts_with('-') { " --" } else { "" };
    Some(format!("to break it: fairhold locks break --token {token} --reason 'WHY'{node}{end_of_options} {}", word(name)))
}

fn waits(frame: &TopFrame) -> Vec<String> {
    if frame.rows.is_empty() {
        return vec!["nobody waits for anybody".to_owned()];
    }
    let mut lines: Vec<String> = frame.rows.iter().map(wait_line).collect();
    if !frame.is_complete {
        lines.push("further rows are left out".to_owned());
    }
    lines
}

/// A waiter, below the one that it waits for; or a root, which waits for nobody.
fn wait_line(item: &Value) -> String {
    let indent = "  ".repeat(usize::try_from(item["depth"].as_u64().unwrap_or(0).min(DEPTH_MAX)).unwrap_or(0));
    let owner = shown(item, "owner");
    let session = item["session"].as_u64().map_or_else(String::new, |number| format!(" (session {number})"));
    let waits = &item["waits"];
    let what = if waits.is_object() {
        let (lock, position) = (shown(waits, "lock"), cell(waits, "position"));
        format!("▸ {owner}{session} has waited {} for {lock}, place {position}", rounded(&cell(waits, "waiting")))
    } else {
        let longest = item["blocks_for"].as_str().map_or_else(String::new, |time| format!(", the longest for {}", rounded(time)));
        format!("■ {owner}{session} blocks {}{longest}", cell(item, "blocks"))
    };
    let repeated = if item["repeated"] == true { " (shown above)" } else { "" };
    let holds = item["holds"].as_array().map_or(&[][..], Vec::as_slice);
    let named = holds.iter().take(HOLDS_MAX).map(|held| match held["token"].as_u64() {
        Some(_) => format!("; holds {} for {}", shown(held, "lock"), cell(held, "held_for")),
        None => format!("; does not hold {} now", shown(held, "lock")),
    });
    let left_out = holds.len().saturating_sub(HOLDS_MAX) as u64 + item["holds_left_out"].as_u64().unwrap_or(0);
    let more = if left_out == 0 { String::new() } else { format!("; and {left_out} more") };
    terminal_safe(&format!("{indent}{what}{repeated}{}{more}", named.collect::<String>()))
}

fn events(frame: &TopFrame) -> Vec<String> {
    let headings = &["REVISION", "TYPE", "LOCK", "NODE", "OWNER", "GRANT", "SESSION", "TOKEN", "REASON"];
    let fields = ["revision", "type", "lock", "path", "owner", "number", "session", "token", "reason"];
    table(headings, &fields, &frame.rows, &Value::Null)
}

/// Every problem with its solution.
fn solutions(frame: &TopFrame) -> Vec<String> {
    if frame.problems().is_empty() {
        return vec![if frame.overview.is_null() { "this node does not list problems to you" } else { "no problems" }.to_owned()];
    }
    frame
        .problems()
        .iter()
        .flat_map(|problem| [problem_line(problem), terminal_safe(&format!("    → {}", cell(problem, "do")))])
        .collect()
}

/// A problem, with a sign for how bad it is.
pub(super) fn problem_line(problem: &Value) -> String {
    let sign = if problem["severity"] == "critical" { "⬣" } else { "▲" };
    let since = problem["since"].as_str().map_or_else(String::new, |since| format!(", since {since}"));
    terminal_safe(&format!("{sign} {}: {}{since}", cell(problem, "check"), cell(problem, "seen")))
}

/// The rows of a table, with its headings. The rows of a queue have the usual hold of its lock.
fn table(headings: &'static [&'static str], fields: &[&str], items: &[Value], usual_hold: &Value) -> Vec<String> {
    let mut table = Table::new(headings);
    for item in items {
        let find = |field: &&str| match field.split_once('.') {
            Some((outer, inner)) => shown(&item[outer], inner),
            None if *field == "estimate" => terminal_safe(&estimate_cell(item, usual_hold)),
            None => shown(item, field),
        };
        table.row(fields.iter().map(find).collect());
    }
    table.take(OutputFormat::Table).lines().map(str::to_owned).collect()
}

/// A field as a cell that is not too long.
fn shown(object: &Value, field: &str) -> String {
    let text = terminal_safe(&cell(object, field));
    let length = text.chars().count();
    if length <= TEXT_CHARS_MAX {
        return text;
    }
    let (begin, end) = (TEXT_CHARS_MAX / 2, TEXT_CHARS_MAX / 2 - 1);
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(length - end)).collect()
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;

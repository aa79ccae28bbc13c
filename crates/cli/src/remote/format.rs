//! The output formats: a table for people, tab-separated lines for `cut`, and the HTTP body for programs.

use super::{failure::Failure, reply::ApiReply};
use crate::output;
use fairhold_types::duration;
use serde_json::Value;
use std::io::{self, IsTerminal as _};

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// Columns with headings
    Table,
    /// The HTTP body, unchanged
    Json,
    /// One JSON object per line
    Ndjson,
    /// Tab-separated columns without headings
    Plain,
}

impl OutputFormat {
    /// The requested format; otherwise a table on a terminal, and plain output elsewhere.
    pub(crate) fn resolve(requested: Option<OutputFormat>) -> OutputFormat {
        requested.unwrap_or_else(|| if io::stdout().is_terminal() { OutputFormat::Table } else { OutputFormat::Plain })
    }

    /// Whether the user wants the body itself. For a body that is one object, `json` and `ndjson` are the same.
    pub(crate) fn is_body(requested: Option<OutputFormat>) -> bool {
        match requested {
            Some(OutputFormat::Json | OutputFormat::Ndjson) => true,
            Some(OutputFormat::Table | OutputFormat::Plain) | None => false,
        }
    }
}

/// Rows with headings.
#[derive(Debug)]
pub(crate) struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// The widths of the columns so far.
    widths: Vec<usize>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(headings: &'static [&'static str]) -> Table {
        Table { headings, rows: Vec::new(), widths: Vec::new() }
    }

    /// Adds a row with a cell for each heading. Escapes control characters in cells.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| terminal_safe(&cell)).collect());
    }

    /// The rows added since the last call, as text. The first call starts with the headings. A column never gets
    /// narrower.
    pub(crate) fn take(&mut self, format: OutputFormat) -> String {
        let rows = std::mem::take(&mut self.rows);
        match format {
            OutputFormat::Plain | OutputFormat::Json | OutputFormat::Ndjson => {
                rows.iter().map(|row| format!("{}\n", row.join("\t"))).collect()
            }
            OutputFormat::Table => {
                self.columns(rows.into_iter().map(|row| row.into_iter().map(without_fraction).collect()).collect())
            }
        }
    }

    fn columns(&mut self, rows: Vec<Vec<String>>) -> String {
        let headings = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        let all: Vec<Vec<String>> = if self.widths.is_empty() { std::iter::once(headings).chain(rows).collect() } else { rows };
        self.widths.resize(self.headings.len(), 0);
        for (column, width) in self.widths.iter_mut().enumerate() {
            let cells = all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            *width = cells.fold(*width, usize::max);
        }
        let line = |row: &Vec<String>| {
            let cells: String = row.iter().zip(&self.widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
            format!("{}\n", cells.trim_end())
        };
        all.iter().map(line).collect()
    }
}

/// Drops the fraction of a second from a time of the API, to save width; returns any other text unchanged.
fn without_fraction(text: String) -> String {
    let shape = |(at, c): (usize, char)| match at {
        4 | 7 => c == '-',
        10 => c == 'T',
        13 | 16 => c == ':',
        19 => c == '.',
        23 => c == 'Z',
        _ => c.is_ascii_digit(),
    };
    if text.len() == 24 && text.chars().enumerate().all(shape) { format!("{}Z", &text[..19]) } else { text }
}

/// Escapes a foreign text, so that it cannot control the terminal.
pub(crate) fn terminal_safe(text: &str) -> String {
    fairhold_types::text::terminal_safe(text).into_owned()
}

/// The fields of answers that contain durations.
const DURATION_FIELDS: [&str; 12] = [
    "held_for",
    "usual_hold",
    "waited",
    "held",
    "estimate",
    "silent_for",
    "heard_ago",
    "round_trip",
    "expires_in",
    "ttl",
    "max_hold",
    "lock_delay",
];

/// A field as a cell: a dash if it is missing, and a duration rounded for people.
pub(crate) fn cell(object: &Value, field: &str) -> String {
    match &object[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) if DURATION_FIELDS.contains(&field) => rounded(text),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// The estimate of an entry of a queue. If a waiter has none although there is a usual hold, its lock's holder exceeds it.
pub(crate) fn estimate_cell(item: &Value, usual_hold: &Value) -> String {
    let is_overdue = item["estimate"].is_null() && item["waits_for"].is_object() && usual_hold.is_string();
    if is_overdue { "unknown: the holder exceeds its usual time".to_owned() } else { cell(item, "estimate") }
}

/// A duration of the API, rounded for people: `1m24s` for `84769ms`.
pub(crate) fn rounded(text: &str) -> String {
    duration::parse(text).map_or_else(|_| text.to_owned(), duration::rounded)
}

/// Writes text to standard output. A closed pipe is not a failure.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    Ok(output::unless_closed(output::write_stdout(text))?)
}

/// Writes the body unchanged, and adds a line end if it has none.
pub(crate) fn write_body(reply: &ApiReply) -> Result<(), Failure> {
    output::unless_closed(output::write_bytes(&reply.body))?;
    match reply.body.last() {
        None | Some(b'\n') => Ok(()),
        Some(_) => write("\n"),
    }
}

/// Writes a JSON object on one line.
pub(crate) fn write_line(value: &Value) -> Result<(), Failure> {
    write(&format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_columns_and_plain_has_tabs() {
        let text = |format| {
            let mut table = Table::new(&["LOCK", "OWNER"]);
            table.row(vec!["deploy".to_owned(), "ci".to_owned()]);
            table.row(vec!["a".to_owned(), "evil\t\x1b[2J".to_owned()]);
            table.take(format)
        };
        assert_eq!(text(OutputFormat::Plain), "deploy\tci\na\tevil\\t\\u{1b}[2J\n");
        assert_eq!(text(OutputFormat::Table), "LOCK    OWNER\ndeploy  ci\na       evil\\t\\u{1b}[2J\n");
    }

    #[test]
    fn a_table_drops_fractions_of_seconds_and_plain_output_keeps_them() {
        let mut table = Table::new(&["SINCE"]);
        table.row(vec!["2026-11-22T04:48:55.123Z".to_owned()]);
        assert_eq!(table.take(OutputFormat::Table), "SINCE\n2026-11-22T04:48:55Z\n");
        table.row(vec!["2026-11-22T04:48:55.123Z".to_owned()]);
        assert_eq!(table.take(OutputFormat::Plain), "2026-11-22T04:48:55.123Z\n");
        assert_eq!(without_fraction("2026-11-22T04:48:55.12éZ".to_owned()), "2026-11-22T04:48:55.12éZ");
    }

    #[test]
    fn a_table_written_in_pages_has_its_headings_once() {
        let mut table = Table::new(&["LOCK", "OWNER"]);
        table.row(vec!["deploy".to_owned(), "ci".to_owned()]);
        assert_eq!(table.take(OutputFormat::Table), "LOCK    OWNER\ndeploy  ci\n");
        table.row(vec!["a".to_owned(), "b".to_owned()]);
        table.row(vec!["a/longer".to_owned(), "c".to_owned()]);
        assert_eq!(table.take(OutputFormat::Table), "a         b\na/longer  c\n");
        assert_eq!(table.take(OutputFormat::Plain), "");
    }

    #[test]
    fn a_missing_field_is_a_dash() {
        let object = serde_json::json!({"a": "x", "n": 3});
        assert_eq!([cell(&object, "a"), cell(&object, "n"), cell(&object, "b")], ["x", "3", "-"]);
    }

    #[test]
    fn a_waiter_without_an_estimate_behind_a_usual_hold_waits_for_a_holder_that_exceeds_it() {
        let (usual, waits_for) = (serde_json::json!("40s"), serde_json::json!({"number": 88, "owner": "ci-7"}));
        let waiter = serde_json::json!({"estimate": null, "waits_for": waits_for});
        assert_eq!(estimate_cell(&waiter, &usual), "unknown: the holder exceeds its usual time");
        assert_eq!(estimate_cell(&waiter, &Value::Null), "-", "nobody has held it before");
        assert_eq!(estimate_cell(&serde_json::json!({"state": "held"}), &usual), "-", "a holder waits for nobody");
        let estimated = serde_json::json!({"estimate": "84769ms", "waits_for": waits_for});
        assert_eq!(estimate_cell(&estimated, &usual), "1m24s");
    }

    #[test]
    fn durations_are_rounded_and_names_stay_unchanged() {
        let object = serde_json::json!({"held_for": "84769ms", "waited": "soon", "owner": "84769ms"});
        assert_eq!([cell(&object, "held_for"), cell(&object, "waited"), cell(&object, "owner")], ["1m24s", "soon", "84769ms"]);
    }
}

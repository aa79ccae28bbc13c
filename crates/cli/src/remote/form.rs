//! How answers are written: a table for people, tab-separated lines for `cut`, and the HTTP body for programs.

use super::{failure::Failure, reply::ApiReply};
use crate::output;
use fairhold_types::duration;
use serde_json::Value;
use std::io::{self, IsTerminal as _};

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// Columns under a heading
    Table,
    /// Exactly the HTTP body
    Json,
    /// One JSON object a line
    Ndjson,
    /// Tab-separated, without a heading
    Plain,
}

impl OutputFormat {
    /// As was asked for, else by what standard output is.
    pub(crate) fn of(asked: Option<OutputFormat>) -> OutputFormat {
        asked.unwrap_or_else(|| if io::stdout().is_terminal() { OutputFormat::Table } else { OutputFormat::Plain })
    }

    /// Whether the user asked for the body itself. A body that is one object is the same as one line.
    pub(crate) fn is_body(asked: Option<OutputFormat>) -> bool {
        match asked {
            Some(OutputFormat::Json | OutputFormat::Ndjson) => true,
            Some(OutputFormat::Table | OutputFormat::Plain) | None => false,
        }
    }
}

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// The widths of the columns that were written.
    widths: Vec<usize>,
}

impl Table {
    /// Without rows.
    pub(crate) fn new(headings: &'static [&'static str]) -> Table {
        Table { headings, rows: Vec::new(), widths: Vec::new() }
    }

    /// One row more, with a cell for each heading. Nothing in a cell can move a cursor or begin another cell.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| harmless(&cell)).collect());
    }

    /// What was added since it was taken last, as text: under the headings the first time. A column never gets narrower.
    pub(crate) fn take(&mut self, form: OutputFormat) -> String {
        let rows = std::mem::take(&mut self.rows);
        match form {
            OutputFormat::Plain | OutputFormat::Json | OutputFormat::Ndjson => {
                rows.iter().map(|row| format!("{}\n", row.join("\t"))).collect()
            }
            OutputFormat::Table => {
                self.columns(rows.into_iter().map(|row| row.into_iter().map(to_the_second).collect()).collect())
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

/// A time of the API without the fraction of its second, so that more fits on a line; any other text as it is.
fn to_the_second(text: String) -> String {
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

/// A text from somebody else, which must not control the terminal.
pub(crate) fn harmless(text: &str) -> String {
    fairhold_types::text::harmless(text).into_owned()
}

/// The fields of answers that are durations.
const SPANS: [&str; 10] =
    ["held_for", "waited", "held", "estimate", "silent_for", "round_trip", "expires_in", "ttl", "max_hold", "lock_delay"];

/// A field as a cell: a dash where it is not there, and a duration as people read it.
pub(crate) fn cell(object: &Value, field: &str) -> String {
    match &object[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) if SPANS.contains(&field) => span(text),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// A duration of the API as people read it: `1m24s` for `84769ms`.
pub(crate) fn span(text: &str) -> String {
    duration::parse(text).map_or_else(|_| text.to_owned(), duration::rounded)
}

/// Writes a text; that nobody reads it is no failure.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    Ok(output::unless_closed(output::write_stdout(text))?)
}

/// Writes the body as it came, and ends the line.
pub(crate) fn write_body(reply: &ApiReply) -> Result<(), Failure> {
    output::unless_closed(output::write_bytes(&reply.body))?;
    match reply.body.last() {
        None | Some(b'\n') => Ok(()),
        Some(_) => write("\n"),
    }
}

/// Writes one JSON object on one line.
pub(crate) fn write_line(value: &Value) -> Result<(), Failure> {
    write(&format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_columns_and_plain_has_tabs() {
        let text = |form| {
            let mut table = Table::new(&["LOCK", "OWNER"]);
            table.row(vec!["deploy".to_owned(), "ci".to_owned()]);
            table.row(vec!["a".to_owned(), "evil\t\x1b[2J".to_owned()]);
            table.take(form)
        };
        assert_eq!(text(OutputFormat::Plain), "deploy\tci\na\tevil\\t\\u{1b}[2J\n");
        assert_eq!(text(OutputFormat::Table), "LOCK    OWNER\ndeploy  ci\na       evil\\t\\u{1b}[2J\n");
    }

    #[test]
    fn a_table_for_people_has_no_fractions_of_seconds_and_a_pipe_has_them() {
        let mut table = Table::new(&["SINCE"]);
        table.row(vec!["2026-11-22T04:48:55.123Z".to_owned()]);
        assert_eq!(table.take(OutputFormat::Table), "SINCE\n2026-11-22T04:48:55Z\n");
        table.row(vec!["2026-11-22T04:48:55.123Z".to_owned()]);
        assert_eq!(table.take(OutputFormat::Plain), "2026-11-22T04:48:55.123Z\n");
        assert_eq!(to_the_second("2026-11-22T04:48:55.12éZ".to_owned()), "2026-11-22T04:48:55.12éZ");
    }

    #[test]
    fn a_table_that_is_taken_page_by_page_has_its_headings_once() {
        let mut table = Table::new(&["LOCK", "OWNER"]);
        table.row(vec!["deploy".to_owned(), "ci".to_owned()]);
        assert_eq!(table.take(OutputFormat::Table), "LOCK    OWNER\ndeploy  ci\n");
        table.row(vec!["a".to_owned(), "b".to_owned()]);
        table.row(vec!["a/longer".to_owned(), "c".to_owned()]);
        assert_eq!(table.take(OutputFormat::Table), "a         b\na/longer  c\n");
        assert_eq!(table.take(OutputFormat::Plain), "");
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        let object = serde_json::json!({"a": "x", "n": 3});
        assert_eq!([cell(&object, "a"), cell(&object, "n"), cell(&object, "b")], ["x", "3", "-"]);
    }

    #[test]
    fn durations_are_written_for_people_and_names_as_they_are() {
        let object = serde_json::json!({"held_for": "84769ms", "waited": "soon", "owner": "84769ms"});
        assert_eq!([cell(&object, "held_for"), cell(&object, "waited"), cell(&object, "owner")], ["1m24s", "soon", "84769ms"]);
    }
}

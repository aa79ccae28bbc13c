//! Paginated answers: prints one requested page, or all pages, each when it arrives.

use crate::{
    output,
    remote::{
        Api, ApiRequest, Failure, RemoteArgs,
        format::{self, OutputFormat, Table, cell, estimate_cell},
        reply::ApiReply,
    },
};
use fairhold_types::limits::PAGE_MAX;
use serde_json::Value;

/// The part of a list to show.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PageArgs {
    /// Show one page with at most this many items [default: all; with -o json, one page]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Start after an earlier page, at its next_cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// Requests the selected page, or all pages one after the other, and shows each. Returns the cursor of the next page, if the
/// last page that was shown has one.
pub(crate) async fn follow(
    api: &Api,
    request: &ApiRequest,
    page: &PageArgs,
    requested: Option<OutputFormat>,
    mut show: impl FnMut(&ApiReply) -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    // With `-o json` the output is exactly one body.
    let is_one = page.limit.is_some() || requested == Some(OutputFormat::Json);
    let limit = page.limit.or((!is_one).then_some(PAGE_MAX));
    let mut cursor = page.cursor.clone();
    let mut request = request.clone();
    loop {
        let reply = api.call(&request.clone().parameter("limit", limit).parameter("cursor", cursor.as_ref())).await?;
        request = request.next_page();
        show(&reply)?;
        let body: Value = reply.read()?;
        cursor = body["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || is_one {
            return Ok(cursor);
        }
    }
}

/// What `list` has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The number of items.
    pub(crate) count: usize,
    /// Where the next page begins; `None` after the last one.
    pub(crate) next_cursor: Option<String>,
}

impl Listed {
    /// Says on stderr that the list is empty, unless the user wants no notes.
    pub(crate) fn note_if_empty(&self, nothing: &str, remote: &RemoteArgs) {
        if let Some(note) = self.empty_note(nothing).filter(|_| !remote.connect.quiet) {
            output::note(&note);
        }
    }

    /// What to say if the list is empty. An empty page need not be the last.
    fn empty_note(&self, nothing: &str) -> Option<String> {
        match (self.count, &self.next_cursor) {
            (0, None) => Some(nothing.to_owned()),
            (0, Some(cursor)) => Some(format!("nothing on this page matches: continue with --cursor {cursor}")),
            _ => None,
        }
    }
}

/// Prints the items of a list.
pub(crate) async fn list(
    api: &Api,
    request: &ApiRequest,
    page: &PageArgs,
    requested: Option<OutputFormat>,
    fields: &PageFields,
) -> Result<Listed, Failure> {
    let mut table = Table::new(fields.0);
    let mut count = 0;
    let next_cursor = follow(api, request, page, requested, |reply| {
        let body: Value = reply.read()?;
        count += body["items"].as_array().map_or(0, Vec::len);
        if requested == Some(OutputFormat::Json) {
            return format::write_body(reply);
        }
        for item in body["items"].as_array().into_iter().flatten() {
            match requested {
                Some(OutputFormat::Ndjson) => format::write_line(item)?,
                Some(OutputFormat::Table | OutputFormat::Plain | OutputFormat::Json) | None => {
                    fields.add(&mut table, item, &body["usual_hold"]);
                }
            }
        }
        if requested == Some(OutputFormat::Ndjson) {
            Ok(())
        } else {
            format::write(&table.take(OutputFormat::resolve(requested)))
        }
    })
    .await?;
    Ok(Listed { count, next_cursor })
}

/// The headings, and the field of each column; a dot separates a field of a nested object.
pub(crate) struct PageFields(pub(crate) &'static [&'static str], pub(crate) &'static [&'static str]);

impl PageFields {
    /// Adds a row. A page of a queue has the usual hold of its lock.
    fn add(&self, table: &mut Table, item: &Value, usual_hold: &Value) {
        let find = |field: &&str| match field.split_once('.') {
            Some((outer, inner)) => cell(&item[outer], inner),
            None if *field == "estimate" => estimate_cell(item, usual_hold),
            None => cell(item, field),
        };
        table.row(self.1.iter().map(find).collect());
    }
}

/// Prints an answer as one row.
pub(crate) fn show_one(reply: &ApiReply, requested: Option<OutputFormat>, fields: &PageFields) -> Result<(), Failure> {
    if OutputFormat::is_body(requested) {
        return format::write_body(reply);
    }
    let mut table = Table::new(fields.0);
    fields.add(&mut table, &reply.read()?, &Value::Null);
    format::write(&table.take(OutputFormat::resolve(requested)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_page_before_others_says_where_to_continue() {
        let note = |count, cursor: Option<&str>| Listed { count, next_cursor: cursor.map(str::to_owned) }.empty_note("nothing");
        assert_eq!(note(0, None).as_deref(), Some("nothing"));
        assert_eq!(note(0, Some("61")).as_deref(), Some("nothing on this page matches: continue with --cursor 61"));
        assert_eq!((note(1, None), note(1, Some("61"))), (None, None));
    }
}

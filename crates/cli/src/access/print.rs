//! How the commands about access rights print answers.

use crate::{
    output,
    remote::{
        Failure, RemoteArgs,
        format::{self, OutputFormat, Table, cell},
        reply::ApiReply,
    },
};
use serde_json::Value;

/// Prints each field of an answer.
pub(super) fn print_fields(reply: &ApiReply, remote: &RemoteArgs) -> Result<(), Failure> {
    if OutputFormat::is_body(remote.output) {
        return format::write_body(reply);
    }
    let object: Value = reply.read()?;
    let mut table = Table::new(&["FIELD", "VALUE"]);
    for name in object.as_object().into_iter().flatten().map(|(name, _)| name) {
        table.row(vec![name.clone(), texts(&object, name)]);
    }
    format::write(&table.take(OutputFormat::resolve(remote.output)))
}

/// Prints a row for each item of a list in an answer: these headings, with these fields.
pub(super) fn print_list(
    reply: &ApiReply,
    list: &str,
    (headings, fields): (&'static [&'static str], &[&str]),
    remote: &RemoteArgs,
) -> Result<(), Failure> {
    if remote.output == Some(OutputFormat::Json) {
        return format::write_body(reply);
    }
    let body: Value = reply.read()?;
    let mut items = body[list].as_array().into_iter().flatten();
    if remote.output == Some(OutputFormat::Ndjson) {
        return items.try_for_each(format::write_line);
    }
    let mut table = Table::new(headings);
    items.for_each(|item| table.row(fields.iter().map(|field| texts(item, field)).collect()));
    format::write(&table.take(OutputFormat::resolve(remote.output)))
}

/// A field as a cell. A list of texts is joined.
fn texts(object: &Value, field: &str) -> String {
    match object[field].as_array() {
        Some(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        None => cell(object, field),
    }
}

pub(super) fn note(remote: &RemoteArgs, text: &str) {
    if !remote.connect.quiet {
        output::note(text);
    }
}

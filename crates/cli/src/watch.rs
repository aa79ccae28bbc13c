//! `fairhold watch`: what happens, as it happens, until it is stopped.

use crate::{
    output,
    remote::{
        self, Api, Failure, RemoteArgs, Request,
        api::cause,
        form::{Form, cell, harmless},
    },
};
use serde_json::Value;
use std::{io, process::ExitCode};

/// The longest line that is taken for an event.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// What `watch` was told.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// A node of the tree, with all below it [default: everything]
    path: Option<String>,
    /// All locks
    #[arg(long)]
    locks: bool,
    /// One lock
    #[arg(long, value_name = "NAME")]
    lock: Option<String>,
    /// All sessions
    #[arg(long)]
    sessions: bool,
    /// From this revision on, inclusive
    #[arg(long, value_name = "REVISION", conflicts_with = "initial")]
    from: Option<u64>,
    /// Begin with what is there
    #[arg(long)]
    initial: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Follows and writes.
pub(crate) fn main(args: &WatchArgs) -> ExitCode {
    remote::run(&args.remote, async |api| {
        let request = Request::get("/v1/watch").parameter("path", args.path.as_ref()).flag("recursive", args.path.is_some());
        let request = request.parameter("lock", args.lock.as_ref()).flag("locks", args.locks).flag("sessions", args.sessions);
        let request = request.parameter("from", args.from).flag("initial", args.initial);
        follow(api, &request, args.remote.output).await
    })
}

/// Writes a line for each event until the stream ends, or until nobody reads.
pub(crate) async fn follow(api: &Api, request: &Request, asked: Option<Form>) -> Result<(), Failure> {
    let mut response = api.stream(request).await?;
    let mut rest = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| Failure::Unavailable(format!("the stream broke off: {}", cause(&error))))?;
        let Some(chunk) = chunk else {
            return Err(Failure::Unavailable("the node ended the stream; go on with --from at another".to_owned()));
        };
        rest.extend_from_slice(&chunk);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            match write_line(&line, asked) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
        if rest.len() > LINE_BYTES_MAX {
            return Err(Failure::Ended("what comes is no stream of events".to_owned()));
        }
    }
}

fn write_line(line: &[u8], asked: Option<Form>) -> io::Result<()> {
    match Form::of(asked) {
        Form::Json | Form::Ndjson => output::write_bytes(line),
        Form::Table | Form::Plain => match serde_json::from_slice::<Value>(line) {
            Ok(event) if event["type"] == "bookmark" => Ok(()),
            Ok(event) => output::write_stdout(&describe(&event)),
            Err(_) => Ok(()),
        },
    }
}

/// Revision, type, path or lock or session, then the rest as `name=value`, parted by tabs.
fn describe(event: &Value) -> String {
    let subject = ["path", "lock", "session"].into_iter().find(|field| !event[*field].is_null()).unwrap_or("code");
    let mut cells = vec![cell(event, "revision"), cell(event, "type"), cell(event, subject)];
    let rest = event.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    cells.extend(
        rest.filter(|name| !["revision", "type", subject].contains(name)).map(|name| format!("{name}={}", cell(event, name))),
    );
    format!("{}\n", cells.iter().map(|cell| harmless(cell)).collect::<Vec<_>>().join("\t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_begins_with_its_revision() {
        let event = serde_json::json!({"revision": 7, "type": "granted", "lock": "deploy", "token": 7});
        assert_eq!(describe(&event), "7\tgranted\tdeploy\ttoken=7\n");
        assert_eq!(describe(&serde_json::json!({"revision": 8, "type": "deleted", "path": "/a"})), "8\tdeleted\t/a\n");
    }
}

//! `fairhold watch`: what happens, as it happens, until it is stopped. It goes on by itself when a node is gone.

use crate::{
    output,
    remote::{
        self, Failure, RemoteArgs,
        form::{OutputFormat, cell, harmless},
    },
};
use fairhold_client::{Watch, WatchEvent};
use fairhold_types::{
    Revision, SessionNumber,
    watch::{WatchLine, What},
};
use serde_json::Value;
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

/// What `watch` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fairhold watch                                 everything
  fairhold watch /app --initial                  a node and all below it, beginning with what is there
  fairhold watch --lock orders --below -o ndjson     the lock orders and all locks below it
  fairhold watch --session 41                    what becomes of a session and of its grants")]
pub(crate) struct WatchArgs {
    /// A node of the tree, with all below it [default: everything]
    path: Option<String>,
    /// The node of PATH alone
    #[arg(long, requires = "path", conflicts_with = "children")]
    only: bool,
    /// The node of PATH and its direct children
    #[arg(long, requires = "path")]
    children: bool,
    /// All locks
    #[arg(long)]
    locks: bool,
    /// One lock
    #[arg(long, value_name = "NAME")]
    lock: Option<String>,
    /// Also all locks below that of --lock
    #[arg(long, requires = "lock")]
    below: bool,
    /// One session, by its number, and its grants
    #[arg(long, value_name = "NUMBER")]
    session: Option<u64>,
    /// All sessions
    #[arg(long)]
    sessions: bool,
    /// Start at this revision, inclusive
    #[arg(long, value_name = "REVISION", conflicts_with = "initial")]
    from: Option<u64>,
    /// Start with the current state
    #[arg(long)]
    initial: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Follows and writes.
pub(crate) fn main(args: &WatchArgs) -> ExitCode {
    remote::run(&args.remote, async |_| {
        let mut watch = remote::client(&args.remote.connect, None)?.watch();
        if let Some(path) = &args.path {
            watch = match (args.only, args.children) {
                (true, _) => watch.node(path),
                (false, true) => watch.children(path),
                (false, false) => watch.tree(path),
            };
        }
        if let Some(lock) = &args.lock {
            watch = if args.below { watch.locks_below(lock) } else { watch.lock(lock) };
        }
        if let Some(number) = args.session {
            watch = watch.session(SessionNumber(number));
        }
        watch = if args.locks { watch.locks() } else { watch };
        watch = if args.sessions { watch.sessions() } else { watch };
        watch = if args.initial { watch.initial() } else { watch };
        let is_told = !args.remote.connect.quiet && io::stderr().is_terminal();
        follow(beginning(watch, args.from), args.remote.output, is_told).await
    })
}

/// From a revision on, where one is named.
pub(crate) fn beginning(watch: Watch, from: Option<u64>) -> Watch {
    match from {
        Some(from) => watch.from(Revision(from)),
        None => watch,
    }
}

/// Writes a line for each event, over whichever nodes are there, until nobody reads. If `is_told`, it says on stderr from where
/// on it watches: an empty screen says nothing.
pub(crate) async fn follow(watch: Watch, asked: Option<OutputFormat>, mut is_told: bool) -> Result<(), Failure> {
    let mut watching = watch.await.map_err(|error| Failure::from_client(&error))?;
    while let Some(told) = watching.next().await {
        // As the servers write them, and two more that the client has found out.
        let told = told.map_err(|error| Failure::from_client(&error))?;
        if let (true, WatchEvent::Bookmark(revision)) = (is_told, &told) {
            output::note(&format!("watching from revision {revision} on; Ctrl-C ends it"));
        }
        is_told = false;
        let line = match told {
            WatchEvent::Change(line) => serde_json::to_string(&line),
            WatchEvent::Bookmark(revision) => serde_json::to_string(&WatchLine { revision, what: What::Bookmark }),
            WatchEvent::Compacted { oldest } => Ok(format!(r#"{{"revision":{oldest},"type":"reset"}}"#)),
            WatchEvent::Restarted | _ => Ok(r#"{"revision":0,"type":"initial_again"}"#.to_owned()),
        };
        match write_line(&line.map_err(io::Error::from)?, asked) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Err(Failure::Ended("the watch has ended".to_owned()))
}

fn write_line(line: &str, asked: Option<OutputFormat>) -> io::Result<()> {
    match OutputFormat::of(asked) {
        OutputFormat::Json | OutputFormat::Ndjson => output::write_stdout(&format!("{line}\n")),
        OutputFormat::Table | OutputFormat::Plain => {
            let event: Value = serde_json::from_str(line)?;
            if event["type"] == "bookmark" { Ok(()) } else { output::write_stdout(&describe(&event)) }
        }
    }
}

/// Revision, type, path or lock or session, then the rest as `name=value`, parted by tabs.
fn describe(event: &Value) -> String {
    let subject = ["path", "lock", "session"].into_iter().find(|field| !event[*field].is_null()).unwrap_or("-");
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

//! `fairhold watch`: prints events until you stop it. It continues at another node when one is gone.

use crate::{
    output,
    remote::{
        self, Failure, RemoteArgs,
        format::{OutputFormat, cell, terminal_safe},
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

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fairhold watch                                 all changes of nodes, locks and sessions
  fairhold watch /app --initial                  a node and all nodes below it, starting with the current state
  fairhold watch --lock orders --below -o ndjson     the lock orders and all locks below it
  fairhold watch --session 41                    a session and its grants
  fairhold watch --cluster                       the members of the cluster")]
pub(crate) struct WatchArgs {
    /// Path of a node to watch with all nodes below it [default: all nodes, locks and sessions]
    path: Option<String>,
    /// Watch only the node at PATH
    #[arg(long, requires = "path", conflicts_with = "children")]
    only: bool,
    /// Watch the node at PATH and its direct children
    #[arg(long, requires = "path")]
    children: bool,
    /// Watch all locks
    #[arg(long)]
    locks: bool,
    /// Watch this lock
    #[arg(long, value_name = "NAME")]
    lock: Option<String>,
    /// Also watch all locks below the lock in --lock
    #[arg(long, requires = "lock")]
    below: bool,
    /// Watch the session with this number and its grants
    #[arg(long, value_name = "NUMBER")]
    session: Option<u64>,
    /// Watch all sessions
    #[arg(long)]
    sessions: bool,
    /// Watch the cluster: its members, their settings, the timing profile and the version
    #[arg(long, conflicts_with_all = ["path", "locks", "lock", "session", "sessions", "initial"])]
    cluster: bool,
    /// Start at this revision, inclusive [default: now]
    #[arg(long, value_name = "REVISION", conflicts_with = "initial")]
    from: Option<u64>,
    /// Start with the current state
    #[arg(long)]
    initial: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub(crate) fn main(args: &WatchArgs) -> ExitCode {
    remote::run(&args.remote, async |_| {
        let client = remote::client(&args.remote.connect, None)?;
        let mut watch = client.watch();
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
        watch = if args.cluster { watch.cluster() } else { watch };
        watch = if args.initial { watch.initial() } else { watch };
        let reports_start = !args.remote.connect.quiet && io::stderr().is_terminal();
        let following = follow(starting_at(watch, args.from), args.remote.output, reports_start);
        remote::unless_other_cluster(&client, args.remote.connect.timeout, following).await
    })
}

/// Starts the watch at a revision, if there is one.
pub(crate) fn starting_at(watch: Watch, from: Option<u64>) -> Watch {
    match from {
        Some(from) => watch.from(Revision(from)),
        None => watch,
    }
}

/// Prints a line for each event until the reader is gone. With `reports_start`, reports on stderr where the watch
/// starts: without events, the screen stays empty.
pub(crate) async fn follow(watch: Watch, requested: Option<OutputFormat>, mut reports_start: bool) -> Result<(), Failure> {
    let mut watching = watch.await.map_err(|error| Failure::from_client(&error))?;
    while let Some(event) = watching.next().await {
        // The events of the servers, and two that the client adds.
        let event = event.map_err(|error| Failure::from_client(&error))?;
        if let (true, WatchEvent::Bookmark(revision)) = (reports_start, &event) {
            output::note(&format!("watching from revision {revision}; stop with Ctrl-C"));
        }
        reports_start = false;
        let line = match event {
            WatchEvent::Change(line) => serde_json::to_string(&line),
            WatchEvent::Bookmark(revision) => serde_json::to_string(&WatchLine { revision, what: What::Bookmark }),
            WatchEvent::Compacted { oldest } => Ok(format!(r#"{{"revision":{oldest},"type":"reset"}}"#)),
            WatchEvent::Restarted | _ => Ok(r#"{"revision":0,"type":"initial_again"}"#.to_owned()),
        };
        match write_line(&line.map_err(io::Error::from)?, requested) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Err(Failure::Ended("the watch has ended".to_owned()))
}

fn write_line(line: &str, requested: Option<OutputFormat>) -> io::Result<()> {
    match OutputFormat::resolve(requested) {
        OutputFormat::Json | OutputFormat::Ndjson => output::write_stdout(&format!("{line}\n")),
        OutputFormat::Table | OutputFormat::Plain => {
            let event: Value = serde_json::from_str(line)?;
            if event["type"] == "bookmark" { Ok(()) } else { output::write_stdout(&describe(&event)) }
        }
    }
}

/// Revision, type, and path, lock, session or member, then the other fields as `name=value`, separated by tabs.
fn describe(event: &Value) -> String {
    let subject = ["path", "lock", "session", "member"].into_iter().find(|field| !event[*field].is_null()).unwrap_or("-");
    let mut cells = vec![cell(event, "revision"), cell(event, "type"), cell(event, subject)];
    let rest = event.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    cells.extend(
        rest.filter(|name| !["revision", "type", subject].contains(name)).map(|name| format!("{name}={}", cell(event, name))),
    );
    format!("{}\n", cells.iter().map(|cell| terminal_safe(cell)).collect::<Vec<_>>().join("\t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_starts_with_its_revision() {
        let event = serde_json::json!({"revision": 7, "type": "granted", "lock": "deploy", "token": 7});
        assert_eq!(describe(&event), "7\tgranted\tdeploy\ttoken=7\n");
        assert_eq!(describe(&serde_json::json!({"revision": 8, "type": "deleted", "path": "/a"})), "8\tdeleted\t/a\n");
        let joining = serde_json::json!({"revision": 9, "type": "joining", "member": 5, "role": "voter", "replaces": 2});
        assert_eq!(describe(&joining), "9\tjoining\t5\treplaces=2\trole=voter\n");
    }
}

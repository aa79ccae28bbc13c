//! `fairhold locks`: which locks there are, who holds them and who waits; and asking for one back, breaking one, and what it
//! allows.

mod breaking;

use crate::{
    moment, output,
    pages::{self, PageArgs, PageFields, list},
    remote::{
        self, Api, ApiRequest, Failure, NewsArgs, ReadArgs, RemoteArgs,
        form::{self, OutputFormat, Table, cell},
        request::encode,
    },
};
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;
use std::process::ExitCode;

/// What `locks` was told.
#[derive(Debug, clap::Args)]
pub(crate) struct LocksArgs {
    #[command(subcommand)]
    command: LocksCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum LocksCommand {
    /// List the locks
    #[command(after_help = "Examples:
  fairhold locks ls orders/ --state queued
  fairhold locks ls --sort longest_wait --limit 10")]
    #[command(alias = "list")]
    Ls {
        /// Only locks whose name has this prefix
        #[arg(value_name = "PREFIX")]
        prefix: Option<String>,
        /// Only locks that are held, queued for, cooling or idle
        #[arg(long, value_name = "held|queued|cooling|idle")]
        state: Option<String>,
        /// By name; or first the locks with the most waiters, the longest current wait, the most total wait or hold time, or the
        /// most contention
        #[arg(long, value_name = "name|waiters|longest_wait|wait|hold|contention")]
        sort: Option<String>,
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
        /// How fresh.
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the holders of a lock, and how many wait for it
    #[command(after_help = "Examples:
  fairhold locks show deploy
  fairhold locks show deploy --wait 1m     when it changes next")]
    Show {
        /// The lock
        name: String,
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
        /// Newer than what.
        #[command(flatten)]
        news: NewsArgs,
    },
    /// Show the queue of a lock, in order, holders first
    #[command(after_help = "Example:
  fairhold locks queue deploy")]
    Queue {
        /// The lock
        name: String,
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
        /// Newer than what.
        #[command(flatten)]
        news: NewsArgs,
    },
    /// Check a fencing token: exits with 0 if a held grant has it, 1 if it is stale
    #[command(after_help = "Example:
  fairhold locks fence deploy 42")]
    Fence {
        /// The lock
        name: String,
        /// The token
        token: u64,
        /// The secret id of the grant that must have it, to tell readers apart
        #[arg(long, value_name = "ID")]
        grant: Option<String>,
        /// How fresh.
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the history of a lock: its holders, newest first, and how each hold ended
    #[command(after_help = "Examples:
  fairhold locks history deploy
  fairhold locks history deploy --at 2026-11-21T14:03:27Z     the holders at that time")]
    History {
        /// The lock
        name: String,
        /// Show only the holders at this moment: a revision, or a time in UTC like 14:03, 2026-11-21T14:03:27Z or '10m ago'
        #[arg(long, value_name = "TIME|REVISION", value_parser = moment::parse)]
        at: Option<String>,
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
        /// How fresh.
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Ask the holders of a lock to release it; nothing ends by that (for administrators)
    #[command(after_help = "Example:
  fairhold locks revoke deploy --reason 'an upgrade' --auth-token-file admin")]
    Revoke {
        /// The lock
        name: String,
        /// The reason, for the holders
        #[arg(long)]
        reason: Option<String>,
    },
    /// Change the settings of a lock; settings that you leave out stay as they are (for administrators)
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true), after_help = "Example:
  fairhold locks set gpu --limit 8 --max-waiters 100 --max-hold 2h --auth-token-file admin")]
    Set {
        /// The lock
        name: String,
        /// How many permits it has; holders keep theirs
        #[arg(long, value_name = "N", group = "what")]
        limit: Option<u32>,
        /// How many may wait for it
        #[arg(long, value_name = "N", group = "what")]
        max_waiters: Option<u64>,
        /// How long new grants may hold it; 0 for no limit
        #[arg(long, value_name = "DURATION", group = "what")]
        max_hold: Option<String>,
    },
    /// Take a lock away from all its holders (for administrators)
    #[command(after_help = "Example:
  fairhold locks break deploy --reason 'ci-7 hangs' --auth-token-file admin

If one grant holds the lock, only that grant is hit: should the lock change hands in between, nothing happens, and the exit code
is 1.")]
    Break(breaking::BreakArgs),
}

/// Asks and writes.
pub(crate) fn main(args: &LocksArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &LocksArgs) -> Result<(), Failure> {
    let asked = args.remote.output;
    match &args.command {
        LocksCommand::Ls { prefix, state, sort, page, read } => {
            let request = ApiRequest::get("/v1/locks").parameter("prefix", prefix.as_ref());
            let request = request.parameter("state", state.as_ref()).parameter("sort", sort.as_ref());
            let fields = PageFields(
                &["LOCK", "STATE", "OWNER", "HELD FOR", "HOLDERS", "WAITING", "LIMIT", "WAITED", "HELD", "HAND-OVERS"],
                &["lock", "state", "owner", "held_for", "holders", "queue_length", "limit", "waited", "held", "hand_overs"],
            );
            list(api, &read.of(request), page, asked, &fields).await.map(|_| ())
        }
        LocksCommand::Show { name, page, news } => {
            show(api, &news.of(ApiRequest::get(format!("/v1/locks/{}", encode(name)))), page, &args.remote).await
        }
        LocksCommand::Fence { name, token, grant, read } => {
            let request = ApiRequest::get(format!("/v1/locks/{}/fence", encode(name))).parameter("token", Some(token));
            let reply = api.call(&read.of(request.parameter("grant", grant.as_ref()))).await?;
            if OutputFormat::is_body(asked) { form::write_body(&reply) } else { Ok(()) }
        }
        LocksCommand::Queue { name, page, news } => {
            let request = ApiRequest::get(format!("/v1/locks/{}/queue", encode(name)));
            let fields = PageFields(
                &["PLACE", "GRANT", "SESSION", "STATE", "MODE", "OWNER", "SINCE", "WAITS FOR", "ESTIMATE"],
                &["position", "number", "session", "state", "mode", "owner", "since", "waits_for.number", "estimate"],
            );
            match list(api, &news.of(request), page, asked, &fields).await? {
                0 if !args.remote.connect.quiet => output::note(&format!("nobody holds {name} or waits for it")),
                _ => {}
            }
            Ok(())
        }
        LocksCommand::History { name, at, page, read } => {
            let request = ApiRequest::get(format!("/v1/locks/{}/history", encode(name))).parameter("at", at.as_ref());
            let fields = PageFields(
                &["GRANT", "SESSION", "OWNER", "MODE", "TOKEN", "FROM", "TO", "HELD FOR", "ENDED", "BY", "REASON"],
                &["number", "session", "owner", "mode", "token", "from", "to", "held_for", "ended", "by", "reason"],
            );
            match list(api, &read.of(request), page, asked, &fields).await? {
                0 if !args.remote.connect.quiet => output::note(&format!("nobody has held {name} in the time that is kept")),
                _ => {}
            }
            Ok(())
        }
        LocksCommand::Revoke { name, reason } => {
            let request = ApiRequest::change(Method::POST, format!("/v1/locks/{}/holders/revoke", encode(name)));
            api.call(&request.parameter("reason", reason.as_ref())).await.map(|_| ())
        }
        LocksCommand::Set { name, limit, max_waiters, max_hold } => {
            let reply = api.call(&set(name, *limit, *max_waiters, max_hold.as_deref())).await?;
            if OutputFormat::is_body(asked) { form::write_body(&reply) } else { Ok(()) }
        }
        LocksCommand::Break(order) => breaking::run(api, order, args.remote.connect.quiet).await,
    }
}

/// The request to set what a lock allows.
fn set(name: &str, limit: Option<u32>, max_waiters: Option<u64>, max_hold: Option<&str>) -> ApiRequest {
    let mut what = serde_json::Map::new();
    what.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
    what.extend(max_waiters.map(|most| ("max_waiters".to_owned(), most.into())));
    what.extend(max_hold.map(|most| ("max_hold".to_owned(), most.into())));
    let request = ApiRequest::unkeyed(Method::PATCH, format!("/v1/locks/{}", encode(name)));
    request.json(&Value::Object(what))
}

/// Who holds it: a row each.
async fn show(api: &Api, request: &ApiRequest, page: &PageArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let asked = remote.output;
    let mut table = Table::new(&["LOCK", "HOLDER", "OWNER", "MODE", "TOKEN", "HELD FOR", "WAITING"]);
    pages::follow(api, request, page, asked, |reply| {
        if OutputFormat::is_body(asked) {
            return form::write_body(reply);
        }
        let lock: Value = reply.read()?;
        if lock["last_token"].is_null() && !remote.connect.quiet {
            output::note(&format!("nobody has ever held {}, or it was forgotten", cell(&lock, "lock")));
        }
        let holders = lock["holders"].as_array().filter(|holders| !holders.is_empty()).cloned();
        for holder in holders.unwrap_or_else(|| vec![Value::Null]) {
            let of = |field| cell(&holder, field);
            let (name, waiting) = (cell(&lock, "lock"), cell(&lock, "queue_length"));
            table.row(vec![name, of("number"), of("owner"), of("mode"), of("token"), of("held_for"), waiting]);
        }
        form::write(&table.take(OutputFormat::of(asked)))
    })
    .await
}

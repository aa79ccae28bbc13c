//! `fairhold locks`: lists and shows locks, changes their settings, revokes and breaks them.

mod breaking;
mod history;

use crate::{
    output,
    pages::{self, PageArgs, PageFields, list},
    remote::{
        self, Api, ApiRequest, Failure, LongPollArgs, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell},
        request::encode,
    },
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_types::limits::PAGE_DEFAULT;
use serde_json::Value;
use std::process::ExitCode;

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
  fairhold locks ls --match deploy --owner ci-7
  fairhold locks ls --sort longest_wait --limit 10")]
    #[command(alias = "list")]
    Ls {
        /// List only locks whose names start with this prefix
        #[arg(value_name = "PREFIX")]
        prefix: Option<String>,
        /// List only locks whose names contain this text, in upper or lower case
        #[arg(long = "match", id = "match", value_name = "TEXT")]
        part: Option<String>,
        /// List only locks that this owner holds or waits for
        #[arg(long, value_name = "OWNER")]
        owner: Option<String>,
        /// List only locks in this state
        #[arg(long, value_name = "held|queued|cooling|idle")]
        state: Option<String>,
        /// Sort by name, or in descending order by this figure
        ///
        /// waiters: current waiters; longest_wait, held_for: longest current wait or hold; wait, hold: total time spent
        /// waiting or holding; contention: grants that had to wait.
        #[arg(long, value_name = "name|waiters|longest_wait|held_for|wait|hold|contention")]
        sort: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the holders of a lock and the number of waiters
    #[command(after_help = "Examples:
  fairhold locks show deploy
  fairhold locks show deploy --wait 1m     wait for the next change")]
    Show {
        /// Name of the lock
        name: String,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        long_poll: LongPollArgs,
    },
    /// Show the queue of a lock, in order, holders first
    #[command(after_help = "Examples:
  fairhold locks queue deploy
  fairhold locks queue deploy --around 57              the page around grant 57 in a long queue
  fairhold locks queue deploy --around last --limit 5  the end of the queue")]
    Queue {
        /// Name of the lock
        name: String,
        /// Show the page around the grant with this number, or the end of the queue [default limit: 100]
        #[arg(long, value_name = "NUMBER|last", conflicts_with = "cursor")]
        around: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        long_poll: LongPollArgs,
    },
    /// Check a fencing token: exit with 0 if a held grant has it, 1 if it is stale
    #[command(after_help = "Example:
  fairhold locks fence deploy 42")]
    Fence {
        /// Name of the lock
        name: String,
        /// Fencing token to check
        token: u64,
        /// Accept the token only from the grant with this secret id, to select one shared holder
        #[arg(long, value_name = "ID")]
        grant: Option<String>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the history of a lock, or of all locks: the holders, and how each hold ended
    #[command(after_help = "Examples:
  fairhold locks history deploy
  fairhold locks history deploy --at 2026-11-21T14:03:27Z     the holders at that time
  fairhold locks history --at 03:12                           the holders of all locks at that time
  fairhold locks history --from '1h ago' --ended expired      the holds of the last hour that expired

The history of one lock has the newest hold first. The history of all locks is in the order of their names, with the newest hold
of each lock first. The cluster keeps at most the newest 1,000 ended holds of each lock, and 100,000 in total. Within these
limits it keeps them for a week, unless its state is nearly full.")]
    History(history::HistoryArgs),
    /// Ask the holders of a lock to release it, without ending their grants (for administrators)
    #[command(after_help = "Example:
  fairhold locks revoke deploy --reason 'an upgrade' --auth-token-file admin")]
    Revoke {
        /// Name of the lock
        name: String,
        /// Give the holders this reason
        #[arg(long)]
        reason: Option<String>,
    },
    /// Change settings of a lock; settings that you omit stay unchanged (for administrators)
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true), after_help = "Example:
  fairhold locks set gpu --limit 8 --max-waiters 100 --max-hold 2h --auth-token-file admin")]
    Set {
        /// Name of the lock
        name: String,
        /// Set the number of permits; holders keep theirs
        #[arg(long, value_name = "N", group = "what")]
        limit: Option<u32>,
        /// Allow at most this many waiters
        #[arg(long, value_name = "N", group = "what")]
        max_waiters: Option<u64>,
        /// Let new grants hold it for at most this long; 0 removes the limit
        #[arg(long, value_name = "DURATION", group = "what")]
        max_hold: Option<String>,
    },
    /// Break a lock: end the grants of all its holders (for administrators)
    #[command(after_help = "Example:
  fairhold locks break deploy --reason 'ci-7 hangs' --auth-token-file admin

If one grant holds the lock, the command breaks only that grant: if the lock changes hands first, nothing is broken, and the exit
code is 1.")]
    Break(breaking::BreakArgs),
}

const LIST_HEADINGS: &[&str] =
    &["LOCK", "STATE", "OWNER", "HELD FOR", "USUAL", "HOLDERS", "WAITING", "LIMIT", "WAITED", "HELD", "HAND-OVERS"];
const LIST_FIELDS: &[&str] =
    &["lock", "state", "owner", "held_for", "usual_hold", "holders", "queue_length", "limit", "waited", "held", "hand_overs"];

/// Runs the command.
pub(crate) fn main(args: &LocksArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &LocksArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    match &args.command {
        LocksCommand::Ls { prefix, part, owner, state, sort, page, read } => {
            let sort = sort.as_ref().map(|sort| sort.replace('-', "_"));
            let request = ApiRequest::get("/v1/locks").parameter("prefix", prefix.as_ref()).parameter("match", part.as_ref());
            let request = request.parameter("owner", owner.as_ref()).parameter("state", state.as_ref()).parameter("sort", sort);
            let fields = PageFields(LIST_HEADINGS, LIST_FIELDS);
            let listed = list(api, &read.apply(request), page, requested, &fields).await?;
            listed.note_if_empty("no lock matches", &args.remote);
            Ok(())
        }
        LocksCommand::Show { name, page, long_poll } => {
            show(api, &long_poll.apply(ApiRequest::get(format!("/v1/locks/{}", encode(name)))), page, &args.remote).await
        }
        LocksCommand::Fence { name, token, grant, read } => {
            let request = ApiRequest::get(format!("/v1/locks/{}/fence", encode(name))).parameter("token", Some(token));
            let reply = api.call(&read.apply(request.parameter("grant", grant.as_ref()))).await?;
            if OutputFormat::is_body(requested) { format::write_body(&reply) } else { Ok(()) }
        }
        LocksCommand::Queue { name, around, page, long_poll } => {
            let request = ApiRequest::get(format!("/v1/locks/{}/queue", encode(name))).parameter("around", around.as_ref());
            // The rest of a long queue is not around the grant.
            let page = &match around {
                Some(_) => PageArgs { limit: page.limit.or(Some(PAGE_DEFAULT)), cursor: None },
                None => page.clone(),
            };
            let fields = PageFields(
                &["PLACE", "GRANT", "SESSION", "STATE", "MODE", "OWNER", "SINCE", "WAITS FOR", "ESTIMATE"],
                &["position", "number", "session", "state", "mode", "owner", "since", "waits_for.number", "estimate"],
            );
            let listed = list(api, &long_poll.apply(request), page, requested, &fields).await?;
            listed.note_if_empty(&format!("nobody holds {name} or waits for it"), &args.remote);
            Ok(())
        }
        LocksCommand::History(query) => history::run(api, query, &args.remote).await,
        LocksCommand::Revoke { name, reason } => {
            let request = ApiRequest::change(Method::POST, format!("/v1/locks/{}/holders/revoke", encode(name)));
            api.call(&request.parameter("reason", reason.as_ref())).await.map(|_| ())
        }
        LocksCommand::Set { name, limit, max_waiters, max_hold } => {
            let reply = api.call(&set(name, *limit, *max_waiters, max_hold.as_deref())).await?;
            if OutputFormat::is_body(requested) { format::write_body(&reply) } else { Ok(()) }
        }
        LocksCommand::Break(order) => breaking::run(api, order, args.remote.connect.quiet).await,
    }
}

/// The request to change settings of a lock.
fn set(name: &str, limit: Option<u32>, max_waiters: Option<u64>, max_hold: Option<&str>) -> ApiRequest {
    let mut what = serde_json::Map::new();
    what.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
    what.extend(max_waiters.map(|most| ("max_waiters".to_owned(), most.into())));
    what.extend(max_hold.map(|most| ("max_hold".to_owned(), most.into())));
    let request = ApiRequest::unkeyed(Method::PATCH, format!("/v1/locks/{}", encode(name)));
    request.json(&Value::Object(what))
}

/// Prints a row for each holder.
async fn show(api: &Api, request: &ApiRequest, page: &PageArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let requested = remote.output;
    let mut table = Table::new(&["LOCK", "HOLDER", "OWNER", "MODE", "TOKEN", "HELD FOR", "WAITING"]);
    pages::follow(api, request, page, requested, |reply| {
        if OutputFormat::is_body(requested) {
            return format::write_body(reply);
        }
        let lock: Value = reply.read()?;
        if lock["last_token"].is_null() && !remote.connect.quiet {
            output::note(&format!("nobody has ever held {}, or it was forgotten", cell(&lock, "lock")));
        }
        let holders = lock["holders"].as_array().filter(|holders| !holders.is_empty()).cloned();
        for holder in holders.unwrap_or_else(|| vec![Value::Null]) {
            let of = |field| cell(&holder, field);
            let name = cell(&lock, "lock");
            let waiting = cell(&lock, "queue_length");
            table.row(vec![name, of("number"), of("owner"), of("mode"), of("token"), of("held_for"), waiting]);
        }
        format::write(&table.take(OutputFormat::resolve(requested)))
    })
    .await
    .map(drop)
}

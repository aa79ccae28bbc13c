//! `fairhold grants`: lists grants over all locks, and works with grants by their ids, for scripts that hold one over several
//! commands. `fairhold lock` is for one command.

mod list;
mod take;

use crate::{
    pages::{PageFields, show_one},
    remote::{self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs, format::OutputFormat, reply::ApiReply, request::encode},
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_types::duration;
use list::ListArgs;
use std::{process::ExitCode, time::Duration};
use take::TakeArgs;

/// The columns of a renewal, for a grant or a session.
pub(crate) const RENEWED: PageFields = PageFields(&["EXPIRES IN", "EXPIRES AT"], &["expires_in", "expires_at"]);

#[derive(Debug, clap::Args)]
pub(crate) struct GrantsArgs {
    #[command(subcommand)]
    command: GrantsCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum GrantsCommand {
    /// Acquire a lock, permits, several locks or the leadership of an election, and print the grant
    Take(Box<TakeArgs>),
    /// List what an owner or a session holds and waits for, over all locks
    #[command(after_help = "Examples:
  fairhold grants ls --owner ci-7
  fairhold grants ls --session 41 --state held
  fairhold grants ls --prefix orders/ --sort lock

A grant of several locks has one row for each lock. The list shows no ids.")]
    #[command(alias = "list")]
    Ls(ListArgs),
    /// Show a grant, or wait until it is held
    #[command(after_help = "Example:
  fairhold grants show 01ARZ3NDEKTSV4RRFFQ69G5FAV --wait 10m     until it is held")]
    Show {
        /// Secret id of the grant
        id: String,
        /// Wait at most this long until it is held
        #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
        wait: Option<Duration>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Renew a grant without a named session, well before it expires
    #[command(after_help = "Example:
  fairhold grants renew 01ARZ3NDEKTSV4RRFFQ69G5FAV --ttl 1m")]
    Renew {
        /// Secret id of the grant
        id: String,
        /// Set a new ttl [default: unchanged]
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        ttl: Option<Duration>,
    },
    /// Upgrade a shared grant to exclusive, with a new token, once no other grant shares the lock
    #[command(after_help = "Exit code 75: others still hold the lock, and the grant stays shared.

Example:
  fairhold grants upgrade 01ARZ3NDEKTSV4RRFFQ69G5FAV --wait 1m")]
    Upgrade {
        /// Secret id of the grant
        id: String,
        /// Wait at most this long until nobody else holds it [default: do not wait]
        #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
        wait: Option<Duration>,
    },
    /// Downgrade an exclusive grant to shared; you keep the token, and waiting shared grants join at once
    #[command(after_help = "Example:
  fairhold grants downgrade 01ARZ3NDEKTSV4RRFFQ69G5FAV")]
    Downgrade {
        /// Secret id of the grant
        id: String,
    },
    /// Release a grant or leave the queue; you can repeat this safely
    #[command(after_help = "Example:
  fairhold grants release 01ARZ3NDEKTSV4RRFFQ69G5FAV")]
    Release {
        /// Secret id of the grant
        id: String,
        /// Name the owning session; required if an acquire with a session got no answer
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
}

/// Runs the command.
pub(crate) fn main(args: &GrantsArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &GrantsArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    let change = |id: &str, what: &str| ApiRequest::change(Method::POST, format!("/v1/grants/{}/{what}", encode(id)));
    match &args.command {
        GrantsCommand::Take(take) => show(&api.call(&take.request()?).await?, requested),
        GrantsCommand::Ls(query) => list::run(api, query, &args.remote).await,
        GrantsCommand::Show { id, wait, read } => {
            let request = ApiRequest::get(format!("/v1/grants/{}", encode(id))).wait(*wait);
            show(&api.call(&read.apply(request)).await?, requested)
        }
        GrantsCommand::Renew { id, ttl } => {
            let request = change(id, "renew").parameter("ttl", ttl.map(duration::format));
            show_one(&api.call(&request).await?, requested, &RENEWED)
        }
        GrantsCommand::Upgrade { id, wait } => show(&api.call(&change(id, "upgrade").wait(*wait)).await?, requested),
        GrantsCommand::Downgrade { id } => show(&api.call(&change(id, "downgrade")).await?, requested),
        GrantsCommand::Release { id, session } => {
            let request = ApiRequest::unkeyed(Method::DELETE, format!("/v1/grants/{}", encode(id)));
            let request = request.parameter("session", session.clone());
            api.call(&request).await.map(|_| ())
        }
    }
}

fn show(reply: &ApiReply, requested: Option<OutputFormat>) -> Result<(), Failure> {
    let fields = PageFields(
        &["ID", "LOCK", "STATE", "TOKEN", "MODE", "POSITION", "EXPIRES IN"],
        &["id", "lock", "state", "token", "mode", "position", "expires_in"],
    );
    show_one(reply, requested, &fields)
}

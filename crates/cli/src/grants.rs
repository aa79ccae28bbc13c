//! `fairhold grants`: a grant by its id, for scripts that hold one over several commands. `fairhold lock` holds one for one.

mod take;

use crate::{
    pages::{Fields, show_one},
    remote::{
        self, Api, Failure, ReadArgs, RemoteArgs, Request,
        api::{Reply, encode},
        form::Form,
    },
};
use clap::Subcommand;
use fairhold_types::duration;
use reqwest::Method;
use std::{process::ExitCode, time::Duration};
use take::TakeArgs;

/// What a renewal says, of a grant or of a session.
pub(crate) const RENEWED: Fields = Fields(&["EXPIRES IN", "EXPIRES AT"], &["expires_in", "expires_at"]);

/// What `grants` was told.
#[derive(Debug, clap::Args)]
pub(crate) struct GrantsArgs {
    #[command(subcommand)]
    command: GrantsCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum GrantsCommand {
    /// Take a lock, permits of a semaphore, several locks or the lead of an election, and print the grant
    Take(Box<TakeArgs>),
    /// Show a grant, and wait for its turn
    #[command(after_help = "Example:
  fairhold grants show 01ARZ3NDEKTSV4RRFFQ69G5FAV --wait 10m     until it is held")]
    Show {
        /// Its secret id
        id: String,
        /// Wait for at most so long until it is held
        #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
        wait: Option<Duration>,
        /// How fresh.
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Renew a grant that has no session of yours: do it well before it expires, as often as you like
    #[command(after_help = "Example:
  fairhold grants renew 01ARZ3NDEKTSV4RRFFQ69G5FAV --ttl 1m")]
    Renew {
        /// Its secret id
        id: String,
        /// How long it lives from now on without a further renewal [default: as long as before]
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        ttl: Option<Duration>,
    },
    /// Hold a lock alone that you share: with a new token, as soon as no other shares it
    #[command(after_help = "Exit code 75: others hold it still; it stays shared.

Example:
  fairhold grants upgrade 01ARZ3NDEKTSV4RRFFQ69G5FAV --wait 1m")]
    Upgrade {
        /// Its secret id
        id: String,
        /// Wait for at most so long until no other holds it [default: not at all]
        #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
        wait: Option<Duration>,
    },
    /// Share a lock that you hold alone: readers who wait join at once, and the token stays
    #[command(after_help = "Example:
  fairhold grants downgrade 01ARZ3NDEKTSV4RRFFQ69G5FAV")]
    Downgrade {
        /// Its secret id
        id: String,
    },
    /// Give a grant back, or leave the queue; to do so twice does no harm
    #[command(after_help = "Example:
  fairhold grants release 01ARZ3NDEKTSV4RRFFQ69G5FAV")]
    Release {
        /// Its secret id
        id: String,
        /// The id of the session that was to own it: for an id that you took with a session, and got no answer for
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
}

/// Asks and writes.
pub(crate) fn main(args: &GrantsArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &GrantsArgs) -> Result<(), Failure> {
    let asked = args.remote.output;
    let change = |id: &str, what: &str| Request::change(Method::POST, format!("/v1/grants/{}/{what}", encode(id)));
    match &args.command {
        GrantsCommand::Take(take) => show(&api.call(&take.request()?).await?, asked),
        GrantsCommand::Show { id, wait, read } => {
            let request = Request::get(format!("/v1/grants/{}", encode(id))).wait(*wait);
            show(&api.call(&read.of(request)).await?, asked)
        }
        GrantsCommand::Renew { id, ttl } => {
            let request = change(id, "renew").parameter("ttl", ttl.map(duration::format));
            show_one(&api.call(&request).await?, asked, &RENEWED)
        }
        GrantsCommand::Upgrade { id, wait } => show(&api.call(&change(id, "upgrade").wait(*wait)).await?, asked),
        GrantsCommand::Downgrade { id } => show(&api.call(&change(id, "downgrade")).await?, asked),
        GrantsCommand::Release { id, session } => {
            let request = Request::unkeyed(Method::DELETE, format!("/v1/grants/{}", encode(id)));
            let request = request.parameter("session", session.clone());
            api.call(&request).await.map(|_| ())
        }
    }
}

fn show(reply: &Reply, asked: Option<Form>) -> Result<(), Failure> {
    let fields = Fields(
        &["ID", "LOCK", "STATE", "TOKEN", "MODE", "POSITION", "EXPIRES IN"],
        &["id", "lock", "state", "token", "mode", "position", "expires_in"],
    );
    show_one(reply, asked, &fields)
}

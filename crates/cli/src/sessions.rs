//! `fairhold sessions`: which clients are alive and what they own; and ending one.

use crate::{
    locks::{Fields, PageArgs, list},
    remote::{
        self, Api, Failure, RemoteArgs, Request,
        form::{self, Form, Table, cell},
    },
};
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;
use std::process::ExitCode;

/// What `sessions` was told.
#[derive(Debug, clap::Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the sessions
    Ls {
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show what a session owns
    Show {
        /// Its number
        number: u64,
    },
    /// End a session, with all that it owns (for administrators)
    End {
        /// Its number
        number: u64,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Asks and writes.
pub(crate) fn main(args: &SessionsArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &SessionsArgs) -> Result<(), Failure> {
    let asked = args.remote.output;
    match &args.command {
        SessionsCommand::Ls { page } => {
            let fields = Fields(
                &["SESSION", "NAME", "TTL", "OPENED AT", "EPHEMERAL NODES"],
                &["number", "name", "ttl", "opened_at", "ephemeral_count"],
            );
            list(api, &Request::get("/v1/sessions"), page, asked, &fields).await
        }
        SessionsCommand::Show { number } => {
            let reply = api.call(&Request::get(format!("/v1/sessions/{number}"))).await?;
            if asked == Some(Form::Json) || asked == Some(Form::Ndjson) {
                return form::write_body(&reply);
            }
            let session: Value = reply.read()?;
            let mut table = Table::new(&["WHAT", "NAME", "STATE"]);
            table.row(vec!["session".to_owned(), cell(&session, "name"), cell(&session, "ttl")]);
            for grant in session["grants"].as_array().into_iter().flatten() {
                table.row(vec![format!("grant {}", cell(grant, "number")), cell(grant, "lock"), cell(grant, "state")]);
            }
            for path in session["ephemeral_nodes"].as_array().into_iter().flatten() {
                table.row(vec!["node".to_owned(), path.as_str().unwrap_or("-").to_owned(), "-".to_owned()]);
            }
            form::write(&table.text(Form::of(asked)))
        }
        SessionsCommand::End { number, reason } => {
            let request = Request::change(Method::DELETE, format!("/v1/sessions/{number}"));
            api.call(&request.parameter("reason", reason.as_ref())).await.map(|_| ())
        }
    }
}

//! `fairhold sessions`: lists and shows sessions, opens them, keeps them alive and ends them.

use crate::{
    grants::RENEWED,
    pages::{self, PageArgs, PageFields, list, show_one},
    remote::{
        self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell},
        request::encode,
    },
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_types::{Code, duration};
use serde_json::{Value, json};
use std::{process::ExitCode, time::Duration};

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
    #[command(after_help = "Example:
  fairhold sessions ls")]
    #[command(alias = "list")]
    Ls {
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the grants and nodes of a session
    #[command(after_help = "Example:
  fairhold sessions show 41")]
    Show {
        /// Number or secret id of the session
        #[arg(value_name = "NUMBER|ID")]
        session: String,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Open a session and print its secret id and number
    #[command(
        after_help = "Grants and nodes can name the session as their owner: they end with it. Send keepalives well within its
ttl: otherwise it expires.

Example:
  fairhold sessions open --ttl 1m --name worker-3 --meta host=n7"
    )]
    Open {
        /// Expire after this long without a keepalive [default: 30s]
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        ttl: Option<Duration>,
        /// Give the session this name, for people to read
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Add this key and value, for people to read; repeatable
        #[arg(long, value_name = "KEY=VALUE", value_parser = remote::pair)]
        meta: Vec<(String, String)>,
    },
    /// Keep sessions alive; exit with 1 if one of them has ended
    #[command(after_help = "Example:
  fairhold sessions keepalive 5f2b0c6e9d8a4b1f9c3e7a6d5b4c3d2e")]
    Keepalive {
        /// Secret ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Close your session and release everything that it owns, in one step
    #[command(after_help = "Example:
  fairhold sessions close 5f2b0c6e9d8a4b1f9c3e7a6d5b4c3d2e")]
    Close {
        /// Secret id of the session
        id: String,
    },
    /// End a session and everything that it owns (for administrators)
    #[command(after_help = "Example:
  fairhold sessions end 41 --reason 'its host is gone' --auth-token-file admin")]
    End {
        /// Number of the session
        number: u64,
        /// Record this reason
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Runs the command.
pub(crate) fn main(args: &SessionsArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &SessionsArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    match &args.command {
        SessionsCommand::Ls { page, read } => {
            let fields = PageFields(
                &["SESSION", "NAME", "TTL", "OPENED AT", "EPHEMERAL NODES"],
                &["number", "name", "ttl", "opened_at", "ephemeral_count"],
            );
            list(api, &read.apply(ApiRequest::get("/v1/sessions")), page, requested, &fields).await.map(|_| ())
        }
        SessionsCommand::Show { session, page, read } => {
            show(api, &read.apply(ApiRequest::get(format!("/v1/sessions/{}", encode(session)))), page, requested).await
        }
        SessionsCommand::Open { ttl, name, meta } => {
            let meta: serde_json::Map<String, Value> = meta.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            let body = json!({ "ttl": ttl.map(duration::format), "name": name, "meta": meta });
            let reply = api.call(&ApiRequest::change(Method::POST, "/v1/sessions").json(&body)).await?;
            show_one(&reply, requested, &PageFields(&["ID", "SESSION", "TTL"], &["id", "number", "ttl"]))
        }
        SessionsCommand::Keepalive { ids } => keep_alive(api, ids, requested).await,
        SessionsCommand::Close { id } => {
            // Only administrators can end a session by its number, with another command.
            if id.bytes().all(|byte| byte.is_ascii_digit()) && id.len() < 20 {
                return Err(Failure::Usage(format!(
                    "close takes the secret id; to end a session by its number, use: sessions end {id}"
                )));
            }
            let request = ApiRequest::unkeyed(Method::DELETE, format!("/v1/sessions/{}", encode(id)));
            api.call(&request.done_by(Code::SessionNotFound)).await.map(|_| ())
        }
        SessionsCommand::End { number, reason } => {
            let request = ApiRequest::unkeyed(Method::DELETE, format!("/v1/sessions/{number}")).done_by(Code::SessionNotFound);
            api.call(&request.parameter("reason", reason.as_ref())).await.map(|_| ())
        }
    }
}

/// Prints a row for each grant and node of a session, page by page.
async fn show(api: &Api, request: &ApiRequest, page: &PageArgs, requested: Option<OutputFormat>) -> Result<(), Failure> {
    let mut table = Table::new(&["WHAT", "NAME", "STATE", "HEARD AGO"]);
    let none = || "-".to_owned();
    let mut is_first = true;
    pages::follow(api, request, page, requested, |reply| {
        if OutputFormat::is_body(requested) {
            return format::write_body(reply);
        }
        let session: Value = reply.read()?;
        if std::mem::take(&mut is_first) {
            let heard_ago = cell(&session, "heard_ago");
            table.row(vec!["session".to_owned(), cell(&session, "name"), cell(&session, "ttl"), heard_ago]);
        }
        for grant in session["grants"].as_array().into_iter().flatten() {
            table.row(vec![format!("grant {}", cell(grant, "number")), cell(grant, "lock"), cell(grant, "state"), none()]);
        }
        for path in session["ephemeral_nodes"].as_array().into_iter().flatten() {
            table.row(vec!["node".to_owned(), path.as_str().unwrap_or("-").to_owned(), none(), none()]);
        }
        format::write(&table.take(OutputFormat::resolve(requested)))
    })
    .await
    .map(drop)
}

/// Renews one session by its own call, which returns its expiry, or several sessions by one call.
async fn keep_alive(api: &Api, ids: &[String], requested: Option<OutputFormat>) -> Result<(), Failure> {
    if let [id] = ids {
        let reply = api.call(&ApiRequest::change(Method::POST, format!("/v1/sessions/{}/keepalive", encode(id)))).await?;
        return show_one(&reply, requested, &RENEWED);
    }
    let request = ApiRequest::change(Method::POST, "/v1/sessions/keepalive").json(&json!({ "ids": ids }));
    let reply = api.call(&request).await?;
    let kept: Value = reply.read()?;
    if OutputFormat::is_body(requested) {
        format::write_body(&reply)?;
    } else {
        let mut table = Table::new(&["ID", "STATE"]);
        for (list, state) in [("renewed", "alive"), ("expired", "ended")] {
            for id in kept[list].as_array().into_iter().flatten() {
                table.row(vec![id.as_str().unwrap_or("-").to_owned(), state.to_owned()]);
            }
        }
        format::write(&table.take(OutputFormat::resolve(requested)))?;
    }
    match kept["expired"].as_array().map_or(0, Vec::len) {
        0 => Ok(()),
        ended => Err(Failure::Ended(format!("{ended} of {} sessions have ended or never existed", ids.len()))),
    }
}

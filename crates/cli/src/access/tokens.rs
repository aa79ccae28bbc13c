//! `fairhold tokens`.

use super::print::{note, print_list};
use crate::remote::{
    self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
    format::{self, OutputFormat},
};
use clap::Subcommand;
use fairhold_access::BearerToken;
use fairhold_client::Method;
use fairhold_types::duration;
use rand::RngExt as _;
use serde_json::{Value, json};
use std::{process::ExitCode, time::Duration};

const PATH: &str = "/v1/access/tokens";

#[derive(Debug, clap::Args)]
pub(crate) struct TokensArgs {
    #[command(subcommand)]
    command: AccessTokensCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum AccessTokensCommand {
    /// Create a token for a user, and print it (for administrators)
    #[command(after_help = "Example:
  fairhold tokens create --user ci --ttl 90d --auth-token-file admin > ci.token

The token is made here, and the cluster gets only its hash. Keep the output: the token cannot be shown again.")]
    Create {
        /// The user that the token stands for
        #[arg(long, value_name = "NAME")]
        user: String,
        /// Let the token expire after this time [default: never]
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        ttl: Option<Duration>,
    },
    /// List the tokens, without their secrets (for administrators)
    #[command(after_help = "Example:
  fairhold tokens ls --auth-token-file admin")]
    Ls {
        /// List at most this many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// List those after this number
        #[arg(long, value_name = "NUMBER")]
        cursor: Option<u64>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Revoke a token (for administrators)
    #[command(after_help = "Example:
  fairhold tokens revoke 7 --end-sessions --auth-token-file admin")]
    Revoke {
        /// Number of the token
        number: u64,
        /// End the sessions that its user opened, with everything that they own
        #[arg(long)]
        end_sessions: bool,
    },
}

/// Runs the command.
pub(crate) fn main(args: &TokensArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &TokensArgs) -> Result<(), Failure> {
    let remote = &args.remote;
    match &args.command {
        AccessTokensCommand::Create { user, ttl } => create(api, user, *ttl, remote).await,
        AccessTokensCommand::Ls { limit, cursor, read } => {
            let request = ApiRequest::get(PATH).parameter("limit", *limit).parameter("cursor", *cursor);
            let reply = api.call(&read.apply(request)).await?;
            let columns: (&'static [&'static str], &[&str]) =
                (&["NUMBER", "USER", "CREATED", "EXPIRES", "BY"], &["number", "user", "created_at", "expires_at", "by"]);
            print_list(&reply, "items", columns, remote)
        }
        AccessTokensCommand::Revoke { number, end_sessions } => {
            let request = ApiRequest::change(Method::DELETE, format!("{PATH}/{number}"));
            api.call(&request.flag("end_sessions", *end_sessions)).await?;
            note(remote, &format!("token {number} is revoked"));
            Ok(())
        }
    }
}

/// Makes a token and sends its hash. A repeated attempt has the same hash, so it finds the same token.
async fn create(api: &Api, user: &str, ttl: Option<Duration>, remote: &RemoteArgs) -> Result<(), Failure> {
    let token = BearerToken::from_random(rand::rng().random());
    let body = json!({ "user": user, "ttl": ttl.map(duration::format), "hash": token.hash().to_hex() });
    let created: Value = api.call(&ApiRequest::change(Method::POST, PATH).json(&body)).await?.read()?;
    let secret = token.expose();
    if OutputFormat::is_body(remote.output) {
        let mut shown = created.clone();
        shown["token"] = secret.into();
        format::write_line(&shown)?;
    } else {
        format::write(&format!("{secret}\n"))?;
    }
    let end =
        created["expires_at"].as_str().map_or_else(|| "it does not expire".to_owned(), |end| format!("it expires at {end}"));
    note(remote, &format!("token {} for {user}; {end}", created["number"]));
    Ok(())
}

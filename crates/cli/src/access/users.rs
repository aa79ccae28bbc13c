//! `fairhold users`.

use super::print::{note, print_list};
use crate::remote::{self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs, request::encode};
use clap::Subcommand;
use fairhold_client::Method;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct UsersArgs {
    #[command(subcommand)]
    command: UsersCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum UsersCommand {
    /// List the users that are disabled (for administrators)
    #[command(after_help = "Example:
  fairhold users ls --auth-token-file admin

Users are names in bindings and tokens. Nobody creates them, so there is no list of all.")]
    Ls {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Disable a user and revoke its tokens (for administrators)
    #[command(after_help = "Example:
  fairhold users disable ci --end-sessions --auth-token-file admin")]
    Disable {
        /// Name of the user
        name: String,
        /// End the sessions that it opened, with everything that they own
        #[arg(long)]
        end_sessions: bool,
    },
    /// Enable a user again; its old tokens stay revoked (for administrators)
    #[command(after_help = "Example:
  fairhold users enable ci --auth-token-file admin")]
    Enable {
        /// Name of the user
        name: String,
    },
}

/// Runs the command.
pub(crate) fn main(args: &UsersArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &UsersArgs) -> Result<(), Failure> {
    let remote = &args.remote;
    let set = |name: &str, disabled: bool, end_sessions: bool| {
        let body = json!({ "disabled": disabled, "end_sessions": end_sessions });
        ApiRequest::change(Method::PUT, format!("/v1/access/users/{}", encode(name))).json(&body)
    };
    match &args.command {
        UsersCommand::Ls { read } => {
            let reply = api.call(&read.apply(ApiRequest::get("/v1/access/users"))).await?;
            print_list(&reply, "users", (&["NAME", "DISABLED", "BY", "AT"], &["name", "disabled", "by", "at"]), remote)
        }
        UsersCommand::Disable { name, end_sessions } => {
            api.call(&set(name, true, *end_sessions)).await?;
            note(remote, &format!("{name} is disabled, and its tokens are revoked"));
            Ok(())
        }
        UsersCommand::Enable { name } => {
            api.call(&set(name, false, false)).await?;
            note(remote, &format!("{name} is enabled; create new tokens for it"));
            Ok(())
        }
    }
}

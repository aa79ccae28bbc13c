//! `fairhold roles`.

use super::print::{note, print_fields, print_list};
use crate::remote::{self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs, request::encode};
use clap::Subcommand;
use fairhold_client::Method;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct RolesArgs {
    #[command(subcommand)]
    command: RolesCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum RolesCommand {
    /// List the roles with their rules (for administrators)
    #[command(after_help = "Example:
  fairhold roles ls --auth-token-file admin")]
    Ls {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show a role (for administrators)
    #[command(after_help = "Example:
  fairhold roles show viewer --auth-token-file admin")]
    Show {
        /// Name of the role
        name: String,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Create a role, or replace its rules (for administrators)
    #[command(after_help = "Example:
  fairhold roles put deployers --rule 'acquire,inspect locks:deploy/**' --rule 'read,write nodes:app/{user}/**'

A rule is verbs, a space, and what they act on: locks:PATTERN, nodes:PATTERN, sessions or cluster. In a pattern * is one level,
** at the end is everything from there on, and {user} is the name of the caller.")]
    Put {
        /// Name of the role
        name: String,
        /// A rule; repeat it for each one
        #[arg(long = "rule", value_name = "RULE", required = true)]
        rules: Vec<String>,
        /// Only if the role was last changed at this revision; 0 if it must not exist
        #[arg(long, value_name = "REVISION")]
        revision: Option<u64>,
    },
    /// Remove a role (for administrators)
    #[command(after_help = "Example:
  fairhold roles rm deployers --force --auth-token-file admin")]
    Rm {
        /// Name of the role
        name: String,
        /// Remove its bindings too
        #[arg(long)]
        force: bool,
        /// Only if the role was last changed at this revision
        #[arg(long, value_name = "REVISION")]
        revision: Option<u64>,
    },
}

/// Runs the command.
pub(crate) fn main(args: &RolesArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &RolesArgs) -> Result<(), Failure> {
    let remote = &args.remote;
    let path = |name: &str| format!("/v1/access/roles/{}", encode(name));
    match &args.command {
        RolesCommand::Ls { read } => {
            let reply = api.call(&read.apply(ApiRequest::get("/v1/access/roles"))).await?;
            print_list(&reply, "roles", (&["NAME", "BUILT IN", "RULES"], &["name", "built_in", "rules"]), remote)
        }
        RolesCommand::Show { name, read } => print_fields(&api.call(&read.apply(ApiRequest::get(path(name)))).await?, remote),
        RolesCommand::Put { name, rules, revision } => {
            let request = ApiRequest::change(Method::PUT, path(name)).json(&json!({ "rules": rules }));
            print_fields(&api.call(&if_at(request, *revision)).await?, remote)
        }
        RolesCommand::Rm { name, force, revision } => {
            let request = ApiRequest::change(Method::DELETE, path(name)).flag("force", *force);
            api.call(&if_at(request, *revision)).await?;
            note(remote, &format!("there is no role {name}"));
            Ok(())
        }
    }
}

/// Makes the request conditional.
pub(super) fn if_at(request: ApiRequest, revision: Option<u64>) -> ApiRequest {
    match revision {
        None => request,
        Some(0) => request.header("if-none-match", "*".to_owned()),
        Some(revision) => request.header("if-match", format!("\"{revision}\"")),
    }
}

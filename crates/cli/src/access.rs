//! The commands about access rights: `fairhold access`, `roles`, `users`, `tokens` and `tenants`.

mod print;
pub(crate) mod roles;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod users;

use crate::remote::{
    self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
    format::{self, OutputFormat, cell},
    reply::ApiReply,
    request::encode,
};
use clap::Subcommand;
use fairhold_client::Method;
use print::{note, print_fields, print_list};
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    command: AccessCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum AccessCommand {
    /// Begin to enforce access rights (for administrators)
    #[command(after_help = "Example:
  fairhold access enable --auth-token-file admin

The cluster refuses it unless a user may change the access data: fairhold access bind admin --to user:NAME")]
    Enable,
    /// Stop to enforce access rights: needs a token of serve --admin-token-file
    #[command(after_help = "Example:
  fairhold access disable --auth-token-file admin")]
    Disable,
    /// Show whether access rights are enforced, and how much data there is (for administrators)
    #[command(after_help = "Example:
  fairhold access status --auth-token-file admin")]
    Status {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the principal and the roles that your credential gives you
    #[command(after_help = "Example:
  fairhold access whoami --auth-token-file ci.token")]
    Whoami,
    /// Check whether somebody may do something, and by which rule: exit with 1 if not
    #[command(after_help = "Examples:
  fairhold access check acquire locks:orders/42
  fairhold access check --as user:ci write nodes:app/ci/** --auth-token-file admin

It works before rights are enforced too.")]
    Check {
        /// Whose rights to check [default: your own]
        #[arg(long = "as", id = "as", value_name = "PRINCIPAL")]
        principal: Option<String>,
        /// Verb, as in a rule
        verb: String,
        /// What it acts on, as in a rule: locks:NAME, nodes:PATH, sessions or cluster
        on: String,
    },
    /// List which subjects have which roles (for administrators)
    #[command(after_help = "Example:
  fairhold access bindings --auth-token-file admin")]
    Bindings {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Give a role to a subject (for administrators)
    #[command(after_help = "Example:
  fairhold access bind deployers --to user:ci --auth-token-file admin")]
    Bind {
        /// Name of the role
        role: String,
        /// A principal such as user:ci, or all whose text begins alike, such as user:*
        #[arg(long = "to", value_name = "SUBJECT")]
        subject: String,
    },
    /// Take a role from a subject (for administrators)
    #[command(after_help = "Example:
  fairhold access unbind deployers --from user:ci --auth-token-file admin")]
    Unbind {
        /// Name of the role
        role: String,
        /// The subject, as it was bound
        #[arg(long = "from", value_name = "SUBJECT")]
        subject: String,
    },
}

/// Runs the command.
pub(crate) fn main(args: &AccessArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &AccessArgs) -> Result<(), Failure> {
    let remote = &args.remote;
    let switch = |what: &str| ApiRequest::change(Method::POST, format!("/v1/access/{what}"));
    match &args.command {
        AccessCommand::Enable => print_fields(&api.call(&switch("enable")).await?, remote),
        AccessCommand::Disable => print_fields(&api.call(&switch("disable")).await?, remote),
        AccessCommand::Status { read } => print_fields(&api.call(&read.apply(ApiRequest::get("/v1/access"))).await?, remote),
        AccessCommand::Whoami => print_fields(&api.call(&ApiRequest::get("/v1/access/whoami")).await?, remote),
        AccessCommand::Check { principal, verb, on } => {
            let body = json!({ "as": principal, "verb": verb, "on": on });
            check(&api.call(&ApiRequest::change(Method::POST, "/v1/access/check").json(&body)).await?, remote)
        }
        AccessCommand::Bindings { read } => {
            let reply = api.call(&read.apply(ApiRequest::get("/v1/access/bindings"))).await?;
            print_list(&reply, "bindings", (&["ROLE", "SUBJECT", "BY", "AT"], &["role", "subject", "by", "at"]), remote)
        }
        AccessCommand::Bind { role, subject } => {
            api.call(&Bind { role, subject }.request(Method::PUT)).await?;
            note(remote, &format!("{subject} has the role {role}"));
            Ok(())
        }
        AccessCommand::Unbind { role, subject } => {
            api.call(&Bind { role, subject }.request(Method::DELETE)).await?;
            note(remote, &format!("{subject} does not have the role {role}"));
            Ok(())
        }
    }
}

/// A binding: the subject has the role.
pub(crate) struct Bind<'a> {
    pub(crate) role: &'a str,
    pub(crate) subject: &'a str,
}

impl Bind<'_> {
    /// The call that puts or deletes it.
    pub(crate) fn request(&self, method: Method) -> ApiRequest {
        ApiRequest::change(method, format!("/v1/access/bindings/{}/{}", encode(self.role), encode(self.subject)))
    }
}

/// Prints the decision. If it is a refusal, the command fails.
fn check(reply: &ApiReply, remote: &RemoteArgs) -> Result<(), Failure> {
    let decision: Value = reply.read()?;
    let allowed = decision["allowed"] == true;
    if OutputFormat::is_body(remote.output) {
        format::write_body(reply)?;
    } else {
        let word = if allowed { "allowed" } else { "denied" };
        format::write(&format!("{word}: {}\n", format::terminal_safe(&cell(&decision, "because"))))?;
    }
    if allowed { Ok(()) } else { Err(Failure::Ended("it is not allowed".to_owned())) }
}

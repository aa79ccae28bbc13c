//! `fairhold tenants`.

use super::{
    print::{note, print_list},
    roles::if_at,
};
use crate::remote::{
    self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
    format::{self, OutputFormat, Table, cell},
    reply::ApiReply,
    request::encode,
};
use clap::Subcommand;
use fairhold_client::Method;
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct TenantsArgs {
    #[command(subcommand)]
    command: TenantsCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum TenantsCommand {
    /// List the tenants (for administrators)
    #[command(after_help = "Example:
  fairhold tenants ls --auth-token-file admin")]
    Ls {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show a tenant with its quotas and their use (for administrators)
    #[command(after_help = "Example:
  fairhold tenants show web --auth-token-file admin")]
    Show {
        /// Name of the tenant
        name: String,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Create a tenant, or replace it completely (for administrators)
    #[command(after_help = "Example:
  fairhold tenants put web --prefix 'locks:web/**' --subject 'k8s:system:serviceaccount:web:*' --contenders 1000 --sessions 200

A quota that is not given is unlimited. A lower quota takes nothing away.")]
    Put(Box<PutTenantArgs>),
    /// Remove a tenant; its nodes and locks stay (for administrators)
    #[command(after_help = "Example:
  fairhold tenants rm web --auth-token-file admin")]
    Rm {
        /// Name of the tenant
        name: String,
        /// Only if the tenant was last changed at this revision
        #[arg(long, value_name = "REVISION")]
        revision: Option<u64>,
    },
}

#[derive(Debug, clap::Args)]
struct PutTenantArgs {
    /// Name of the tenant
    name: String,
    /// Names that belong to it, such as locks:web/** or nodes:web/**; repeat it for each one
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// A principal, or all whose text begins alike, such as user:*; repeat it for each one
    #[arg(long = "subject", value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// Maximum number of nodes, including those of locks
    #[arg(long, value_name = "COUNT")]
    nodes: Option<u64>,
    /// Maximum number of bytes of values
    #[arg(long, value_name = "BYTES")]
    bytes: Option<u64>,
    /// Maximum number of grants, held and queued, counted once in each of their locks
    #[arg(long, value_name = "COUNT")]
    contenders: Option<u64>,
    /// Maximum number of waiters in the queue of one lock
    #[arg(long, value_name = "COUNT")]
    waiters: Option<u64>,
    /// Maximum number of live sessions of its principals
    #[arg(long, value_name = "COUNT")]
    sessions: Option<u64>,
    /// Maximum number of access tokens of its users
    #[arg(long, value_name = "COUNT")]
    tokens: Option<u64>,
    /// Maximum number of requests per second at one server
    #[arg(long, value_name = "COUNT")]
    requests_per_second: Option<u64>,
    /// How many requests a server takes at once after a pause [default: those of one second]
    #[arg(long, value_name = "COUNT")]
    burst: Option<u64>,
    /// Maximum number of requests that wait at one server
    #[arg(long, value_name = "COUNT")]
    waits: Option<u64>,
    /// Maximum number of watches at one server
    #[arg(long, value_name = "COUNT")]
    watches: Option<u64>,
    /// Only if the tenant was last changed at this revision; 0 if it must not exist
    #[arg(long, value_name = "REVISION")]
    revision: Option<u64>,
}

impl PutTenantArgs {
    fn body(&self) -> Value {
        json!({
            "prefixes": self.prefixes,
            "subjects": self.subjects,
            "nodes": self.nodes,
            "bytes": self.bytes,
            "contenders": self.contenders,
            "waiters": self.waiters,
            "sessions": self.sessions,
            "tokens": self.tokens,
            "requests_per_second": self.requests_per_second,
            "burst": self.burst,
            "waits": self.waits,
            "watches": self.watches,
        })
    }
}

/// Runs the command.
pub(crate) fn main(args: &TenantsArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &TenantsArgs) -> Result<(), Failure> {
    let remote = &args.remote;
    let path = |name: &str| format!("/v1/access/tenants/{}", encode(name));
    match &args.command {
        TenantsCommand::Ls { read } => {
            let reply = api.call(&read.apply(ApiRequest::get("/v1/access/tenants"))).await?;
            print_list(&reply, "tenants", (&["NAME", "PREFIXES", "SUBJECTS"], &["name", "prefixes", "subjects"]), remote)
        }
        TenantsCommand::Show { name, read } => print_tenant(&api.call(&read.apply(ApiRequest::get(path(name)))).await?, remote),
        TenantsCommand::Put(put) => {
            let request = ApiRequest::change(Method::PUT, path(&put.name)).json(&put.body());
            print_tenant(&api.call(&if_at(request, put.revision)).await?, remote)
        }
        TenantsCommand::Rm { name, revision } => {
            api.call(&if_at(ApiRequest::change(Method::DELETE, path(name)), *revision)).await?;
            note(remote, &format!("there is no tenant {name}"));
            Ok(())
        }
    }
}

/// Prints the fields of a tenant, and then a row for each quota.
fn print_tenant(reply: &ApiReply, remote: &RemoteArgs) -> Result<(), Failure> {
    if OutputFormat::is_body(remote.output) {
        return format::write_body(reply);
    }
    let tenant: Value = reply.read()?;
    let mut fields = Table::new(&["FIELD", "VALUE"]);
    for name in ["name", "prefixes", "subjects", "counting", "revision", "by", "at"] {
        let texts = tenant[name].as_array().map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "));
        fields.row(vec![name.to_owned(), texts.unwrap_or_else(|| cell(&tenant, name))]);
    }
    let mut quotas = Table::new(&["QUOTA", "LIMIT", "USED"]);
    for (name, quota) in tenant["quotas"].as_object().into_iter().flatten() {
        quotas.row(vec![name.clone(), cell(quota, "limit"), cell(quota, "used")]);
    }
    let format = OutputFormat::resolve(remote.output);
    format::write(&format!("{}{}", fields.take(format), quotas.take(format)))
}

//! `fairhold node`: the tree of nodes, read and written.

use crate::{
    locks::{Fields, PageArgs, list},
    output,
    remote::{
        self, Api, Failure, RemoteArgs, Request,
        api::node_path,
        form::{self, Form, Table, cell},
    },
    watch,
};
use clap::Subcommand;
use fairhold_types::duration;
use reqwest::Method;
use serde_json::Value;
use std::{
    io::{self, Read as _},
    process::ExitCode,
    time::Duration,
};

/// What `node` was told.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Write a node's value to standard output, byte for byte
    Get {
        /// Its path, like /jobs/7
        path: String,
    },
    /// Set a node's value; it is created where it does not exist
    Put(PutArgs),
    /// Create a node that must not exist yet
    Create {
        /// What and how.
        #[command(flatten)]
        put: PutArgs,
        /// Create a child of PATH with a number at the end of its name, and print its path
        #[arg(long)]
        sequential: bool,
        /// What the name of a sequential node begins with
        #[arg(long, requires = "sequential", value_name = "PREFIX")]
        name: Option<String>,
    },
    /// Remove a node
    Rm {
        /// Its path
        path: String,
        /// With all below it
        #[arg(short, long)]
        recursive: bool,
        /// Only if it has this version
        #[arg(long)]
        version: Option<i32>,
        /// Only while this fencing token is that of a holder
        #[arg(long, value_name = "LOCK=TOKEN")]
        fence: Option<String>,
    },
    /// List a node's children
    Ls {
        /// Its path
        #[arg(default_value = "/")]
        path: String,
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
    },
    /// List all nodes below one
    Tree {
        /// Its path
        #[arg(default_value = "/")]
        path: String,
        /// The page to show.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show a node's stat
    Stat {
        /// Its path
        path: String,
    },
    /// Follow the changes of a node and of all below it
    Watch {
        /// Its path
        path: String,
        /// From this revision on, inclusive
        #[arg(long, value_name = "REVISION")]
        from: Option<u64>,
    },
}

#[derive(Debug, clap::Args)]
struct PutArgs {
    /// Its path, like /jobs/7
    path: String,
    /// The value; - or none reads standard input
    value: Option<String>,
    /// Create what is missing above it
    #[arg(long)]
    parents: bool,
    /// Only if it has this version
    #[arg(long)]
    version: Option<i32>,
    /// Only while this fencing token is that of a holder
    #[arg(long, value_name = "LOCK=TOKEN")]
    fence: Option<String>,
    /// Let it live and die with this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Let it go when it was not changed for so long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
}

/// Asks and writes.
pub(crate) fn main(args: &NodeArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &NodeArgs) -> Result<(), Failure> {
    let asked = args.remote.output;
    match &args.command {
        NodeCommand::Get { path } => {
            let reply = api.call(&Request::get(node_path(path))).await?;
            Ok(output::unless_closed(output::write_bytes(&reply.body))?)
        }
        NodeCommand::Put(put) => write(api, put, Request::change(Method::PUT, node_path(&put.path)), asked).await,
        NodeCommand::Create { put, sequential: true, name } => {
            let request = Request::change(Method::POST, node_path(&put.path)).flag("sequential", true);
            write(api, put, request.parameter("name", name.as_ref()), asked).await
        }
        NodeCommand::Create { put, sequential: false, .. } => {
            let request = Request::change(Method::PUT, node_path(&put.path)).header("if-none-match", "*".to_owned());
            write(api, put, request, asked).await
        }
        NodeCommand::Rm { path, recursive, version, fence } => {
            let request = Request::change(Method::DELETE, node_path(path)).flag("recursive", *recursive);
            api.call(&conditions(request, *version, fence.as_ref())).await.map(|_| ())
        }
        NodeCommand::Ls { path, page } => {
            let request = Request::get(node_path(path)).flag("children", true).flag("meta", true);
            list(api, &request, page, asked, &STATS).await
        }
        NodeCommand::Tree { path, page } => {
            let request = Request::get(node_path(path)).flag("recursive", true).flag("meta", true);
            list(api, &request, page, asked, &STATS).await
        }
        NodeCommand::Stat { path } => {
            let reply = api.call(&Request::get(node_path(path)).flag("meta", true)).await?;
            if asked == Some(Form::Json) || asked == Some(Form::Ndjson) {
                return form::write_body(&reply);
            }
            let stat: Value = reply.read()?;
            let mut table = Table::new(&["FIELD", "VALUE"]);
            for name in stat.as_object().into_iter().flatten().map(|(name, _)| name) {
                table.row(vec![name.clone(), cell(&stat, name)]);
            }
            form::write(&table.text(Form::of(asked)))
        }
        NodeCommand::Watch { path, from } => {
            let watch = remote::client(&args.remote.connect, None)?.watch().tree(path);
            watch::follow(watch::beginning(watch, *from), asked).await
        }
    }
}

const STATS: Fields = Fields(
    &["PATH", "VERSION", "BYTES", "CHILDREN", "OWNER", "CHANGED AT"],
    &["path", "version", "data_length", "num_children", "ephemeral_owner", "mtime"],
);

fn conditions(request: Request, version: Option<i32>, fence: Option<&String>) -> Request {
    let request = match version {
        Some(version) => request.header("if-match", format!("\"{version}\"")),
        None => request,
    };
    match fence {
        Some(fence) => request.header("fairhold-fence", fence.clone()),
        None => request,
    }
}

async fn write(api: &Api, put: &PutArgs, request: Request, asked: Option<Form>) -> Result<(), Failure> {
    let value = match put.value.as_deref() {
        None | Some("-") => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes)?;
            bytes
        }
        Some(text) => text.as_bytes().to_vec(),
    };
    let request = request.flag("parents", put.parents).parameter("session", put.session.as_ref());
    let request = request.parameter("ttl", put.ttl.map(duration::format)).body(value);
    let reply = api.call(&conditions(request, put.version, put.fence.as_ref())).await?;
    if asked == Some(Form::Json) || asked == Some(Form::Ndjson) {
        return form::write_body(&reply);
    }
    let written: Value = reply.read()?;
    let mut table = Table::new(&["PATH", "VERSION", "REVISION"]);
    table.row(vec![cell(&written, "path"), cell(&written, "version"), cell(&written, "revision")]);
    form::write(&table.text(Form::of(asked)))
}

//! `fairhold node`: reads and writes the tree of nodes.

use crate::{
    output,
    pages::{PageArgs, PageFields, list, show_one},
    remote::{
        self, Api, ApiRequest, Failure, LongPollArgs, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell},
        request::node_path,
    },
    watch,
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_types::duration;
use serde_json::Value;
use std::{
    io::{self, Read as _},
    process::ExitCode,
    time::Duration,
};

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
    #[command(after_help = "Examples:
  fairhold node get /app/config
  fairhold node get /app/config --wait 10m     wait for the next write")]
    Get {
        /// Path of the node, such as /jobs/7
        path: String,
        #[command(flatten)]
        long_poll: LongPollArgs,
    },
    /// Set a node's value; create the node if it does not exist
    #[command(after_help = "Examples:
  fairhold node put /app/config --parents v1
  fairhold node put /app/config --version 3 --fence deploy=42 v2")]
    Put(PutArgs),
    /// Create a node that must not exist yet
    #[command(after_help = "Examples:
  fairhold node create /workers/3 --session 5f2b0c6e9d8a4b1f9c3e7a6d5b4c3d2e n7
  fairhold node create /jobs --sequential --name task- --parents payload")]
    Create {
        #[command(flatten)]
        put: PutArgs,
        /// Create a child of PATH whose name ends in a sequence number, and print its path
        #[arg(long)]
        sequential: bool,
        /// Start the name of the sequential node with this prefix
        #[arg(long, requires = "sequential", value_name = "PREFIX")]
        name: Option<String>,
    },
    /// Remove a node
    #[command(after_help = "Example:
  fairhold node rm -r /jobs")]
    Rm {
        /// Path of the node
        path: String,
        /// Remove all nodes below it too
        #[arg(short, long)]
        recursive: bool,
        /// Remove it only if it has this version
        #[arg(long)]
        version: Option<i32>,
        /// Remove it only while a holder has this fencing token; append ;grant=ID to select one shared holder
        #[arg(long, value_name = "LOCK=TOKEN")]
        fence: Option<String>,
    },
    /// List a node's children
    #[command(after_help = "Example:
  fairhold node ls /jobs")]
    #[command(alias = "list")]
    Ls {
        /// Path of the node
        #[arg(default_value = "/")]
        path: String,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        long_poll: LongPollArgs,
    },
    /// List all nodes below a node
    #[command(after_help = "Example:
  fairhold node tree /app")]
    Tree {
        /// Path of the node
        #[arg(default_value = "/")]
        path: String,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        long_poll: LongPollArgs,
    },
    /// Show the metadata of a node
    #[command(after_help = "Example:
  fairhold node stat /app/config")]
    Stat {
        /// Path of the node
        path: String,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Print changes of a node and of all nodes below it as they happen
    #[command(after_help = "Example:
  fairhold node watch /app -o ndjson")]
    Watch {
        /// Path of the node
        path: String,
        /// Start at this revision, inclusive [default: now]
        #[arg(long, value_name = "REVISION")]
        from: Option<u64>,
    },
}

#[derive(Debug, clap::Args)]
struct PutArgs {
    /// Path of the node, such as /jobs/7
    path: String,
    /// New value; if it is missing or -, the command reads standard input
    value: Option<String>,
    /// Create missing parents
    #[arg(long)]
    parents: bool,
    /// Write only if it has this version
    #[arg(long)]
    version: Option<i32>,
    /// Write only if it exists
    #[arg(long, conflicts_with = "version")]
    exists: bool,
    /// Write only while a holder has this fencing token; append ;grant=ID to select one shared holder
    #[arg(long, value_name = "LOCK=TOKEN")]
    fence: Option<String>,
    /// Make it ephemeral: it is removed when this session ends
    #[arg(long, value_name = "ID", conflicts_with_all = ["ttl", "container"])]
    session: Option<String>,
    /// Remove it when it has not changed for this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "container")]
    ttl: Option<Duration>,
    /// Make it a container: it is removed some time after its last child is removed
    #[arg(long)]
    container: bool,
}

/// Runs the command.
pub(crate) fn main(args: &NodeArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &NodeArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    match &args.command {
        NodeCommand::Get { path, long_poll } => {
            let reply = api.call(&long_poll.apply(ApiRequest::get(node_path(path)))).await?;
            Ok(output::unless_closed(output::write_bytes(&reply.body))?)
        }
        NodeCommand::Put(put) => write(api, put, ApiRequest::change(Method::PUT, node_path(&put.path)), requested).await,
        NodeCommand::Create { put, sequential: true, name } => {
            if put.version.is_some() || put.exists || put.container {
                let why = "a sequential node is always new and cannot be a container: leave out --version, --exists and \
                           --container";
                return Err(Failure::Usage(why.to_owned()));
            }
            let request = ApiRequest::change(Method::POST, node_path(&put.path)).flag("sequential", true);
            write(api, put, request.parameter("name", name.as_ref()), requested).await
        }
        NodeCommand::Create { put, sequential: false, .. } => {
            if put.version.is_some() || put.exists {
                let why = "create needs a path that does not exist: leave out --version and --exists, or use put";
                return Err(Failure::Usage(why.to_owned()));
            }
            let request = ApiRequest::change(Method::PUT, node_path(&put.path)).header("if-none-match", "*".to_owned());
            write(api, put, request, requested).await
        }
        NodeCommand::Rm { path, recursive, version, fence } => {
            let request = ApiRequest::change(Method::DELETE, node_path(path)).flag("recursive", *recursive);
            api.call(&conditions(request, *version, false, fence.as_ref())).await.map(|_| ())
        }
        NodeCommand::Ls { path, page, long_poll } => {
            let request = ApiRequest::get(node_path(path)).flag("children", true).flag("meta", true);
            list(api, &long_poll.apply(request), page, requested, &STATS).await.map(|_| ())
        }
        NodeCommand::Tree { path, page, long_poll } => {
            let request = ApiRequest::get(node_path(path)).flag("recursive", true).flag("meta", true);
            list(api, &long_poll.apply(request), page, requested, &STATS).await.map(|_| ())
        }
        NodeCommand::Stat { path, read } => {
            let reply = api.call(&read.apply(ApiRequest::get(node_path(path)).flag("meta", true))).await?;
            if OutputFormat::is_body(requested) {
                return format::write_body(&reply);
            }
            let stat: Value = reply.read()?;
            let mut table = Table::new(&["FIELD", "VALUE"]);
            for name in stat.as_object().into_iter().flatten().map(|(name, _)| name) {
                table.row(vec![name.clone(), cell(&stat, name)]);
            }
            format::write(&table.take(OutputFormat::resolve(requested)))
        }
        NodeCommand::Watch { path, from } => {
            let client = remote::client(&args.remote.connect, None)?;
            let following = watch::follow(watch::starting_at(client.watch().tree(path), *from), requested, false);
            remote::unless_other_cluster(&client, args.remote.connect.timeout, following).await
        }
    }
}

const STATS: PageFields = PageFields(
    &["PATH", "VERSION", "BYTES", "CHILDREN", "OWNER", "CHANGED AT"],
    &["path", "version", "data_length", "num_children", "ephemeral_owner", "mtime"],
);

fn conditions(request: ApiRequest, version: Option<i32>, exists: bool, fence: Option<&String>) -> ApiRequest {
    let request = match (version, exists) {
        (Some(version), _) => request.header("if-match", format!("\"{version}\"")),
        (None, true) => request.header("if-match", "*".to_owned()),
        (None, false) => request,
    };
    match fence {
        Some(fence) => request.header("fairhold-fence", fence.clone()),
        None => request,
    }
}

async fn write(api: &Api, put: &PutArgs, request: ApiRequest, requested: Option<OutputFormat>) -> Result<(), Failure> {
    let value = match put.value.as_deref() {
        None | Some("-") => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes)?;
            bytes
        }
        Some(text) => text.as_bytes().to_vec(),
    };
    let request = request.flag("parents", put.parents).parameter("session", put.session.as_ref());
    let request = request.parameter("ttl", put.ttl.map(duration::format)).flag("container", put.container).body(value);
    let reply = api.call(&conditions(request, put.version, put.exists, put.fence.as_ref())).await?;
    show_one(&reply, requested, &PageFields(&["PATH", "VERSION", "REVISION"], &["path", "version", "revision"]))
}

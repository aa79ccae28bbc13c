//! Options of all commands that ask a cluster.

use super::{failure::Failure, form::OutputFormat, request::ApiRequest};
use fairhold_types::ClusterId;
use std::{fs, path::PathBuf, time::Duration};

/// Where the cluster is, and how patient to be.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct ConnectArgs {
    /// A node's URL for clients; repeat -e, or separate several with commas, to try them in turn
    #[arg(
        short,
        long,
        global = true,
        value_name = "URL",
        env = "FAIRHOLD_ENDPOINT",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7171"
    )]
    pub(crate) endpoint: Vec<String>,

    /// Accept only the cluster with this id [default: the first cluster that answers]
    #[arg(long, global = true, value_name = "ID", env = "FAIRHOLD_CLUSTER_ID")]
    pub(crate) cluster_id: Option<ClusterId>,

    /// How long to try for an answer
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = fairhold_types::duration::parse)]
    pub(crate) timeout: Duration,

    /// The file with the administrators' token
    #[arg(long, global = true, value_name = "FILE", env = "FAIRHOLD_AUTH_TOKEN_FILE")]
    pub(crate) auth_token_file: Option<PathBuf>,

    /// Print only errors on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

impl ConnectArgs {
    /// The token, where there is a file of it.
    pub(crate) fn auth_token(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.auth_token_file else { return Ok(None) };
        let unusable = |why: String| Failure::Usage(format!("--auth-token-file {}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        match text.trim() {
            "" => Err(unusable("it is empty".to_owned())),
            token => Ok(Some(token.to_owned())),
        }
    }
}

/// The same, and how answers are written.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RemoteArgs {
    /// The cluster.
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,

    /// The output format [default: table on a terminal, otherwise plain]
    #[arg(short, long, global = true, value_enum)]
    pub(crate) output: Option<OutputFormat>,
}

/// How fresh an answer has to be.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The answer")]
pub(crate) struct ReadArgs {
    /// Read the node's own state without asking the leader: it may be slightly out of date
    #[arg(long)]
    pub(crate) local: bool,
    /// Wait until the node has this revision, from an earlier answer
    #[arg(long, value_name = "REVISION")]
    pub(crate) min_revision: Option<u64>,
}

impl ReadArgs {
    /// Adds it to a read.
    pub(crate) fn of(&self, request: ApiRequest) -> ApiRequest {
        let request = request.parameter("consistency", self.local.then_some("local"));
        match self.min_revision {
            Some(revision) => request.header("fairhold-min-revision", revision.to_string()),
            None => request,
        }
    }
}

/// The same, and whether to wait for something newer.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The answer")]
pub(crate) struct NewsArgs {
    /// Wait at most this long for a change; exits with 1 if there is none
    #[arg(short, long, value_name = "DURATION", value_parser = fairhold_types::duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Wait for a change after this revision, from an earlier answer
    #[arg(long, value_name = "REVISION")]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl NewsArgs {
    /// Adds it to a read.
    pub(crate) fn of(&self, request: ApiRequest) -> ApiRequest {
        self.read.of(request.wait(self.wait).after(self.after))
    }
}

/// Reads `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected KEY=VALUE, as in build=81".to_owned()),
    }
}

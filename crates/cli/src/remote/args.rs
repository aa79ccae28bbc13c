//! The options of all commands that call a cluster.

use super::{failure::Failure, format::OutputFormat, request::ApiRequest};
use crate::token_name::is_token;
use fairhold_client::{Client, ClientBuilder};
use fairhold_types::{ClusterId, trace_context::TraceParent};
use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The node of `fairhold dev` and of a node on this machine with the usual port.
pub(super) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7171";

/// The environment variable with the caller's span.
const TRACEPARENT_VARIABLE: &str = "TRACEPARENT";

/// Which nodes to call, and how long to try.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct ConnectArgs {
    /// Call the node at this URL; repeat -e or separate URLs with commas to try them in turn
    #[arg(
        short,
        long,
        global = true,
        value_name = "URL",
        env = "FAIRHOLD_ENDPOINT",
        value_delimiter = ',',
        default_value = DEFAULT_ENDPOINT
    )]
    pub(crate) endpoint: Vec<String>,

    /// Accept answers only from the cluster with this id [default: the first cluster that answers]
    #[arg(long, global = true, value_name = "ID", env = "FAIRHOLD_CLUSTER_ID")]
    pub(crate) cluster_id: Option<ClusterId>,

    /// Try for at most this long to get an answer
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = fairhold_types::duration::parse)]
    pub(crate) timeout: Duration,

    /// Read the token of a user or of administrators from this file
    #[arg(long, global = true, value_name = "FILE", env = "FAIRHOLD_AUTH_TOKEN_FILE")]
    pub(crate) auth_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// Print only errors on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more details on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// TLS to nodes with https:// URLs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsArgs {
    /// Trust only servers with certificates from an authority in this file [default: the system's]
    #[arg(long, global = true, value_name = "FILE", env = "FAIRHOLD_CACERT")]
    pub(crate) cacert: Option<PathBuf>,

    /// Show this certificate to servers with TLS; needs --key
    #[arg(long, global = true, value_name = "FILE", env = "FAIRHOLD_CERT")]
    pub(crate) cert: Option<PathBuf>,

    /// Use the private key in this file for --cert
    #[arg(long, global = true, value_name = "FILE", env = "FAIRHOLD_KEY")]
    pub(crate) key: Option<PathBuf>,
}

impl TlsArgs {
    /// The certificate and its key.
    pub(crate) fn pair(&self) -> Result<Option<(&Path, &Path)>, Failure> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(Failure::Usage("--cert is given without --key: pass the file of its private key".to_owned())),
            (None, Some(_)) => Err(Failure::Usage("--key is given without --cert: pass the file of its certificate".to_owned())),
        }
    }
}

impl ConnectArgs {
    /// A builder of the Rust client for this cluster.
    pub(crate) fn client_builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder();
        if let Some(parent) = trace_parent(env::var(TRACEPARENT_VARIABLE).ok().as_deref()) {
            builder = builder.trace_parent(parent);
        }
        for url in self.urls()? {
            builder = builder.endpoint(url);
        }
        if let Some(cluster) = self.cluster_id {
            builder = builder.cluster_id(cluster);
        }
        if let Some(file) = &self.auth_token_file {
            refuse_token(file)?;
            builder = builder.auth_token_file(file);
        }
        if let Some(ca) = &self.tls.cacert {
            builder = builder.ca_certificate(ca);
        }
        if let Some((cert, key)) = self.tls.pair()? {
            builder = builder.client_certificate(cert, key);
        }
        Ok(builder)
    }

    /// The endpoints as complete URLs.
    pub(crate) fn urls(&self) -> Result<Vec<String>, Failure> {
        self.endpoint.iter().map(|url| endpoint(url)).collect()
    }

    /// The token, if a file is given.
    pub(crate) fn auth_token(&self) -> Result<Option<String>, Failure> {
        self.auth_token_file.as_deref().map(read_token).transpose()
    }
}

/// The span of the program that runs this command, by the convention of OpenTelemetry. A value that is not valid counts as
/// none: a command must not fail because of its trace.
fn trace_parent(variable: Option<&str>) -> Option<TraceParent> {
    variable?.parse().ok()
}

/// Refuses a token in the place of the file's name, without repeating it.
fn refuse_token(file: &Path) -> Result<(), Failure> {
    if is_token(file) {
        let why = "--auth-token-file: pass the name of a file that has the token, not the token itself";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(())
}

/// Reads a token from a file. The first line counts: the file of a node's administrators may have several.
pub(crate) fn read_token(path: &Path) -> Result<String, Failure> {
    refuse_token(path)?;
    let unusable = |why: String| Failure::Usage(format!("--auth-token-file {}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.map(str::to_owned).ok_or_else(|| unusable("it is empty".to_owned()))
}

/// The connection, and the output format.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RemoteArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,

    /// Print in this format [default: table on a terminal, otherwise plain]
    #[arg(short, long, global = true, value_enum)]
    pub(crate) output: Option<OutputFormat>,
}

/// How fresh an answer must be.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The answer")]
pub(crate) struct ReadArgs {
    /// Read the node's own state, which may be slightly stale, without asking the leader
    #[arg(long)]
    pub(crate) local: bool,
    /// Wait until the node has applied this revision, taken from an earlier answer
    #[arg(long, value_name = "REVISION")]
    pub(crate) min_revision: Option<u64>,
}

impl ReadArgs {
    /// Adds these options to a read.
    pub(crate) fn apply(&self, request: ApiRequest) -> ApiRequest {
        let request = request.parameter("consistency", self.local.then_some("local"));
        match self.min_revision {
            Some(revision) => request.header("fairhold-min-revision", revision.to_string()),
            None => request,
        }
    }
}

/// A read that can wait for a change.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The answer")]
pub(crate) struct LongPollArgs {
    /// Wait at most this long for a change; exit with 1 if there is none
    #[arg(short, long, value_name = "DURATION", value_parser = fairhold_types::duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Wait for a change after this revision, taken from an earlier answer
    #[arg(long, value_name = "REVISION")]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl LongPollArgs {
    /// Adds these options to a read.
    pub(crate) fn apply(&self, request: ApiRequest) -> ApiRequest {
        self.read.apply(request.wait(self.wait).after(self.after))
    }
}

/// Completes a URL as most people type it, and checks it.
pub(crate) fn endpoint(url: &str) -> Result<String, Failure> {
    let trimmed = url.trim().trim_end_matches('/');
    let full = if url.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
    match reqwest::Url::parse(&full) {
        Ok(parsed)
            if ["http", "https"].contains(&parsed.scheme())
                && parsed.has_host()
                && parsed.path() == "/"
                && !full.contains('#') =>
        {
            Ok(full)
        }
        Ok(_) | Err(_) => {
            Err(Failure::Usage(format!("--endpoint {url}: expected http://HOST:PORT or https://HOST:PORT, without a path")))
        }
    }
}

/// Parses `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected KEY=VALUE, such as build=81".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_in_the_environment_that_is_not_valid_counts_as_none() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_parent(Some(valid)).map(|parent| parent.to_string()).as_deref(), Some(valid));
        for wrong in [None, Some(""), Some("nonsense"), Some("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01")] {
            assert_eq!(trace_parent(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for url in ["http://a:1", "http://a:1/", "a:1", " a:1 "] {
            assert_eq!(endpoint(url).unwrap(), "http://a:1", "{url}");
        }
        assert_eq!(endpoint("https://a:1/").unwrap(), "https://a:1");
        for url in ["", "https://", "http://a:1/x", "ftp://a"] {
            assert_eq!(endpoint(url).unwrap_err().code(), 2, "{url}");
        }
    }
}

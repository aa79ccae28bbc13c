//! What all commands that call a cluster share: the connection, the output formats, failures and their exit codes.

mod api;
mod args;
pub(crate) mod failure;
pub(crate) mod format;
mod other_cluster;
pub(crate) mod reply;
pub(crate) mod request;

pub(crate) use api::Api;
pub(crate) use args::{ConnectArgs, LongPollArgs, ReadArgs, RemoteArgs, TlsArgs, endpoint, pair, read_token};
pub(crate) use failure::Failure;
pub(crate) use other_cluster::unless_other_cluster;
pub(crate) use request::ApiRequest;

use fairhold_client::Client;
use std::process::ExitCode;

/// The Rust client. Needs a runtime.
pub(crate) fn client(connect: &ConnectArgs, owner: Option<String>) -> Result<Client, Failure> {
    let mut builder = connect.client_builder()?.timeout(connect.timeout);
    if let Some(owner) = owner {
        builder = builder.owner(owner);
    }
    builder.build().map_err(|error| Failure::Usage(error.to_string()))
}

/// Runs a command's calls on a single-threaded runtime. Work that is left behind, such as a DNS lookup in progress,
/// does not delay the exit.
pub(crate) fn run(remote: &RemoteArgs, work: impl AsyncFnOnce(&Api) -> Result<(), Failure>) -> ExitCode {
    let done = (|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(async { work(&Api::new(&remote.connect)?).await });
        runtime.shutdown_background();
        done
    })();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(remote.output == Some(format::OutputFormat::Json)),
    }
}

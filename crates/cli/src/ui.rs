//! `fairhold ui`: prints the address of the dashboard.

use crate::remote::{self, ApiRequest, ConnectArgs, RemoteArgs, format};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "It prints the address of the first node that serves the page. It opens no browser.

Example:
  fairhold ui -e http://n2:7171")]
pub(crate) struct UiArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub(crate) fn main(args: &UiArgs) -> ExitCode {
    let remote = RemoteArgs { connect: args.connect.clone(), output: None };
    remote::run(&remote, async |api| {
        let page = api.call(&ApiRequest::get("/ui/")).await?;
        format::write(&format!("{}/ui/\n", page.endpoint.trim_end_matches('/')))
    })
}

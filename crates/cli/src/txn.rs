//! `fairhold txn`: conditions and operations from a file, in one transaction.

use crate::remote::{
    self, ApiRequest, Failure, RemoteArgs,
    format::{self, OutputFormat, cell},
};
use fairhold_client::Method;
use serde_json::Value;
use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
    process::ExitCode,
};

/// The conditions did not hold.
const EXIT_ELSE: u8 = 1;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the conditions held (`then` ran); 1 they did not (`else` ran), or the transaction was refused.

Example:
  fairhold txn -f change.json

change.json: all or nothing, in one step, at one revision
  {\"if\":   [{\"path\": \"/jobs/7\", \"version\": 3}, {\"fence\": {\"lock\": \"deploy\", \"token\": 42}}],
   \"then\": [{\"put\": {\"path\": \"/jobs/7\", \"value\": \"done\"}}, {\"delete\": {\"path\": \"/jobs/7/owner\"}}],
   \"else\": [{\"create\": {\"path\": \"/late\", \"sequential\": true}}]}"
)]
pub(crate) struct TxnArgs {
    /// Read the transaction from this JSON file; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub(crate) fn main(args: &TxnArgs) -> ExitCode {
    let mut succeeded = true;
    let code = remote::run(&args.remote, async |api| {
        let mut body = Vec::new();
        if args.file.as_os_str() == "-" {
            io::stdin().lock().read_to_end(&mut body)?;
        } else {
            let unusable = |error| Failure::Usage(format!("--file {}: {error}", args.file.display()));
            body = fs::read(&args.file).map_err(unusable)?;
        }
        let request = ApiRequest::change(Method::POST, "/v1/txn").header("content-type", "application/json".to_owned());
        let reply = api.call(&request.body(body)).await?;
        let answer: Value = reply.read()?;
        succeeded = answer["succeeded"] == true;
        match OutputFormat::resolve(args.remote.output) {
            OutputFormat::Json | OutputFormat::Ndjson => format::write_body(&reply),
            OutputFormat::Table | OutputFormat::Plain => {
                let done = if succeeded { "then" } else { "else" };
                format::write(&format!("{done}\trevision {}\n", format::terminal_safe(&cell(&answer, "revision"))))
            }
        }
    });
    if succeeded { code } else { ExitCode::from(EXIT_ELSE) }
}

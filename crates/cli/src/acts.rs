//! `fairhold audit`: the administrative acts of a cluster, and the verification of an export.

mod export;
mod verify;

use crate::{
    output,
    remote::{
        self, Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell},
        reply::ApiReply,
    },
};
use clap::Subcommand;
use fairhold_state::audit::ChainHash;
use fairhold_types::duration;
use serde_json::Value;
use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

#[derive(Debug, clap::Args)]
pub(crate) struct ActsArgs {
    #[command(subcommand)]
    command: ActsCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum ActsCommand {
    /// List the administrative acts (for administrators and auditors)
    #[command(after_help = "Examples:
  fairhold audit ls --newest --limit 20
  fairhold audit ls --principal user:ci --verb break
  fairhold audit ls --from 42 --wait 5m         # waits for act 42")]
    Ls {
        /// Begin with this sequence number
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Show only acts of this principal
        #[arg(long, value_name = "PRINCIPAL")]
        principal: Option<String>,
        /// Show only acts with this verb
        #[arg(long, value_name = "VERB")]
        verb: Option<String>,
        /// Show the newest acts instead of the first ones
        #[arg(long)]
        newest: bool,
        /// Show at most this many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Continue after this sequence number
        #[arg(long, value_name = "SEQ")]
        cursor: Option<u64>,
        /// Wait at most this long for an act that fits; exit with 1 if there is none
        #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
        wait: Option<Duration>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Write all kept acts with their hashes, for `fairhold audit verify` (for administrators and auditors)
    #[command(after_help = "Example:
  fairhold audit export --out audit-2026-11-27.ndjson

Keep the head that it prints in another place: it proves later that nothing was altered or cut.")]
    Export {
        /// Write to this file [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Verify an export, offline: exit with 1 if it was altered or cut
    #[command(after_help = "Example:
  fairhold audit verify audit-2026-11-27.ndjson --head 90b9f254d9630f4ebaead03bc7fdaf375e2fb80b6114ae5bbe4505dbfe373afe")]
    Verify {
        /// The export
        file: PathBuf,
        /// The export must have the entry with this hash
        #[arg(long, value_name = "HASH")]
        head: Option<ChainHash>,
    },
}

/// Runs the command.
pub(crate) fn main(args: &ActsArgs) -> ExitCode {
    if let ActsCommand::Verify { file, head } = &args.command {
        return match verify_file(file, *head) {
            Ok(text) => match format::write(&text) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.exit(false),
            },
            Err(failure) => failure.exit(false),
        };
    }
    remote::run(&args.remote, async |api| run(api, args).await)
}

fn verify_file(file: &PathBuf, head: Option<ChainHash>) -> Result<String, Failure> {
    let named = |why: String| Failure::Ended(format!("{}: {why}", file.display()));
    let bytes = fs::read(file).map_err(|error| named(error.to_string()))?;
    Ok(verify::verify(&bytes, head).map_err(named)?.to_string())
}

async fn run(api: &Api, args: &ActsArgs) -> Result<(), Failure> {
    match &args.command {
        ActsCommand::Ls { from, principal, verb, newest, limit, cursor, wait, read } => {
            let request = ApiRequest::get(export::PATH).parameter("from", *from).parameter("principal", principal.as_ref());
            let request = request.parameter("verb", verb.as_ref()).flag("newest", *newest).parameter("limit", *limit);
            let request = read.apply(request.parameter("cursor", *cursor).wait(*wait));
            list(&api.call(&request).await?, &args.remote)
        }
        ActsCommand::Export { out, read } => {
            let exported = export::export(api, read).await?;
            match out {
                Some(file) => export::write(file, &exported.bytes)?,
                None => output::unless_closed(output::write_bytes(&exported.bytes))?,
            }
            if !args.remote.connect.quiet {
                output::note(&exported.summary);
            }
            Ok(())
        }
        ActsCommand::Verify { .. } => unreachable!("it needs no cluster"),
    }
}

fn list(reply: &ApiReply, remote: &RemoteArgs) -> Result<(), Failure> {
    if OutputFormat::is_body(remote.output) {
        return format::write_body(reply);
    }
    let mut table = Table::new(&["SEQ", "TIME", "PRINCIPAL", "ADDRESS", "VERB", "ON", "DETAIL", "RESULT", "REASON"]);
    let fields = ["seq", "time", "principal", "address", "verb", "on", "detail", "result", "reason"];
    for line in reply.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = ApiReply { body: line.to_vec(), endpoint: String::new() }.read()?;
        table.row(fields.iter().map(|field| cell(&line, field)).collect());
    }
    format::write(&table.take(OutputFormat::resolve(remote.output)))
}

//! `fairhold doctor`: checks a cluster from outside, and suggests a fix for each problem. It changes nothing, and needs
//! no quorum.
//!
//! `crate::probe` collects the facts, `fairhold_health` evaluates them, and `report` prints the findings.

pub(crate) mod args;
mod bundle;
mod redaction;
mod report;

use crate::{
    doctor::args::{DoctorArgs, DoctorOutput},
    exit,
    local_http::client_for,
    probe,
    remote::read_token,
};
use fairhold_health::{
    finding::{Grade, worst},
    rules,
};
use std::process::ExitCode;

/// Runs the command. Warnings alone are not a failure: they are for people, and must not trigger an alert.
pub(crate) fn main(args: &DoctorArgs) -> ExitCode {
    if let Some(Err(error)) = args.bundle.as_deref().map(bundle::check_free) {
        return exit::with_error(exit::USAGE, &error);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::with_error(exit::FAILURE, &error),
    };
    let token = match args.auth_token_file.as_deref().map(read_token).transpose() {
        Ok(token) => token,
        Err(failure) => return failure.exit(false),
    };
    let client = match client_for(&args.endpoint, args.timeout, &args.tls, token) {
        Ok(client) => client,
        Err(failure) => return failure.exit(false),
    };
    let mut seen = runtime.block_on(probe::full(&client, &args.endpoint, args.timeout));
    if args.digest {
        seen.digests = Some(runtime.block_on(probe::digests::collect(&client, &seen)));
    }
    let findings = rules::evaluate(&seen);
    let written = args.bundle.as_deref().map(|file| runtime.block_on(bundle::write(file, args, &client, (&seen, &findings))));
    runtime.shutdown_background();
    let text = match args.output {
        DoctorOutput::Table => report::table(&findings),
        DoctorOutput::Json => report::json(&findings),
    };
    if let Err(error) = crate::output::unless_closed(crate::output::write_stdout(&text)) {
        return exit::with_error(exit::FAILURE, &error);
    }
    if let Some(Err(error)) = written {
        return exit::with_error(exit::FAILURE, &error);
    }
    if seen.answering().next().is_none() {
        return ExitCode::from(exit::UNAVAILABLE);
    }
    match worst(&findings) {
        Grade::Ok | Grade::Warn => ExitCode::SUCCESS,
        Grade::Fail => ExitCode::from(exit::FAILURE),
    }
}

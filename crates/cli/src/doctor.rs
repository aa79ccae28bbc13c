//! `fairhold doctor`: checks a cluster from outside, and suggests a fix for each problem. It changes nothing, and needs no quorum.
//!
//! `crate::probe` collects the facts, `rules` evaluates them without any I/O, and `report` prints the findings.

pub(crate) mod args;
mod finding;
mod judge;
mod show;

use crate::{
    doctor::args::{DoctorArgs, DoctorOutput},
    exit,
    look::ClusterLook,
};
use finding::{Grade, worst};
use std::process::ExitCode;

/// Runs the command. Warnings alone are not a failure: they are for people, and must not trigger an alert.
pub(crate) fn main(args: &DoctorArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(exit::FAILURE, &error),
    };
    let seen = runtime.block_on(ClusterLook::look(&args.endpoint, args.timeout));
    runtime.shutdown_background();
    let findings = judge::judge(&seen);
    let text = match args.output {
        DoctorOutput::Table => show::table(&findings),
        DoctorOutput::Json => show::json(&findings),
    };
    if let Err(error) = crate::output::unless_closed(crate::output::write_stdout(&text)) {
        return exit::failed(exit::FAILURE, &error);
    }
    if seen.answering().next().is_none() {
        return ExitCode::from(exit::UNAVAILABLE);
    }
    match worst(&findings) {
        Grade::Ok | Grade::Warn => ExitCode::SUCCESS,
        Grade::Fail => ExitCode::from(exit::FAILURE),
    }
}

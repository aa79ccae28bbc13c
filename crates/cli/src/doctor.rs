//! `fairhold doctor`: looks at a cluster from outside, and says for each thing whether it is well, and what to do where it is
//! not.
//!
//! `crate::look` asks, `judge` decides without asking anything, `show` writes. It changes nothing, and needs no quorum.

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

/// Looks, judges and writes. Warnings alone are no failure: they are for people, and a watchdog is to wake nobody for them.
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

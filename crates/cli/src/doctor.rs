//! `fairhold doctor`: looks at a cluster from outside, and says for each thing whether it is well, and what to do where it is
//! not.
//!
//! `crate::look` asks, `judge` decides without asking anything, `show` writes. It changes nothing, and needs no quorum.

mod judge;
mod show;

use crate::{
    args::{DoctorArgs, DoctorOutput},
    look::Seen,
};
use judge::Grade;
use std::process::ExitCode;

/// No endpoint answered.
const EXIT_UNAVAILABLE: u8 = 69;

/// Looks, judges and writes. Warnings alone are no failure: they are for people, and a watchdog is to wake nobody for them.
pub(crate) fn main(args: &DoctorArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return crate::failed(crate::EXIT_FAILURE, &error),
    };
    let seen = runtime.block_on(Seen::look(&args.endpoint, args.timeout));
    runtime.shutdown_background();
    let findings = judge::judge(&seen);
    let text = match args.output {
        DoctorOutput::Table => show::table(&findings),
        DoctorOutput::Json => show::json(&findings),
    };
    if let Err(error) = crate::output::unless_closed(crate::output::write_stdout(&text)) {
        return crate::failed(crate::EXIT_FAILURE, &error);
    }
    if seen.answering().next().is_none() {
        return ExitCode::from(EXIT_UNAVAILABLE);
    }
    match judge::worst(&findings) {
        Grade::Ok | Grade::Warn => ExitCode::SUCCESS,
        Grade::Fail => ExitCode::from(crate::EXIT_FAILURE),
    }
}

//! Restarts this process in place: with the same pid, arguments and environment.

use super::service_manager;
use std::{env, io, os::unix::process::CommandExt, process::Command};

/// The program that runs, even if another file has its name now.
const PROGRAM: &str = "/proc/self/exe";

/// Returns only if it fails.
pub(super) fn restart_in_place() -> io::Error {
    service_manager::tell_restarting();
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| PROGRAM.into());
    Command::new(PROGRAM).arg0(name).args(arguments).exec()
}

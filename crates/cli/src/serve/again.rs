//! Starts this process again, in place of itself: with the same pid, arguments and environment.

use std::{env, io, os::unix::process::CommandExt, process::Command};

/// The program that runs, also where another one has its name by now.
const PROGRAM: &str = "/proc/self/exe";

/// Does not return, but where it fails.
pub(super) fn start_again() -> io::Error {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| PROGRAM.into());
    Command::new(PROGRAM).arg0(name).args(arguments).exec()
}

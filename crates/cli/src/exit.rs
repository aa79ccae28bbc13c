//! The exit codes of all commands, and how a command ends.

use fairhold_types::text::without_userinfo;
use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

/// The command failed.
pub(crate) const FAILURE: u8 = 1;
/// Wrong usage, or an invalid configuration.
pub(crate) const USAGE: u8 = 2;
/// This node cannot take part in its cluster any more, or not with this program: starting it again does not help.
pub(crate) const CANNOT_TAKE_PART: u8 = 3;
/// No endpoint answered in time.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lock was not acquired. It is not 1 as with flock, to differ from the exit code of a failed command.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// The caller is not authenticated or not allowed to do this.
pub(crate) const DENIED: u8 = 77;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;
/// The lock was lost, and a process of the command cannot be stopped: it continues without the lock.
pub(crate) const NOT_STOPPED: u8 = 80;

/// The command of `lock` cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// The command of `lock` was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// The exit code of a result; prints the error.
pub(crate) fn from_result<E: Error>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => with_error(FAILURE, &error),
    }
}

/// Prints the error, without the passwords of URLs, and returns `code`.
pub(crate) fn with_error(code: u8, error: &dyn Error) -> ExitCode {
    // Stderr may be a file on a full disk; the exit code still shows the outcome.
    writeln!(io::stderr(), "fairhold: {}", without_userinfo(&error.to_string())).ok();
    ExitCode::from(code)
}

//! The exit codes of all commands, and how a command ends.

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

/// The command was understood and failed.
pub(crate) const FAILURE: u8 = 1;
/// The command was not understood, or its configuration cannot be right.
pub(crate) const USAGE: u8 = 2;
/// No endpoint answered in time.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lock was not acquired. Not 1, as with flock, so that it differs from a command that failed.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// The caller may not.
pub(crate) const DENIED: u8 = 77;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;
/// The lock was lost, and something that the command started could not be stopped: it works on without the lock.
pub(crate) const NOT_STOPPED: u8 = 80;

/// The command cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// The command does not exist.
pub(crate) const NOT_FOUND: u8 = 127;

pub(crate) fn ended<E: Error>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(FAILURE, &error),
    }
}

pub(crate) fn failed(code: u8, error: &dyn Error) -> ExitCode {
    // Where it goes may be on the disk that is full: then the exit code says what can be said.
    writeln!(io::stderr(), "fairhold: {error}").ok();
    ExitCode::from(code)
}

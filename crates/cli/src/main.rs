//! `fairhold`: the one binary. Each command is a file; this one only chooses.

mod args;
mod config;
mod demo;
mod dev;
mod doctor;
mod member;
mod output;
mod serve;
mod signals;
mod telemetry;
mod version;

use crate::{
    args::{Args, Command},
    config::ServeConfig,
};
use clap::Parser;
use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

/// The command was not understood, or its configuration cannot be right.
const EXIT_USAGE: u8 = 2;
/// The command was understood and failed.
const EXIT_FAILURE: u8 = 1;

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Serve(args) => match ServeConfig::resolve(args) {
            Ok(config) => ended(serve::run(config)),
            Err(error) => failed(EXIT_USAGE, &error),
        },
        Command::Dev(args) => match dev::Plan::new(args.nodes, args.port) {
            Ok(plan) => ended(dev::run(plan, args)),
            Err(error) => failed(EXIT_USAGE, &error),
        },
        Command::Doctor(args) => doctor::main(&args),
        Command::Version => ended(output::unless_closed(output::write_stdout(&version::text()))),
    }
}

fn ended<E: Error>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(EXIT_FAILURE, &error),
    }
}

fn failed(code: u8, error: &dyn Error) -> ExitCode {
    // Where it goes may be on the disk that is full: then the exit code says what can be said.
    writeln!(io::stderr(), "fairhold: {error}").ok();
    ExitCode::from(code)
}

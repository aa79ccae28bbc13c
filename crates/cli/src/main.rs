//! `fairhold`: the one binary. Each command is a module; this file selects it.

mod access;
mod acts;
mod advice;
mod args;
mod backup;
mod backup_file;
mod bench;
mod cert;
mod cluster;
mod completions;
mod config;
mod config_show;
mod demo;
mod dev;
#[cfg(test)]
mod docs_tests;
mod doctor;
mod elections;
mod exit;
#[cfg(test)]
mod features_tests;
mod grants;
mod keys;
mod local_http;
mod lock;
mod locks;
mod member;
mod moment;
mod node;
mod output;
mod pages;
mod probe;
mod regular_file;
mod remote;
mod serve;
mod sessions;
mod signals;
mod telemetry;
mod token_name;
mod top;
mod txn;
mod ui;
mod version;
mod watch;

use crate::args::{Args, Command};
use clap::{CommandFactory as _, Parser};
use std::process::ExitCode;

/// Returns free pages to the system: those that the C library's allocator keeps grow over hours
/// (docs/internals/decisions/0019).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let args = Args::try_parse().unwrap_or_else(|error| advice::with_tip(error, &words).exit());
    match args.command {
        Command::Serve(args) => serve::main(*args),
        Command::Dev(args) => match dev::DevPlan::new(args.nodes, args.port) {
            Ok(plan) => exit::from_result(dev::run(if args.secure { plan.with_tls() } else { plan }, args)),
            Err(error) => exit::with_error(exit::USAGE, &error),
        },
        Command::Lock(args) | Command::Sem(args) => lock::main(&args),
        Command::Elect(args) => lock::elect::main(*args),
        Command::Locks(args) => locks::main(&args),
        Command::Grants(args) => grants::main(&args),
        Command::Elections(args) => elections::main(&args),
        Command::Sessions(args) => sessions::main(&args),
        Command::Node(args) => node::main(&args),
        Command::Txn(args) => txn::main(&args),
        Command::Watch(args) => watch::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Ui(args) => ui::main(&args),
        Command::Cluster(args) => cluster::main(&args),
        Command::Access(args) => access::main(&args),
        Command::Roles(args) => access::roles::main(&args),
        Command::Users(args) => access::users::main(&args),
        Command::Tenants(args) => access::tenants::main(&args),
        Command::Tokens(args) => access::tokens::main(&args),
        Command::Audit(args) => acts::main(&args),
        Command::Backup(args) => backup::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Cert(args) => cert::main(&args),
        Command::Config(command) => config_show::main(command),
        Command::Completions(args) => completions::completions(&args, &Args::command()),
        Command::Man => completions::man(Args::command()),
        Command::LockSupervisor(args) => lock::supervise(&args),
        Command::LockExec(args) => lock::exec(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Version => exit::from_result(output::unless_closed(output::write_stdout(&version::text()))),
    }
}

//! `fairhold elect NAME --value V -- CMD…`: runs a command while leading an election. It is `lock` with a value.

use super::args::{LockArgs, OnLost};
use crate::{
    exit,
    remote::{self, ConnectArgs},
};
use fairhold_types::duration;
use std::{process::ExitCode, time::Duration};

const LONG_ABOUT: &str = "\
Run a command while leading an election.

Waits in the queue until it leads, publishes its --value, runs the command, and resigns when the command has ended. Everything
else works like `fairhold lock`: it stops the command and everything that the command started before anybody else can lead.
`fairhold elections show NAME` shows the leader, and `fairhold elections watch NAME` prints every change.";

const AFTER_HELP: &str = "\
Environment of the command: FAIRHOLD_LOCK (the name), FAIRHOLD_TOKEN (the fencing token), FAIRHOLD_GRANT (the grant's secret id;
the leader needs it to proclaim another value: fairhold elections proclaim NAME VALUE).

The exit codes are those of `fairhold lock`.

Examples:
  fairhold elect primary --value http://10.0.0.7:8080 -- ./serve
  fairhold elect scheduler --value \"$(hostname)\" -w 1m -- ./schedule";

#[derive(Debug, clap::Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub(crate) struct ElectArgs {
    /// Name of the election
    #[arg(value_name = "NAME")]
    name: String,

    /// Command to run and its arguments, after --
    #[arg(value_name = "CMD", required = true, last = true)]
    command: Vec<std::ffi::OsString>,

    /// Proclaim this value while leading, such as an address; at most 4096 bytes
    #[arg(long, value_name = "TEXT")]
    value: String,

    /// Fail at once if there is a leader
    #[arg(short = 'n', long, conflicts_with = "wait")]
    nonblock: bool,

    /// Wait at most this long [default: forever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Queue ahead of waiters with a lower priority
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,

    /// Keep the leadership for this long if this program is killed or cannot reach the cluster
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    ttl: Duration,

    /// Show this name to people who look at the queue [default: the user, the host and the process id]
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,

    /// Block the election for this long if this leader expires
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    lock_delay: Duration,

    /// Lead for at most this long; fairhold stops the command before the cluster ends the leadership
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    max_hold: Option<Duration>,

    /// Show this key and value to people who look at the queue; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = remote::pair)]
    meta: Vec<(String, String)>,

    /// Exit with this code if fairhold did not become the leader
    #[arg(short = 'E', long, value_name = "N", default_value_t = exit::NOT_ACQUIRED)]
    conflict_exit_code: u8,

    /// Choose what happens to the command when the leadership is lost
    #[arg(long, value_enum, default_value_t = OnLost::Term)]
    on_lost: OnLost,

    /// Send SIGKILL this long after SIGTERM [default: 5s; 500ms if an administrator breaks the grant]
    ///
    /// If the leadership cannot be renewed, the time is at most a third of --ttl.
    ///
    /// If an administrator breaks the grant, the command and the next leader may both run for up to that long.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    kill_after: Option<Duration>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Waits for the leadership and runs the command.
pub(crate) fn main(args: ElectArgs) -> ExitCode {
    super::main(&LockArgs {
        names: vec![args.name],
        command: args.command,
        nonblock: args.nonblock,
        wait: args.wait,
        shared: false,
        exclusive: true,
        limit: None,
        permits: 1,
        priority: args.priority,
        ttl: args.ttl,
        owner: args.owner,
        lock_delay: args.lock_delay,
        max_hold: args.max_hold,
        meta: args.meta,
        and_shared: Vec::new(),
        conflict_exit_code: args.conflict_exit_code,
        on_lost: args.on_lost,
        kill_after: args.kill_after,
        value: Some(args.value),
        connect: args.connect,
    })
}

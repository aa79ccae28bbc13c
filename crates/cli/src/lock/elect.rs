//! `fairhold elect NAME --value V -- CMD…`: runs a command for as long as it leads an election. It is `lock` with a value.

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
else is as with `fairhold lock`: the command and everything that it started are stopped before anybody else can lead.
`fairhold elections show NAME` shows the leader, and `fairhold elections watch NAME` follows it.";

const AFTER_HELP: &str = "\
The command's environment: FAIRHOLD_LOCK (the name), FAIRHOLD_TOKEN (the fencing token), FAIRHOLD_GRANT (the grant's secret id,
with which the leader may proclaim another value: fairhold elections proclaim NAME VALUE).

Exit codes: as those of `fairhold lock`.

Examples:
  fairhold elect primary --value http://10.0.0.7:8080 -- ./serve
  fairhold elect scheduler --value \"$(hostname)\" -w 1m -- ./schedule";

/// What `elect` was told.
#[derive(Debug, clap::Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub(crate) struct ElectArgs {
    /// The election's name
    #[arg(value_name = "NAME")]
    name: String,

    /// The command and its arguments, after --
    #[arg(value_name = "CMD", required = true, last = true)]
    command: Vec<std::ffi::OsString>,

    /// The leader's value, which everybody can read: an address, for example; up to 4096 bytes
    #[arg(long, value_name = "TEXT")]
    value: String,

    /// Do not wait: fail at once if somebody leads
    #[arg(short = 'n', long, conflicts_with = "wait")]
    nonblock: bool,

    /// Wait at most this long [default: for ever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Go before waiters of lower priority
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,

    /// How long the leadership outlives this program if it is killed, and how long the cluster may be unreachable
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    ttl: Duration,

    /// Your name, for people who look at the queue (default: USER@HOST:PID)
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,

    /// How long nobody may lead after this leader expires
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    lock_delay: Duration,

    /// The longest time to lead: the command is stopped before the cluster ends the leadership
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    max_hold: Option<Duration>,

    /// A key and a value for people who look at the queue; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = remote::pair)]
    meta: Vec<(String, String)>,

    /// The exit code if it did not become the leader
    #[arg(short = 'E', long, value_name = "N", default_value_t = exit::NOT_ACQUIRED)]
    conflict_exit_code: u8,

    /// What to do with the command when the leadership is lost: SIGTERM and then SIGKILL, SIGKILL at once, or nothing
    #[arg(long, value_enum, default_value_t = OnLost::Term)]
    on_lost: OnLost,

    /// How long the command has from SIGTERM to SIGKILL [default: 5s; 500ms if the leadership was taken away]
    ///
    /// If the leadership cannot be renewed, it is at most a third of --ttl.
    ///
    /// If the leadership was taken away, the command runs beside the next leader for that long.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    kill_after: Option<Duration>,

    /// The cluster.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Stands, runs and ends as the command does.
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

//! What `lock` was told.

use crate::{
    exit,
    remote::{self, ConnectArgs},
};
use clap::{ValueEnum, value_parser};
use fairhold_types::duration;
use std::time::Duration;

/// What `fairhold lock --help` begins with. It stands beside the command's one line, which would take its place otherwise.
pub(crate) const LONG_ABOUT: &str = "\
Run a command while holding a lock, as flock does, over all machines.

Waits in the queue until the lock is free, runs the command without a shell, releases the lock when the command has ended,
and exits with the command's exit code. While it waits, it prints on stderr who holds the lock and its place in the queue.

Unlike a lock of flock, this lock is a lease: it can be lost while the command runs. When no node of the cluster can be
reached for too long, fairhold stops the command and everything that it started BEFORE anybody else can get the lock, by
SIGTERM and after --kill-after by SIGKILL, and exits with 79. The same happens when fairhold itself is killed. When an
administrator breaks the lock, the next holder gets it at once: fairhold then sends SIGTERM as soon as it learns of that, and
SIGKILL half a second later.

When the command has ended, fairhold also stops every process that the command left running, in the background, in its own
session or process group, or as a daemon: no such process works on without the lock. Unless fairhold runs as root, it cannot
stop processes of other users: it names them on stderr and keeps the lock as long as it can; if it loses the lock, it exits
with 80. So write `sudo fairhold lock NAME -- CMD`, not `fairhold lock NAME -- sudo CMD`. A write that must not come late must
carry FAIRHOLD_TOKEN, and the storage must check it.";

const AFTER_HELP: &str = "\
The command's environment: FAIRHOLD_LOCK (the name, the first of several), FAIRHOLD_TOKEN (the fencing token),
  FAIRHOLD_GRANT (the grant's secret id).

Exit codes: the command's own, 128+N if signal N ended it; 126 it cannot be run; 127 it is not found;
  2 wrong usage; 69 no endpoint answered for --timeout; 75 not acquired (-E changes it); 77 denied; 79 the lock was lost;
  80 a process of the command cannot be stopped, and works on without the lock.

Examples:
  fairhold lock nightly -n -- ./backup.sh                 run it unless it runs already somewhere (cron)
  fairhold lock deploy -w 10m -- make deploy              wait for at most 10 minutes
  fairhold lock table -s -- ./report.sh                   together with other readers
  fairhold lock orders stock -- ./settle.sh               both or neither, in one step
  fairhold lock gpu -l 4 -p 2 -- ./train.sh               two of four permits
  fairhold lock orders --and-shared stock -- ./count.sh   one alone and the other with its readers, in one step
  fairhold lock nightly --max-hold 2h --meta host=n7 --meta build=81 -- ./backup.sh
  fairhold lock deploy -- sh -c './build && ./ship'       a shell only where one is asked for";

/// What `fairhold sem --help` ends with.
pub(crate) const SEM_AFTER_HELP: &str = "\
The command's environment and the exit codes are those of `fairhold lock`.

Examples:
  fairhold sem gpu --limit 4 -- ./train.sh                one of four
  fairhold sem gpu --limit 4 -p 2 -w 1h -- ./train.sh     two of four, after at most an hour in line";

/// What `lock` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LockArgs {
    /// The lock's name; several names are acquired in one step, all or none
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Acquire this lock too, shared, in the same step
    #[arg(long, value_name = "NAME")]
    pub(crate) and_shared: Vec<String>,

    /// The command and its arguments, after --
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<std::ffi::OsString>,

    /// Do not wait: fail at once if the lock is not free
    #[arg(short = 'n', long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long [default: for ever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Share the lock with other shared holders
    #[arg(short, long, conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Hold it exclusively: this is the default
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,

    /// How many permits the lock has in total: the first request that names a number sets it
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,

    /// How many permits to take
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub(crate) permits: u32,

    /// Go before waiters of lower priority
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,

    /// How long the lock outlives this program if it is killed, and how long the cluster may be unreachable
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Your name, for people who look at the queue (default: USER@HOST:PID)
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,

    /// How long the lock stays blocked if this holder expires
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) lock_delay: Duration,

    /// The longest time to hold it: the command is stopped before the cluster ends the grant
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// A key and a value for people who look at the queue; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = remote::pair)]
    pub(crate) meta: Vec<(String, String)>,

    /// The exit code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "N", default_value_t = exit::NOT_ACQUIRED)]
    pub(crate) conflict_exit_code: u8,

    /// What to do with the command when the lock is lost: SIGTERM and then SIGKILL, SIGKILL at once, or nothing
    #[arg(long, value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// How long the command has from SIGTERM to SIGKILL [default: 5s; 500ms if the lock was taken away]
    ///
    /// If the lock cannot be renewed, it is at most a third of --ttl.
    ///
    /// If the lock was taken away, the command runs beside the next holder for that long.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// What the leader is known by, where this is an election: `elect` has it.
    #[arg(skip)]
    pub(crate) value: Option<String>,

    /// The cluster.
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What becomes of the command when the lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL after a while
    Term,
    /// SIGKILL at once
    Kill,
    /// Let it run on
    Ignore,
}

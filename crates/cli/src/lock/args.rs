//! The options of `lock`.

use crate::{
    exit,
    remote::{self, ConnectArgs},
};
use clap::{ValueEnum, value_parser};
use fairhold_types::duration;
use std::time::Duration;

/// The start of `fairhold lock --help`. As a doc comment of `LockArgs`, it would replace the one-line description.
pub(crate) const LONG_ABOUT: &str = "\
Run a command while holding a lock, like flock, but across machines.

Waits in the queue until the lock is free, runs the command without a shell, and releases the lock when the command ends. The
exit code is that of the command. While it waits, it prints the holder and its own place in the queue on stderr.

Unlike flock's lock, this lock is a lease: it can be lost while the command runs. If fairhold cannot reach any node of the
cluster for too long, it stops the command and everything that it started BEFORE anyone else can get the lock: with SIGTERM,
and with SIGKILL after --kill-after. It then exits with 79. If fairhold itself is killed, the command ends in the same
way. When an administrator breaks the lock, the next holder gets it at once: fairhold then sends SIGTERM when it learns of the
break, and SIGKILL half a second later.

When the command has ended, fairhold also stops every process that the command left running, whether in the background, in its
own session or process group, or as a daemon: no such process continues without the lock. Unless fairhold runs as root, it
cannot stop processes of other users: it names them on stderr and keeps the lock as long as it can; if it loses the lock, it
exits with 80. So write `sudo fairhold lock NAME -- CMD`, not `fairhold lock NAME -- sudo CMD`. A write that must not
arrive late must carry FAIRHOLD_TOKEN, and the storage must check it.";

const AFTER_HELP: &str = "\
Environment of the command: FAIRHOLD_LOCK (the name, or the first of several), FAIRHOLD_TOKEN (the fencing token),
  FAIRHOLD_GRANT (the grant's secret id).

Exit codes: the command's own, or 128+N if signal N ended it; 2 usage error; 69 no endpoint answered within --timeout;
  75 not acquired (-E changes it); 77 denied; 79 the lock was lost; 80 a process of the command cannot be stopped and continues
  without the lock; 126 the command cannot be run; 127 the command was not found.

Examples:
  fairhold lock nightly -n -- ./backup.sh                 skip if it already runs somewhere (cron)
  fairhold lock deploy -w 10m -- make deploy              wait for at most 10 minutes
  fairhold lock table -s -- ./report.sh                   together with other shared holders
  fairhold lock orders stock -- ./settle.sh               both locks or neither, in one step
  fairhold lock gpu -l 4 -p 2 -- ./train.sh               two of four permits
  fairhold lock orders --and-shared stock -- ./count.sh   one exclusive and one shared, in one step
  fairhold lock nightly --max-hold 2h --meta host=n7 --meta build=81 -- ./backup.sh
  fairhold lock deploy -- sh -c './build && ./ship'       use a shell";

/// The end of `fairhold sem --help`.
pub(crate) const SEM_AFTER_HELP: &str = "\
The command's environment and the exit codes are those of `fairhold lock`.

Examples:
  fairhold sem gpu --limit 4 -- ./train.sh                one of four permits
  fairhold sem gpu --limit 4 -p 2 -w 1h -- ./train.sh     two of four permits, waiting for at most an hour";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LockArgs {
    /// Name of the lock; several names are acquired in one step, all or none
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Acquire this lock too, shared, in the same step
    #[arg(long, value_name = "NAME")]
    pub(crate) and_shared: Vec<String>,

    /// Command to run and its arguments, after --
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<std::ffi::OsString>,

    /// Fail at once if the lock is not free
    #[arg(short = 'n', long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long [default: forever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Share the lock with other shared holders
    #[arg(short, long, conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Hold the lock exclusively, which is the default
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,

    /// Set the number of permits of the lock, at least 1; later requests pass the same number or none
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,

    /// Take this many permits, at least 1
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub(crate) permits: u32,

    /// Queue ahead of waiters with a lower priority
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,

    /// Keep the lock for this long if this program is killed or cannot reach the cluster
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Show this name to people who look at the queue [default: the user, the host and the process id]
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,

    /// Block the lock for this long if this holder expires
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) lock_delay: Duration,

    /// Hold the lock for at most this long; fairhold stops the command before the cluster ends the grant
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// Show this key and value to people who look at the queue; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = remote::pair)]
    pub(crate) meta: Vec<(String, String)>,

    /// Exit with this code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "N", default_value_t = exit::NOT_ACQUIRED)]
    pub(crate) conflict_exit_code: u8,

    /// Choose what happens to the command when the lock is lost
    #[arg(long, value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// Send SIGKILL this long after SIGTERM [default: 5s; 500ms if an administrator breaks the lock]
    ///
    /// If the lock cannot be renewed, the time is at most a third of --ttl.
    ///
    /// If an administrator breaks the lock, the command and the next holder may both run for up to that long.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// The leader's value in an election; only `elect` sets it.
    #[arg(skip)]
    pub(crate) value: Option<String>,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What happens to the command when the lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Send SIGTERM, and SIGKILL after --kill-after
    Term,
    /// Send SIGKILL at once
    Kill,
    /// Let it keep running
    Ignore,
}

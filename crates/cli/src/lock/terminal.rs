//! The terminal's foreground: the process group that may read from it and that Ctrl-C reaches.

use rustix::{
    process::{Pid, getpgrp},
    termios::{tcgetpgrp, tcsetpgrp},
};
use std::fs::File;

/// The controlling terminal.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    /// Opens it; none without a terminal, as in cron.
    pub(super) fn open() -> Option<Terminal> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Terminal)
    }

    /// Whether this process's group has the foreground.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    /// Hands the foreground to another group. Only the foreground group may: the kernel suspends any other that tries.
    pub(super) fn hand_to(&self, group: Pid) {
        if self.is_ours() {
            // It fails if that group is gone, which then does not need it.
            tcsetpgrp(&self.0, group).ok();
        }
    }
}

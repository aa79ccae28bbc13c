//! The terminal's foreground: who may read from it, and whom Ctrl-C reaches.

use rustix::{
    process::{Pid, getpgrp},
    termios::{tcgetpgrp, tcsetpgrp},
};
use std::fs::File;

/// The controlling terminal.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    /// None where there is none, as in cron.
    pub(super) fn open() -> Option<Terminal> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Terminal)
    }

    /// Whether this process's group has the foreground.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    /// Hands the foreground to another group; only who has it may, or the kernel would suspend him.
    pub(super) fn hand_to(&self, group: Pid) {
        if self.is_ours() {
            // It fails where that group is gone: then nobody needs it.
            tcsetpgrp(&self.0, group).ok();
        }
    }
}

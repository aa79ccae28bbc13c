//! Files that are followed at run time: how often they are read, and what is told about those that cannot be used.

use crate::late::{LATE_AFTER, say_if_late};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::spawn_blocking, time::sleep};

/// How often the files are read. They are read whole, so a symlink that moves is noticed too.
pub const CHECK_EVERY: Duration = Duration::from_secs(2);

/// What the log says of a file whose file system does not answer.
pub const DOES_NOT_ANSWER: &str = "does not answer: until it does, what was read last counts, and no change of it is noticed";

/// The result of a look at the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCheck {
    /// The files are those in use.
    Unchanged,
    /// The files have something new, which counts from now on.
    Replaced,
    /// The files cannot be used, for the first time with this error.
    Rejected(String),
    /// The files cannot be used, still with the same error.
    StillRejected {
        /// The error.
        error: String,
        /// The number of checks in a row with this error.
        checks: u32,
    },
}

impl FileCheck {
    /// The error, if it is to be logged now. Two files are seldom replaced in one instant, so a rejection is logged at the
    /// second check. If the first check was requested, it is logged at once.
    pub(crate) fn error_to_log(&self, is_asked: bool) -> Option<&str> {
        match self {
            FileCheck::Rejected(error) if is_asked => Some(error),
            FileCheck::StillRejected { error, checks: 2 } if !is_asked => Some(error),
            FileCheck::Unchanged | FileCheck::Replaced | FileCheck::Rejected(_) | FileCheck::StillRejected { .. } => None,
        }
    }
}

/// Why the files were not taken, and at how many checks in a row.
#[derive(Debug, Default)]
pub(crate) struct Rejections(Option<(String, u32)>);

impl Rejections {
    /// The files can be used.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// The files cannot be used.
    pub(crate) fn add(&mut self, error: String) -> FileCheck {
        match &mut self.0 {
            Some((known, checks)) if *known == error => {
                *checks = checks.saturating_add(1);
                FileCheck::StillRejected { error, checks: *checks }
            }
            Some(_) | None => {
                self.0 = Some((error.clone(), 1));
                FileCheck::Rejected(error)
            }
        }
    }

    /// Why the files cannot be used now, if they cannot.
    pub(crate) fn error(&self) -> Option<String> {
        self.0.as_ref().map(|(error, _)| error.clone())
    }
}

/// Looks at files until this task is aborted: at intervals, and at once when `reload` is notified. `look` may block, and
/// `log` gets its result, and whether it was requested. `file` is the one that the log names.
pub(crate) async fn follow(
    file: &Path,
    interval: Duration,
    reload: Arc<Notify>,
    look: impl Fn() -> FileCheck + Send + Sync + 'static,
    log: impl Fn(&FileCheck, bool),
) {
    let look = Arc::new(look);
    loop {
        let is_asked = tokio::select! {
            biased;
            () = reload.notified() => true,
            () = sleep(interval) => false,
        };
        let look = Arc::clone(&look);
        let say = || tracing::error!(file = %file.display(), "this file, or one that belongs to it, {DOES_NOT_ANSWER}");
        let Ok(found) = say_if_late(spawn_blocking(move || look()), LATE_AFTER, say).await else { return };
        log(&found, is_asked);
    }
}

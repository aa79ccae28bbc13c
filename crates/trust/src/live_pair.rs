//! A pair that follows its files. New connections use the newest pair that works; open connections keep theirs.

use crate::{
    files::CertificateFiles,
    pair::{Pair, PairError, PairUse},
};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::{fmt, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::spawn_blocking, time::sleep};

/// How often the files are read. They are read whole, so a symlink that moves is noticed too.
pub const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The pair of the moment.
pub struct LivePair {
    files: CertificateFiles,
    pair_use: PairUse,
    current: ArcSwap<Pair>,
    rejection: Mutex<Option<Rejection>>,
}

/// Why the files were not taken, and at how many checks in a row.
struct Rejection {
    error: String,
    checks: u32,
}

/// The result of a look at the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCheck {
    /// The files are those of the current pair.
    Unchanged,
    /// The files have a new pair, which counts from now on.
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

impl LivePair {
    /// Loads the pair.
    pub fn load(files: CertificateFiles, pair_use: PairUse) -> Result<Arc<LivePair>, PairError> {
        let pair = Pair::load(&files, &pair_use)?;
        Ok(Arc::new(LivePair { files, pair_use, current: ArcSwap::from_pointee(pair), rejection: Mutex::default() }))
    }

    /// The newest pair that works.
    #[must_use]
    pub fn current(&self) -> Arc<Pair> {
        self.current.load_full()
    }

    /// The files that it follows.
    #[must_use]
    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// Why the files cannot be used now, if they cannot. The last pair that worked is still in use.
    #[must_use]
    pub fn rejection(&self) -> Option<String> {
        self.rejection.lock().as_ref().map(|rejection| rejection.error.clone())
    }

    /// Reads the files, and uses what they have if it works. It blocks the thread.
    pub fn check(&self) -> FileCheck {
        let mut rejection = self.rejection.lock();
        match Pair::load(&self.files, &self.pair_use).and_then(|pair| self.check_host(pair)) {
            Ok(pair) => {
                *rejection = None;
                if pair.digest == self.current.load().digest {
                    return FileCheck::Unchanged;
                }
                self.current.store(Arc::new(pair));
                FileCheck::Replaced
            }
            Err(error) => {
                let error = error.to_string();
                match rejection.as_mut().filter(|rejection| rejection.error == error) {
                    Some(known) => {
                        known.checks = known.checks.saturating_add(1);
                        FileCheck::StillRejected { error, checks: known.checks }
                    }
                    None => {
                        *rejection = Some(Rejection { error: error.clone(), checks: 1 });
                        FileCheck::Rejected(error)
                    }
                }
            }
        }
    }

    /// Whether the other nodes accept the certificate at the host where they dial this one.
    pub fn is_for_its_host(&self) -> bool {
        self.current.load().check_host(&self.pair_use).is_ok()
    }

    /// Refuses a pair with which the other nodes could not dial this one any more, although they can now. They would
    /// notice only when their connections end.
    fn check_host(&self, pair: Pair) -> Result<Pair, PairError> {
        match pair.check_host(&self.pair_use) {
            Err(fault) if self.is_for_its_host() => Err(PairError::Unusable { cert: self.files.cert.clone(), fault }),
            Ok(()) | Err(_) => Ok(pair),
        }
    }

    /// Follows the files until this task is aborted: every 2 s, and at once when `reload` is notified.
    pub async fn watch(self: Arc<Self>, reload: Arc<Notify>) {
        self.watch_every(CHECK_EVERY, reload).await;
    }

    pub(crate) async fn watch_every(self: Arc<Self>, interval: Duration, reload: Arc<Notify>) {
        loop {
            let is_asked = tokio::select! {
                biased;
                () = reload.notified() => true,
                () = sleep(interval) => false,
            };
            let pair = self.clone();
            let Ok(found) = spawn_blocking(move || pair.check()).await else { return };
            self.log(&found, is_asked);
        }
    }

    /// Logs a change, and a rejection once. Two files are seldom replaced in one instant, so a rejection is logged at the
    /// second check. If the first check was requested, it is logged at once.
    fn log(&self, found: &FileCheck, is_asked: bool) {
        let file = self.files.cert.display();
        match found {
            FileCheck::Replaced => {
                let pair = self.current();
                let (holder, until) = (pair.certificate().holder(), pair.not_after().to_rfc3339());
                tracing::info!(%file, "new connections use the new certificate of {holder}, valid until {until}");
            }
            FileCheck::Rejected(error) if is_asked => {
                tracing::error!(%file, "{error}; new connections still use the old certificate");
            }
            FileCheck::StillRejected { error, checks: 2 } if !is_asked => {
                tracing::error!(%file, "{error}; new connections still use the old certificate");
            }
            FileCheck::Unchanged | FileCheck::Rejected(_) | FileCheck::StillRejected { .. } => {}
        }
    }
}

impl fmt::Debug for LivePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LivePair").field("files", &self.files).field("current", &self.current()).finish_non_exhaustive()
    }
}

//! A pair that follows its files. New connections use the newest pair that works; open connections keep theirs.

use crate::{
    file_check::{CHECK_EVERY, FileCheck, Rejections, follow},
    files::CertificateFiles,
    pair::{Pair, PairError, PairUse},
};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The pair of the moment.
pub struct LivePair {
    files: CertificateFiles,
    pair_use: PairUse,
    current: ArcSwap<Pair>,
    rejections: Mutex<Rejections>,
    replaced: Notify,
}

impl LivePair {
    /// Loads the pair.
    pub fn load(files: CertificateFiles, pair_use: PairUse) -> Result<Arc<LivePair>, PairError> {
        let pair = Pair::load(&files, &pair_use)?;
        let current = ArcSwap::from_pointee(pair);
        Ok(Arc::new(LivePair { files, pair_use, current, rejections: Mutex::default(), replaced: Notify::new() }))
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
        self.rejections.lock().error()
    }

    /// Waits until the pair has been replaced since the last wait. Only one task may wait.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }

    /// Reads the files, and uses what they have if it works. It blocks the thread.
    pub fn check(&self) -> FileCheck {
        // Without the lock: a file that does not answer holds up no other thread.
        let loaded = Pair::load(&self.files, &self.pair_use).and_then(|pair| self.check_host(pair));
        let mut rejections = self.rejections.lock();
        match loaded {
            Ok(pair) => {
                rejections.clear();
                if pair.digest == self.current.load().digest {
                    return FileCheck::Unchanged;
                }
                self.current.store(Arc::new(pair));
                self.replaced.notify_one();
                FileCheck::Replaced
            }
            Err(error) => rejections.add(error.to_string()),
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
        let pair = self.clone();
        follow(&self.files.cert, interval, reload, move || pair.check(), |found, is_asked| self.log(found, is_asked)).await;
    }

    fn log(&self, found: &FileCheck, is_asked: bool) {
        let file = self.files.cert.display();
        if *found == FileCheck::Replaced {
            let pair = self.current();
            let (holder, until) = (pair.certificate().holder(), pair.not_after().to_rfc3339());
            tracing::info!(%file, "new connections use the new certificate of {holder}, valid until {until}");
        }
        if let Some(error) = found.error_to_log(is_asked) {
            tracing::error!(%file, "{error}; new connections still use the old certificate");
        }
    }
}

impl fmt::Debug for LivePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LivePair").field("files", &self.files).field("current", &self.current()).finish_non_exhaustive()
    }
}

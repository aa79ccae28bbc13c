//! The keys of a provider, which follow their file.

use super::key_set::{JwksError, KeySet};
use crate::{
    file_check::{CHECK_EVERY, FileCheck, Rejections, follow},
    files,
};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::Notify;

/// The keys of the moment. A file that cannot be used changes nothing.
pub struct LiveKeySet {
    provider: String,
    path: PathBuf,
    current: ArcSwap<KeySet>,
    rejections: Mutex<Rejections>,
}

impl LiveKeySet {
    /// Loads the keys of this provider.
    pub(super) fn load(provider: &str, path: &Path) -> Result<Arc<LiveKeySet>, JwksError> {
        Ok(Arc::new(LiveKeySet {
            provider: provider.to_owned(),
            path: path.to_owned(),
            current: ArcSwap::from_pointee(read(path)?),
            rejections: Mutex::default(),
        }))
    }

    /// The name of the provider.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest keys that can be used.
    #[must_use]
    pub fn current(&self) -> Arc<KeySet> {
        self.current.load_full()
    }

    /// Why the file cannot be used now, if it cannot. The last keys stay in use.
    #[must_use]
    pub fn rejection(&self) -> Option<String> {
        self.rejections.lock().error()
    }

    /// Reads the file, and uses what it has. It blocks the thread.
    pub fn check(&self) -> FileCheck {
        // Without the lock: a file that does not answer holds up no other thread.
        let loaded = read(&self.path);
        let mut rejections = self.rejections.lock();
        match loaded {
            Ok(keys) => {
                rejections.clear();
                if keys.digest == self.current.load().digest {
                    return FileCheck::Unchanged;
                }
                self.current.store(Arc::new(keys));
                FileCheck::Replaced
            }
            Err(error) => rejections.add(error.to_string()),
        }
    }

    /// Follows the file until this task is aborted: every 2 s, and at once when `reload` is notified.
    pub async fn watch(self: Arc<Self>, reload: Arc<Notify>) {
        let keys = Arc::clone(&self);
        follow(&self.path, CHECK_EVERY, reload, move || keys.check(), |found, is_asked| self.log(found, is_asked)).await;
    }

    fn log(&self, found: &FileCheck, is_asked: bool) {
        let (file, provider) = (self.path.display(), &self.provider);
        if *found == FileCheck::Replaced {
            tracing::info!(%file, "the JWTs of {provider} are verified with new keys ({})", self.current().key_count());
        }
        if let Some(error) = found.error_to_log(is_asked) {
            tracing::error!(%file, "{error}; the JWTs of {provider} are still verified with the old keys");
        }
    }
}

fn read(path: &Path) -> Result<KeySet, JwksError> {
    KeySet::parse(path, &files::read_file(path)?)
}

impl fmt::Debug for LiveKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LiveKeySet");
        shown
            .field("provider", &self.provider)
            .field("path", &self.path)
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}

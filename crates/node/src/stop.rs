//! The request to stop: announced first, so that nothing new begins; then asked once, and seen by everything that waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    announced: AtomicBool,
    asked: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// What waits goes on waiting; nothing new is to begin.
    pub(crate) fn announce(&self) {
        self.0.announced.store(true, Ordering::Release);
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.0.announced.load(Ordering::Acquire)
    }

    pub(crate) fn ask(&self) {
        self.announce();
        self.0.asked.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::Acquire)
    }

    /// Waits until it is asked.
    pub(crate) async fn asked(&self) {
        let mut notified = std::pin::pin!(self.0.notify.notified());
        // Registered before the look, so that an ask in between is not missed.
        notified.as_mut().enable();
        if !self.is_asked() {
            notified.await;
        }
    }
}

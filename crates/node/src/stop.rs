//! The request to stop: asked once, seen by everything that waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    asked: AtomicBool,
    notify: Notify,
}

impl Stop {
    pub(crate) fn ask(&self) {
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

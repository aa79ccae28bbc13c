//! The request to stop: announced first, so that nothing new begins; then made once, and seen by everything that waits.

use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    announced: CancellationToken,
    requested: CancellationToken,
}

impl Stop {
    /// What waits goes on waiting; nothing new is to begin.
    pub(crate) fn announce(&self) {
        self.announced.cancel();
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.announced.is_cancelled()
    }

    pub(crate) fn request(&self) {
        self.announce();
        self.requested.cancel();
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Waits until it is requested.
    pub(crate) async fn requested(&self) {
        self.requested.cancelled().await;
    }
}

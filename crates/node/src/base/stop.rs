//! Shutdown in two steps: it is announced, so that no new work starts; then it is requested, and everything that waits
//! ends.

use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    announced: CancellationToken,
    requested: CancellationToken,
}

impl Stop {
    /// No new work is to start. Waiting requests continue to wait.
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

    /// Waits for the request.
    pub(crate) async fn requested(&self) {
        self.requested.cancelled().await;
    }
}

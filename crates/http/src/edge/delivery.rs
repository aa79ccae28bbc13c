//! Cleans up after an answer that did not reach its caller: an undelivered grant must not block its lock for its whole ttl.

use std::sync::Arc;

/// The clean-up of one answer, as an extension of the response. The listener removes it from the response, and runs it if the
/// connection shows that the client disconnected before it received the answer.
#[derive(Clone)]
pub struct Undelivered(Arc<dyn Fn() + Send + Sync>);

impl Undelivered {
    /// Calls `clean_up` if the answer is lost.
    pub(crate) fn on_loss(clean_up: impl Fn() + Send + Sync + 'static) -> Undelivered {
        Undelivered(Arc::new(clean_up))
    }

    /// Runs the clean-up, because the answer is lost.
    pub fn run(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Undelivered")
    }
}

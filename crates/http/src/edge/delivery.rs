//! The clean-up of an answer that did not reach its caller: an undelivered grant must not block its lock for its whole ttl.

use std::sync::Arc;

/// An extension of an answer with a grant. The listener removes it from the answer, and runs it if the connection shows that the
/// client was gone before it got the answer.
#[derive(Clone)]
pub struct Undelivered(Arc<dyn Fn() + Send + Sync>);

impl Undelivered {
    /// Runs the action if the answer is lost.
    pub(crate) fn then(act: impl Fn() + Send + Sync + 'static) -> Undelivered {
        Undelivered(Arc::new(act))
    }

    /// The answer is lost: undoes the grant in the background.
    pub fn act(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Undelivered")
    }
}

//! What is done where an answer did not reach its caller: a grant that was given to nobody must not block its lock for its
//! whole ttl.

use std::sync::Arc;

/// Hangs on an answer. The listener runs it when the connection tells that the client had gone before it got the answer.
#[derive(Clone)]
pub(crate) struct Undelivered(Arc<dyn Fn() + Send + Sync>);

impl Undelivered {
    /// Does that where the answer is lost.
    pub(crate) fn then(act: impl Fn() + Send + Sync + 'static) -> Undelivered {
        Undelivered(Arc::new(act))
    }

    pub(crate) fn act(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Undelivered")
    }
}

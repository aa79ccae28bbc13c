//! What is done where an answer did not reach its caller: a grant that was given to nobody must not block its lock for its
//! whole ttl.

use std::sync::Arc;

/// An extension of an answer that gives a grant to its caller. The listener takes it out of the answer, and runs it when the
/// connection tells that the client had gone before it got the answer.
#[derive(Clone)]
pub struct Undelivered(Arc<dyn Fn() + Send + Sync>);

impl Undelivered {
    /// Does that where the answer is lost.
    pub(crate) fn then(act: impl Fn() + Send + Sync + 'static) -> Undelivered {
        Undelivered(Arc::new(act))
    }

    /// The answer is lost: what it gave is taken back, in the background.
    pub fn act(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Undelivered")
    }
}

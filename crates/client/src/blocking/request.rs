//! Requests before they are sent.

use super::runtime::OwnRuntime;
use crate::Error;
use std::sync::Arc;

/// A request to send. Set its options with [`with`](Request::with).
#[derive(Debug)]
#[must_use = "a request does nothing before it is sent"]
pub struct Request<B> {
    pub(super) builder: B,
    pub(super) runtime: Arc<OwnRuntime>,
}

impl<B> Request<B> {
    /// Sets options: `nodes.put("/jobs/7", "done").with(|put| put.version(3)).send()`.
    pub fn with(self, options: impl FnOnce(B) -> B) -> Request<B> {
        Request { builder: options(self.builder), ..self }
    }

    /// Sends it and waits for the answer.
    ///
    /// # Errors
    /// The errors of awaiting it in async code.
    pub fn send<T>(self) -> Result<T, Error>
    where
        B: IntoFuture<Output = Result<T, Error>>,
    {
        self.runtime.block_on(self.builder.into_future())?
    }
}

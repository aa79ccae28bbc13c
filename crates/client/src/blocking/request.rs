//! A request that is about to be made.

use super::runtime::OwnRuntime;
use crate::Error;
use std::sync::Arc;

/// Something to be asked of the cluster; say more of it by [`with`](Request::with).
#[derive(Debug)]
#[must_use = "nothing is sent before it is told to"]
pub struct Request<B> {
    pub(super) builder: B,
    pub(super) runtime: Arc<OwnRuntime>,
}

impl<B> Request<B> {
    /// Says more of it: `nodes.put("/jobs/7", "done").with(|put| put.version(3)).send()`.
    pub fn with(self, say: impl FnOnce(B) -> B) -> Request<B> {
        Request { builder: say(self.builder), ..self }
    }

    /// Sends it, and waits for the answer.
    ///
    /// # Errors
    /// As awaiting it in async code.
    pub fn send<T>(self) -> Result<T, Error>
    where
        B: IntoFuture<Output = Result<T, Error>>,
    {
        self.runtime.block_on(self.builder.into_future())?
    }
}

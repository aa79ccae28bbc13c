//! The runtime of a blocking client, in a separate thread.

use crate::Error;
use futures_util::FutureExt as _;
use std::time::Duration;
use tokio::{
    runtime::{Handle, Runtime},
    task::coop::consume_budget,
};

/// More steps than the runtime allows a task before it yields. Outside a task, the number of steps is unlimited.
const TASK_STEPS: usize = 1_024;
/// How long the end of a client may take, so that the background can still release what was dropped last.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// Whether this thread runs a task, which must not block.
fn is_in_a_task() -> bool {
    let has_no_more_steps = |_| consume_budget().now_or_never().is_none();
    Handle::try_current().is_ok() && (0..TASK_STEPS).any(has_no_more_steps)
}

/// The runtime. It ends with its last user.
#[derive(Debug)]
pub(super) struct OwnRuntime {
    pub(super) runtime: Option<Runtime>,
    pub(super) client: crate::Client,
}

impl OwnRuntime {
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Error::Invalid("the client has ended".to_owned()))?;
        if is_in_a_task() {
            let why =
                "fairhold_client::blocking blocks its thread, and this one runs async code: use fairhold_client::Client there";
            return Err(Error::Invalid(why.to_owned()));
        }
        Ok(runtime.block_on(future))
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let client = self.client.clone();
            let last = std::thread::spawn(move || {
                // Whatever is not released by then ends with its ttl.
                drop(runtime.block_on(async { tokio::time::timeout(SETTLE_WITHIN, client.settled()).await }));
                runtime.shutdown_background();
            });
            // This needs a separate thread, because the last user may be in async code. The thread does not panic.
            drop(last.join());
        }
    }
}

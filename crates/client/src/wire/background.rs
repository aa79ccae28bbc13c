//! Work that continues after its caller has left: releasing locks and giving up places in queues, with retries.

use crate::{
    error::Error,
    wire::{
        call::{BatchPart, Call},
        retry::{RetryBudget, Transport},
    },
};
use fairhold_types::{GrantId, SessionId};
use parking_lot::Mutex;
use reqwest::Method;
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    task::{AbortHandle, JoinHandle},
    time::Instant,
};
use tokio_util::task::TaskTracker;

/// The most releases that send requests at a time.
const RELEASES_MAX: usize = 256;
/// How long a release is retried. After that, the grant or session ends with its ttl.
const RETRY_FOR: Duration = Duration::from_secs(600);

/// The background tasks of a client.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    runtime: Handle,
    /// The trackers whose tasks may still run, the newest last. A wait closes the newest one, so that it does not wait
    /// for later tasks.
    tasks: Arc<Mutex<Vec<TaskTracker>>>,
    permits: Arc<Semaphore>,
    calls: Transport,
}

/// The call that ends a grant. If it names the session, the id stays ended for as long as the session lives.
fn release_call(id: GrantId, session: Option<SessionId>) -> Call {
    let query = session.map(|session| format!("?session={}", session.to_hex())).unwrap_or_default();
    Call::new(Method::DELETE, format!("/v1/grants/{id}{query}")).key(id).part(BatchPart::Release(session))
}

impl Background {
    pub(crate) fn new(runtime: Handle, calls: Transport) -> Background {
        Background { runtime, tasks: Arc::default(), permits: Arc::new(Semaphore::new(RELEASES_MAX)), calls }
    }

    /// Runs a task that no caller waits for.
    pub(crate) fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let mut tasks = self.tasks.lock();
        match tasks.last() {
            Some(newest) if !newest.is_closed() => newest.spawn_on(task, &self.runtime),
            Some(_) | None => {
                tasks.retain(|tracker| !tracker.is_empty());
                let newest = TaskTracker::new();
                let spawned = newest.spawn_on(task, &self.runtime);
                tasks.push(newest);
                spawned
            }
        }
    }

    /// Runs a renewal or a watch until it is aborted. [`settled`](Background::settled) does not wait for it.
    pub(crate) fn keep(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }

    /// Releases a grant, or gives up its place in a queue, even if no caller waits for the result. Name the session if
    /// a request for this grant may still arrive: it then acquires nothing, however late it arrives.
    pub(crate) fn release(&self, id: GrantId, session: Option<SessionId>) -> JoinHandle<Result<(), Error>> {
        let background = self.clone();
        let call = release_call(id, session);
        self.spawn(async move { background.delete(call, Instant::now() + RETRY_FOR).await })
    }

    /// Closes a session and releases everything that it owns.
    pub(crate) fn close(&self, id: SessionId) -> JoinHandle<Result<(), Error>> {
        let background = self.clone();
        let call = Call::new(Method::DELETE, format!("/v1/sessions/{}", id.to_hex()));
        self.spawn(async move { background.delete(call, Instant::now() + RETRY_FOR).await })
    }

    async fn delete(&self, call: Call, until: Instant) -> Result<(), Error> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        let budget = RetryBudget { until, ..RetryBudget::within(Duration::ZERO) };
        let deleted = self.calls.send(&call, budget).await.and_then(|reply| reply.done());
        match deleted {
            // It has ended already.
            Ok(()) | Err(Error::Lost(_)) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "cannot release a grant or session; it expires after its timeout");
                Err(error)
            }
        }
    }

    /// Waits for the tasks that run now, and not for later ones.
    pub(crate) async fn settled(&self) {
        let running = {
            let mut tasks = self.tasks.lock();
            tasks.retain(|tracker| !tracker.is_empty());
            if let Some(newest) = tasks.last() {
                newest.close();
            }
            tasks.clone()
        };
        for tracker in running {
            tracker.wait().await;
        }
    }
}

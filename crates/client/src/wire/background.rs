//! What goes on when the caller has left: places are given up and locks given back, with retries.

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

/// How many of them send at a time.
const AT_ONCE_MAX: usize = 256;
/// How long it is tried before the timeout must do it.
const TRY_FOR: Duration = Duration::from_secs(600);

/// The tasks that give back.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    runtime: Handle,
    /// Those of which some may still run, the newest last. A wait begins another, so that it does not wait for what comes later.
    tasks: Arc<Mutex<Vec<TaskTracker>>>,
    places: Arc<Semaphore>,
    calls: Transport,
}

/// The call that ends a grant. Where its session is named, the id stays ended for as long as the session lives.
fn end_of(id: GrantId, session: Option<SessionId>) -> Call {
    let query = session.map(|session| format!("?session={}", session.to_hex())).unwrap_or_default();
    Call::new(Method::DELETE, format!("/v1/grants/{id}{query}")).key(id).part(BatchPart::Release(session))
}

impl Background {
    pub(crate) fn new(runtime: Handle, calls: Transport) -> Background {
        Background { runtime, tasks: Arc::default(), places: Arc::new(Semaphore::new(AT_ONCE_MAX)), calls }
    }

    /// Runs something that nobody waits for.
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

    /// Runs what renews, until it is aborted; nobody waits for its end.
    pub(crate) fn keep(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }

    /// Gives a grant back, or its place in a queue. Goes on also where nobody waits for it. Name the session where a request of
    /// that session may still arrive: it then takes nothing, however late it is.
    pub(crate) fn release(&self, id: GrantId, session: Option<SessionId>) -> JoinHandle<Result<(), Error>> {
        let (background, call) = (self.clone(), end_of(id, session));
        self.spawn(async move { background.delete(call, Instant::now() + TRY_FOR).await })
    }

    /// Closes a session, with all that it owns.
    pub(crate) fn close(&self, id: SessionId) -> JoinHandle<Result<(), Error>> {
        let background = self.clone();
        let call = Call::new(Method::DELETE, format!("/v1/sessions/{}", id.to_hex()));
        self.spawn(async move { background.delete(call, Instant::now() + TRY_FOR).await })
    }

    async fn delete(&self, call: Call, until: Instant) -> Result<(), Error> {
        // Never closed while this exists.
        let _place = self.places.acquire().await.ok();
        let patience = RetryBudget { until, ..RetryBudget::within(Duration::ZERO) };
        let deleted = self.calls.send(&call, patience).await.and_then(|reply| reply.done());
        match deleted {
            // It is over already: that is what was wanted.
            Ok(()) | Err(Error::Lost(_)) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "a grant or session could not be released; it ends with its timeout");
                Err(error)
            }
        }
    }

    /// Waits until all that runs now is done; what begins later is not waited for.
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

//! What goes on when the caller has left: places are given up and locks given back, with retries.

use crate::{
    batches::Part,
    calls::{Calls, Patience},
    error::Error,
    exchange::Call,
};
use fairhold_types::{GrantId, SessionId};
use reqwest::Method;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    task::{AbortHandle, JoinHandle},
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;

/// How many of them send at a time.
const AT_ONCE_MAX: usize = 256;
/// How long it is tried before the timeout must do it.
const TRY_FOR: Duration = Duration::from_secs(600);
/// A request of a named session that may still arrive is taken back again and again: its id is remembered for no less than 60
/// seconds where the server does not know to which session it would have belonged.
const AGAIN_EVERY: Duration = Duration::from_secs(45);

/// The tasks that give back.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    runtime: Handle,
    /// Those of which some may still run, the newest last. A wait begins another, so that it does not wait for what comes later.
    tasks: Arc<Mutex<Vec<TaskTracker>>>,
    places: Arc<Semaphore>,
    calls: Calls,
}

/// The call that ends a grant.
fn end_of(id: GrantId) -> Call {
    Call::new(Method::DELETE, format!("/v1/grants/{id}")).key(id).part(Part::Release)
}

/// Whether a request for the id may still be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// No: it was answered; or it does not matter, since what it could take ends with its own timeout.
    Settled,
    /// It may arrive late, and take a grant that a living session keeps.
    Open,
}

impl Background {
    pub(crate) fn new(runtime: Handle, calls: Calls) -> Background {
        Background { runtime, tasks: Arc::default(), places: Arc::new(Semaphore::new(AT_ONCE_MAX)), calls }
    }

    /// Runs something that nobody waits for.
    pub(crate) fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Gives a grant back, or its place in a queue. Goes on also where nobody waits for it.
    pub(crate) fn release(&self, id: GrantId, arrival: Arrival) -> JoinHandle<Result<(), Error>> {
        let background = self.clone();
        self.spawn(async move {
            let until = Instant::now() + TRY_FOR;
            let released = background.delete(end_of(id), until).await;
            if arrival == Arrival::Open {
                // Nobody waits for these.
                let runtime = background.runtime.clone();
                drop(runtime.spawn(async move { background.release_again(id, until).await }));
            }
            released
        })
    }

    async fn release_again(self, id: GrantId, until: Instant) {
        while Instant::now() + AGAIN_EVERY < until {
            sleep(AGAIN_EVERY).await;
            // A failure is logged where it happens, and the next one may succeed.
            drop(self.delete(end_of(id), until).await);
        }
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
        let patience = Patience { until, ..Patience::within(Duration::ZERO) };
        let deleted = self.calls.send(&call, patience).await.and_then(|reply| reply.done());
        match deleted {
            // It is over already: that is what was wanted.
            Ok(()) | Err(Error::Lost(_)) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "something could not be given back; its timeout will end it");
                Err(error)
            }
        }
    }

    /// Waits until all that runs now is done; what begins later is not waited for.
    pub(crate) async fn settled(&self) {
        let running = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
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

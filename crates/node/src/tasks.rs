//! The owner of a node's tasks: no task outlives the node unnoticed.

use openraft_rt::AsyncRuntime;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// Counts the tasks that run, and tells when the last has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(Arc<Running>);

#[derive(Debug, Default)]
struct Running {
    count: AtomicUsize,
    ended: Notify,
}

/// One running task; dropped with its future, also when that panics.
struct Task(Arc<Running>);

impl Drop for Task {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

impl Tasks {
    /// Starts a task that ends by itself.
    pub(crate) fn spawn<RT: AsyncRuntime>(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        let task = Task(Arc::clone(&self.0));
        // The handle only carries the end, which `Task` reports.
        drop(RT::spawn(async move {
            future.await;
            drop(task);
        }));
    }

    /// Waits until no task runs.
    pub(crate) async fn ended(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.count.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}

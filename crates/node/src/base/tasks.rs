//! The owner of a node's tasks: no task outlives the node.

use futures_util::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use std::{
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio_util::task::{TaskTracker, task_tracker::TrackedFuture};

/// Counts the running tasks, and can wait for the last one to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(TaskTracker);

/// Work that its caller drives. If the caller drops it before its end, it becomes a task: only a caller that
/// disconnects costs a task and its wake-ups.
pub(crate) struct Work<RT: AsyncRuntime> {
    /// `None` after its end.
    future: Option<BoxFuture<'static, ()>>,
    runtime: PhantomData<fn() -> RT>,
}

impl<RT: AsyncRuntime> Future for Work<RT> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(future) = &mut self.future {
            ready!(future.as_mut().poll(cx));
        }
        self.future = None;
        Poll::Ready(())
    }
}

impl<RT: AsyncRuntime> Work<RT> {
    /// Drives the work until `result` returns something; `None` if the work ended without a result.
    pub(crate) async fn until<T>(&mut self, mut result: impl FnMut() -> Option<T>) -> Option<T> {
        poll_fn(|cx| {
            let ended = Pin::new(&mut *self).poll(cx).is_ready();
            match result() {
                None if !ended => Poll::Pending,
                result => Poll::Ready(result),
            }
        })
        .await
    }
}

impl<RT: AsyncRuntime> Drop for Work<RT> {
    fn drop(&mut self) {
        // Work that panicked cannot continue.
        if let Some(future) = self.future.take()
            && !std::thread::panicking()
        {
            drop(RT::spawn(future));
        }
    }
}

impl Tasks {
    /// Starts a task that ends by itself.
    pub(crate) fn spawn<RT: AsyncRuntime>(&self, future: impl Future<Output = ()> + Send + 'static) {
        // The tracker already learns of the task's end.
        drop(RT::spawn(self.counted(future)));
    }

    /// Begins work that continues as a task if its caller disconnects before its end.
    pub(crate) fn begin<RT: AsyncRuntime>(&self, future: impl Future<Output = ()> + Send + 'static) -> Work<RT> {
        Work { future: Some(Box::pin(self.counted(future))), runtime: PhantomData }
    }

    /// Counts this work as running from now on; the caller runs it as a task.
    pub(crate) fn counted<F: Future<Output = ()> + Send + 'static>(&self, future: F) -> TrackedFuture<F> {
        self.0.track_future(future)
    }

    /// Waits until no task runs.
    pub(crate) async fn ended(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_returns_its_result_to_its_driver_and_continues_without_it() {
        let tasks = Tasks::default();
        let (first, mut first_result) = oneshot::channel();
        let (go, gone) = oneshot::channel::<()>();
        let (last, last_result) = oneshot::channel();
        let mut work = tasks.begin::<TokioRuntime>(async move {
            first.send(1).unwrap();
            gone.await.unwrap();
            last.send(2).unwrap();
        });
        assert_eq!(work.until(|| first_result.try_recv().ok()).await, Some(1));
        drop(work);
        go.send(()).unwrap();
        assert_eq!(last_result.await, Ok(2));
        tasks.ended().await;
    }

    #[tokio::test]
    async fn work_that_ends_without_a_result_returns_none() {
        let tasks = Tasks::default();
        let mut work = tasks.begin::<TokioRuntime>(async {});
        assert_eq!(work.until(|| None::<()>).await, None);
        tasks.ended().await;
    }
}

//! The snapshot thread: it does all work that takes time in proportion to the state, such as building, writing, reading
//! and freeing a snapshot. When it is idle, it returns its freed memory to the system, because no later call would.
//!
//! It has a low priority. Snapshots take longer this way. But all nodes build theirs after about the same command: if
//! several nodes share a machine, their other threads would otherwise stall until all snapshots are done.

use futures_util::future::BoxFuture;
use rustix::process::{getpriority_process, setpriority_process};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        mpsc::{self, RecvTimeoutError},
    },
    thread::ThreadId,
    time::Duration,
};
use tokio::sync::oneshot;

/// Jobs in the thread's queue. A node has a handful of them at a time.
const WAITING_MAX: usize = 64;
/// Its niceness, as in nice(1): a tenth of the processor time of another busy thread.
const NICENESS: i32 = 10;
/// The thread counts as idle after this time without work. The blocks of an incoming snapshot arrive faster.
const IDLE_AFTER: Duration = Duration::from_millis(100);

type Work = Box<dyn FnOnce() + Send>;

/// A handle to the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(crate) struct SnapshotThread {
    work: mpsc::SyncSender<Work>,
    idle: Arc<OnceLock<fn()>>,
    id: ThreadId,
}

impl SnapshotThread {
    pub(crate) fn start() -> io::Result<SnapshotThread> {
        let (sender, waiting) = mpsc::sync_channel(WAITING_MAX);
        let idle = Arc::new(OnceLock::new());
        let called = Arc::clone(&idle);
        let thread = std::thread::Builder::new().name("snapshots".to_owned()).spawn(move || run(&waiting, &called))?;
        Ok(SnapshotThread { work: sender, idle, id: thread.thread().id() })
    }

    /// The function to call when the thread becomes idle.
    pub(crate) fn when_idle(&self, idle: fn()) {
        self.idle.get_or_init(|| idle);
    }

    /// Whether the caller runs on this thread.
    pub(crate) fn is_current(&self) -> bool {
        std::thread::current().id() == self.id
    }

    /// Runs a job on the thread, after the jobs queued before it, and returns its result.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> BoxFuture<'static, io::Result<T>> {
        let (done, result) = oneshot::channel();
        // The caller may be gone. Then the result is not needed.
        let queued = self.work.try_send(Box::new(move || drop(done.send(work()))));
        Box::pin(async move {
            queued.map_err(|_| io::Error::other("too many tasks wait for the snapshot thread"))?;
            result.await.map_err(|_| io::Error::other("it was interrupted by a panic"))
        })
    }
}

fn run(waiting: &mpsc::Receiver<Work>, idle: &OnceLock<fn()>) {
    // On Linux, this applies to this thread alone.
    let lowered = getpriority_process(None).and_then(|now| setpriority_process(None, now.max(NICENESS)));
    if let Err(error) = lowered {
        tracing::debug!(%error, "cannot lower the priority of the snapshot thread");
    }
    while let Ok(first) = waiting.recv() {
        let mut next = Ok(first);
        while let Ok(work) = next {
            // The closed channel tells the caller. The thread continues for others.
            drop(catch_unwind(AssertUnwindSafe(work)));
            next = waiting.recv_timeout(IDLE_AFTER);
        }
        if let (Err(RecvTimeoutError::Timeout), Some(idle)) = (next, idle.get()) {
            idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_run_in_order_with_low_priority_and_a_panic_ends_only_its_own_job() {
        let snapshot_thread = SnapshotThread::start().unwrap();
        let niceness = snapshot_thread.run(|| getpriority_process(None).unwrap());
        let panics = snapshot_thread.run(|| assert!(std::thread::current().name().is_none(), "planted"));
        let after = snapshot_thread.run(|| 3);
        assert!(niceness.await.unwrap() >= NICENESS);
        assert_eq!(panics.await.unwrap_err().to_string(), "it was interrupted by a panic");
        assert_eq!(after.await.unwrap(), 3);
    }

    #[test]
    fn the_idle_function_runs_once_after_the_last_job() {
        static IDLE_CALLS: OnceLock<mpsc::Sender<std::thread::ThreadId>> = OnceLock::new();
        let (sender, idle_calls) = mpsc::channel();
        IDLE_CALLS.set(sender).unwrap();
        let snapshot_thread = SnapshotThread::start().unwrap();
        snapshot_thread.when_idle(|| IDLE_CALLS.get().unwrap().send(std::thread::current().id()).unwrap());
        let (done, threads) = mpsc::channel();
        for _ in 0..3 {
            let done = done.clone();
            drop(snapshot_thread.run(move || done.send(std::thread::current().id())));
        }
        let thread = idle_calls.recv().unwrap();
        assert_eq!(threads.try_iter().collect::<Vec<_>>(), [thread; 3], "after all jobs, on their thread");
        assert!(idle_calls.recv_timeout(3 * IDLE_AFTER).is_err(), "and not again without work in between");
    }

    #[tokio::test]
    async fn a_job_over_the_limit_is_refused_and_no_other_is_lost() {
        let snapshot_thread = SnapshotThread::start().unwrap();
        let ((began, begun), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
        let first = snapshot_thread.run(move || {
            began.send(()).unwrap();
            gone.recv()
        });
        begun.recv().unwrap();
        let waiting: Vec<_> = (0..WAITING_MAX).map(|number| snapshot_thread.run(move || number)).collect();
        let refused = snapshot_thread.run(|| 0).await.unwrap_err();
        assert!(refused.to_string().contains("too many"), "{refused}");
        go.send(()).unwrap();
        first.await.unwrap().unwrap();
        for (number, work) in waiting.into_iter().enumerate() {
            assert_eq!(work.await.unwrap(), number);
        }
    }
}

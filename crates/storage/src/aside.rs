//! The one thread for what takes as long as the state is large: to make a snapshot of it, to write and to read one, to free it.
//!
//! It gives way to all others. A snapshot may take a while longer; but all nodes take theirs after about the same command, and
//! where they share processors, as on one machine, their other threads would have stood still until all of them were done.

use futures_util::future::BoxFuture;
use rustix::process::{getpriority_process, setpriority_process};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
};
use tokio::sync::oneshot;

/// Pieces of work that may wait for the thread. A node has a handful of them at a time.
const WAITING_MAX: usize = 64;
/// How far it gives way, on the scale of nice(1): to a tenth of what another thread gets, where both want all.
const NICENESS: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// The way to the thread, which ends with the last of these.
#[derive(Debug, Clone)]
pub(crate) struct Aside(mpsc::SyncSender<Work>);

impl Aside {
    pub(crate) fn start() -> io::Result<Aside> {
        let (sender, waiting) = mpsc::sync_channel(WAITING_MAX);
        std::thread::Builder::new().name("snapshots".to_owned()).spawn(move || run(&waiting))?;
        Ok(Aside(sender))
    }

    /// Does work there, after what was asked for before, and gives back what came of it.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> BoxFuture<'static, io::Result<T>> {
        let (done, result) = oneshot::channel();
        // Whoever asked may be gone: then nobody needs what came of it.
        let asked = self.0.try_send(Box::new(move || drop(done.send(work()))));
        Box::pin(async move {
            asked.map_err(|_| io::Error::other("too much waits for the thread of snapshots"))?;
            result.await.map_err(|_| io::Error::other("it was interrupted by a panic"))
        })
    }
}

fn run(waiting: &mpsc::Receiver<Work>) {
    // Of this thread alone, on Linux.
    let given_way = getpriority_process(None).and_then(|now| setpriority_process(None, now.max(NICENESS)));
    if let Err(error) = given_way {
        tracing::debug!(%error, "snapshots do not give way to other work");
    }
    while let Ok(work) = waiting.recv() {
        // Who asked is told by the end of the channel; the thread is there for others.
        drop(catch_unwind(AssertUnwindSafe(work)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_in_the_order_in_which_it_was_asked_for_also_after_a_panic_and_gives_way() {
        let aside = Aside::start().unwrap();
        let niceness = aside.run(|| getpriority_process(None).unwrap());
        let panics = aside.run(|| assert!(std::thread::current().name().is_none(), "planted"));
        let after = aside.run(|| 3);
        assert!(niceness.await.unwrap() >= NICENESS);
        assert_eq!(panics.await.unwrap_err().to_string(), "it was interrupted by a panic");
        assert_eq!(after.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn what_is_too_much_is_refused_and_nothing_else_is_lost() {
        let aside = Aside::start().unwrap();
        let ((began, begun), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
        let first = aside.run(move || {
            began.send(()).unwrap();
            gone.recv()
        });
        begun.recv().unwrap();
        let waiting: Vec<_> = (0..WAITING_MAX).map(|number| aside.run(move || number)).collect();
        let refused = aside.run(|| 0).await.unwrap_err();
        assert!(refused.to_string().contains("too much"), "{refused}");
        go.send(()).unwrap();
        first.await.unwrap().unwrap();
        for (number, work) in waiting.into_iter().enumerate() {
            assert_eq!(work.await.unwrap(), number);
        }
    }
}

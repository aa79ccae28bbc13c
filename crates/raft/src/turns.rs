//! Fairness among the tasks of one thread.

use std::task::Poll;

/// Gives the runtime's other tasks a turn, on any runtime.
pub async fn let_others_run() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

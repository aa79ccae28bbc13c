//! Work with files that may not end: a file system that does not answer stops a read, and nothing can stop that read.

use std::{pin::pin, time::Duration};
use tokio::time::timeout;

/// How long reading files may take before the log says so.
pub const LATE_AFTER: Duration = Duration::from_secs(10);

/// Waits for the work, and calls `say` once if it has not ended after `limit`.
pub async fn say_if_late<T>(work: impl Future<Output = T>, limit: Duration, say: impl FnOnce()) -> T {
    let mut work = pin!(work);
    if let Ok(done) = timeout(limit, work.as_mut()).await {
        return done;
    }
    say();
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_that_is_late_is_told_once_and_still_ends() {
        let (end, ended) = oneshot::channel();
        let done = say_if_late(ended, Duration::ZERO, || end.send("late").unwrap()).await;
        assert_eq!(done, Ok("late"));
        let mut is_late = false;
        say_if_late(async {}, LATE_AFTER, || is_late = true).await;
        assert!(!is_late);
    }
}

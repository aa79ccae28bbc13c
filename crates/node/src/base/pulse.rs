//! Shows from outside that a task still runs.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Questions to a task, which it answers only when it is polled.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    asked: AtomicU64,
    answered: AtomicU64,
    question: Notify,
    answer: Notify,
}

impl Pulse {
    /// Answers questions for ever. It is part of the observed task.
    pub(crate) async fn answer(&self) {
        loop {
            self.question.notified().await;
            self.answered.store(self.asked.load(Ordering::Acquire), Ordering::Release);
            self.answer.notify_one();
        }
    }

    /// Waits until the task has answered a question of this call. There is one caller at a time.
    pub(crate) async fn ask(&self) {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.question.notify_one();
        while self.answered.load(Ordering::Acquire) < number {
            self.answer.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn only_a_task_that_is_polled_answers() {
        let pulse = Pulse::default();
        let mut task = Box::pin(pulse.answer());
        assert_eq!(pulse.ask().now_or_never(), None, "nothing polls the task");
        assert_eq!(task.as_mut().now_or_never(), None);
        assert_eq!(pulse.ask().now_or_never(), None, "the answer to the question before does not count");
        assert_eq!(task.as_mut().now_or_never(), None);
        let mut last = Box::pin(pulse.ask());
        assert_eq!(last.as_mut().now_or_never(), None);
        assert_eq!(task.as_mut().now_or_never(), None);
        assert_eq!(last.as_mut().now_or_never(), Some(()));
    }
}

//! Answers that many callers share for a moment.

use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// The questions whose answers are shared at a time. A new one replaces the oldest.
const QUESTIONS_MAX: usize = 16;

/// The newest answer to a question, and when it was made. While one caller makes it, the others wait for it.
pub(crate) type SharedAnswer<I, A> = tokio::sync::Mutex<Option<(I, Arc<A>)>>;

/// The questions with their answers, the oldest first.
type Answered<I, Q, A> = VecDeque<(Q, Arc<SharedAnswer<I, A>>)>;

/// The shared answers to different questions of one kind.
#[derive(Debug)]
pub(crate) struct SharedAnswers<I, Q, A>(Mutex<Answered<I, Q, A>>);

impl<I, Q, A> Default for SharedAnswers<I, Q, A> {
    fn default() -> Self {
        SharedAnswers(Mutex::default())
    }
}

impl<I, Q: Clone + PartialEq, A> SharedAnswers<I, Q, A> {
    /// The answer to this question.
    pub(crate) fn of(&self, question: &Q) -> Arc<SharedAnswer<I, A>> {
        let mut answers = self.0.lock();
        if let Some((_, answer)) = answers.iter().find(|(known, _)| known == question) {
            return Arc::clone(answer);
        }
        if answers.len() == QUESTIONS_MAX {
            answers.pop_front();
        }
        let answer = Arc::<SharedAnswer<I, A>>::default();
        answers.push_back((question.clone(), Arc::clone(&answer)));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_own_answer_and_the_oldest_makes_room() {
        let answers = SharedAnswers::<(), usize, ()>::default();
        let first = answers.of(&0);
        for question in 1..QUESTIONS_MAX {
            assert!(!Arc::ptr_eq(&first, &answers.of(&question)));
        }
        assert!(Arc::ptr_eq(&first, &answers.of(&0)), "there is room for this many");
        answers.of(&QUESTIONS_MAX);
        assert!(!Arc::ptr_eq(&first, &answers.of(&0)), "one more takes the place of the oldest");
    }
}

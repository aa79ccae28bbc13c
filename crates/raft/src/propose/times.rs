//! Where the time of one proposal went, for traces and for the log of slow requests.

use crate::base::error::ProposeError;
use fairhold_state::command::Answer;
use fairhold_trace::{Stage, StageTime};
use fairhold_types::trace_context::SpanId;
use std::time::Duration;

pub(crate) type ProposalOutcome = Result<Answer, ProposeError>;

/// The time after a proposal was handed over. Without `worked` nobody answered, or it was never handed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProposalTimes {
    /// From the end of the queue to the answer.
    pub(crate) worked: Option<Duration>,
    /// The part of it in which this node applied the batch.
    pub(crate) applied: Duration,
    /// Whether another node did the work.
    pub(crate) is_forwarded: bool,
}

/// The outcome of a proposal, and where its time went.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) outcome: ProposalOutcome,
    pub(crate) times: ProposalTimes,
}

impl From<ProposalOutcome> for Answered {
    fn from(outcome: ProposalOutcome) -> Answered {
        Answered { outcome, times: ProposalTimes::default() }
    }
}

impl Answered {
    /// The stages of a proposal that was answered now, `total` after it was submitted. If another node did the work, it
    /// knows this span.
    pub(crate) fn stages(&self, total: Duration, span: Option<SpanId>) -> impl Iterator<Item = StageTime> + use<> {
        let ProposalTimes { worked, applied, is_forwarded } = self.times;
        // If its deadline passed after it was handed over, the queue was the smaller part.
        let is_unknown = matches!(self.outcome, Err(ProposeError::Unknown(_)));
        let worked = worked.unwrap_or(if is_unknown { total } else { Duration::ZERO }).min(total);
        let applied = applied.min(worked);
        let queue = StageTime { ended_ago: worked, ..StageTime::now(Stage::Queue, total - worked) };
        let work = if is_forwarded {
            StageTime { span, ..StageTime::now(Stage::Forward, worked) }
        } else {
            StageTime { ended_ago: applied, ..StageTime::now(Stage::Commit, worked - applied) }
        };
        let apply = StageTime::now(Stage::Apply, applied);
        [queue, work, apply].into_iter().filter(|stage| stage.stage == Stage::Queue || !stage.took.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::{NotProposed, UnknownReason};

    const MS: Duration = Duration::from_millis(1);

    fn stages(outcome: ProposalOutcome, times: ProposalTimes) -> Vec<(Stage, u128, u128)> {
        let stages = Answered { outcome, times }.stages(10 * MS, None);
        stages.map(|stage| (stage.stage, stage.took.as_millis(), stage.ended_ago.as_millis())).collect()
    }

    #[test]
    fn the_stages_follow_each_other_and_end_with_the_answer() {
        let times = ProposalTimes { worked: Some(7 * MS), applied: 2 * MS, is_forwarded: false };
        let local = stages(Err(NotProposed::NoLeader.into()), times);
        assert_eq!(local, [(Stage::Queue, 3, 7), (Stage::Commit, 5, 2), (Stage::Apply, 2, 0)]);
        let times = ProposalTimes { worked: Some(7 * MS), applied: Duration::ZERO, is_forwarded: true };
        assert_eq!(stages(Err(NotProposed::NoLeader.into()), times), [(Stage::Queue, 3, 7), (Stage::Forward, 7, 0)]);
    }

    #[test]
    fn without_an_answer_the_outcome_says_where_the_time_went() {
        let none = ProposalTimes::default();
        assert_eq!(stages(Err(NotProposed::Overloaded.into()), none), [(Stage::Queue, 10, 0)]);
        let unknown = stages(Err(UnknownReason::Deadline.into()), none);
        assert_eq!(unknown, [(Stage::Queue, 0, 10), (Stage::Commit, 10, 0)]);
        let late = ProposalTimes { worked: Some(99 * MS), applied: 98 * MS, is_forwarded: false };
        assert_eq!(stages(Err(UnknownReason::Deadline.into()), late).first(), Some(&(Stage::Queue, 0, 10)), "clocks differ");
    }
}

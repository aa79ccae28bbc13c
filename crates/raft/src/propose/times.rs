//! Where the time of one proposal went, for traces and for the log of slow requests.

use crate::base::error::ProposeError;
use fairhold_state::command::Answer;
use fairhold_trace::{Stage, StageTime};
use fairhold_types::trace_context::SpanId;
use openraft::Instant;
use std::{sync::Arc, time::Duration};

pub(crate) type ProposalOutcome = Result<Answer, ProposeError>;

/// The time after a proposal was handed over. Without `worked` it was never handed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProposalTimes {
    /// From the end of the queue to the answer, or until the caller gave up.
    pub(crate) worked: Option<Duration>,
    /// The part of it in which this node applied the batch.
    pub(crate) applied: Duration,
    /// Whether another node did the work.
    pub(crate) is_forwarded: bool,
}

/// When a batch was handed over, and to whom. Its commands share it.
#[derive(Clone)]
pub(crate) struct HandOver {
    /// How long ago it was. The queue of the commands knows no runtime, whose clock this is.
    pub(crate) elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Whether another node does the work.
    pub(crate) is_forwarded: bool,
}

impl HandOver {
    pub(crate) fn now<I: Instant>(is_forwarded: bool) -> HandOver {
        let since = I::now();
        HandOver { elapsed: Arc::new(move || since.elapsed()), is_forwarded }
    }

    /// The times of a proposal that ends now. This node has applied it for this long.
    pub(crate) fn times(&self, applied: Duration) -> ProposalTimes {
        ProposalTimes { worked: Some((self.elapsed)()), applied, is_forwarded: self.is_forwarded }
    }
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

impl ProposalTimes {
    /// The stages of a proposal that ends now, `total` after it was submitted. If another node did the work, it knows this
    /// span.
    pub(crate) fn stages(self, total: Duration, span: Option<SpanId>) -> impl Iterator<Item = StageTime> + use<> {
        let ProposalTimes { worked, applied, is_forwarded } = self;
        let worked = worked.unwrap_or_default().min(total);
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

    const MS: Duration = Duration::from_millis(1);

    fn stages(times: ProposalTimes) -> Vec<(Stage, u128, u128)> {
        let stages = times.stages(10 * MS, None);
        stages.map(|stage| (stage.stage, stage.took.as_millis(), stage.ended_ago.as_millis())).collect()
    }

    #[test]
    fn the_stages_follow_each_other_and_end_with_the_answer() {
        let local = ProposalTimes { worked: Some(7 * MS), applied: 2 * MS, is_forwarded: false };
        assert_eq!(stages(local), [(Stage::Queue, 3, 7), (Stage::Commit, 5, 2), (Stage::Apply, 2, 0)]);
        let forwarded = ProposalTimes { worked: Some(7 * MS), applied: Duration::ZERO, is_forwarded: true };
        assert_eq!(stages(forwarded), [(Stage::Queue, 3, 7), (Stage::Forward, 7, 0)]);
    }

    #[test]
    fn a_proposal_that_was_never_handed_over_was_in_the_queue() {
        assert_eq!(stages(ProposalTimes::default()), [(Stage::Queue, 10, 0)]);
        let late = ProposalTimes { worked: Some(99 * MS), applied: 98 * MS, is_forwarded: false };
        assert_eq!(stages(late).first(), Some(&(Stage::Queue, 0, 10)), "clocks differ");
    }
}

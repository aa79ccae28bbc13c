//! Proposes the commands of a node's callers.

use crate::{
    base::error::ProposeError,
    propose::{
        lanes::Lane,
        queue::SubmittedCommand,
        times::{Answered, ProposalTimes},
    },
    replica::Replica,
};
use fairhold_state::command::{Answer, Command};
use fairhold_trace::RequestWork;
use fairhold_types::trace_context::{SpanId, TraceContext};
use openraft::{AsyncRuntime, Instant};
use std::time::Duration;

/// For which request a command is proposed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Proposer<'r> {
    /// The tenant of its caller. The tenants of a node take turns.
    pub tenant: Option<u64>,
    /// Gets the stages of the proposal.
    pub work: Option<&'r RequestWork>,
}

/// The stages of one proposal, over all its attempts. Dropped before the outcome is known, because the client of the request
/// has left, it records the stage until then.
struct ProposalStages<'r, RT: AsyncRuntime> {
    work: Option<&'r RequestWork>,
    /// The end of the last stage.
    since: RT::Instant,
    /// The span of the work at another node.
    span: Option<SpanId>,
    submitted: Option<SubmittedCommand>,
    has_outcome: bool,
}

impl<'r, RT: AsyncRuntime> ProposalStages<'r, RT> {
    fn begin(work: Option<&'r RequestWork>, now: RT::Instant) -> Self {
        ProposalStages { work, since: now, span: None, submitted: None, has_outcome: false }
    }

    /// The span of the next attempt's work at another node, if the request is traced.
    fn next_span(&mut self) -> Option<TraceContext> {
        let next = self.work.and_then(RequestWork::next_span);
        self.span = next.map(|next| next.span);
        next
    }

    /// Waits for the answer to an attempt.
    async fn answered(&mut self, submitted: SubmittedCommand, deadline: RT::Instant) -> Answered {
        self.submitted.insert(submitted).answered::<RT>(deadline).await
    }

    /// The attempt has ended now, with these times. If another attempt follows, the time until then is a part of its queue.
    fn end_attempt(&mut self, times: ProposalTimes, now: RT::Instant) {
        self.submitted = None;
        if let Some(work) = self.work {
            let stages = times.stages(now.saturating_duration_since(self.since), self.span);
            stages.for_each(|stage| work.record(stage));
            self.since = now;
        }
    }
}

impl<RT: AsyncRuntime> Drop for ProposalStages<'_, RT> {
    fn drop(&mut self) {
        if !self.has_outcome {
            let times = self.submitted.as_ref().map(SubmittedCommand::times).unwrap_or_default();
            self.end_attempt(times, RT::Instant::now());
        }
    }
}

impl<RT: AsyncRuntime> Replica<RT> {
    /// Proposes a command, on any node, and waits for the state machine's answer.
    ///
    /// It is retried within the deadline while it was definitely not proposed, and never after that.
    pub async fn propose(&self, command: Command, deadline: RT::Instant) -> Result<Answer, ProposeError> {
        self.propose_for(Proposer::default(), &command, deadline).await
    }

    /// The same for a request.
    pub async fn propose_for(
        &self,
        Proposer { tenant, work }: Proposer<'_>,
        command: &Command,
        deadline: RT::Instant,
    ) -> Result<Answer, ProposeError> {
        if let Err(rejection) = command.validate() {
            return Ok(self.core.shared.rejected(rejection));
        }
        let started_at = RT::Instant::now();
        let mut stages = ProposalStages::<RT>::begin(work, started_at);
        loop {
            let trace = stages.next_span();
            let answered = match self.queues.proposals.submit_traced(Lane::Own(tenant), command.clone(), false, trace) {
                Ok(submitted) => stages.answered(submitted, deadline).await,
                Err(reason) => Answered::from(Err(reason.into())),
            };
            let ended_at = RT::Instant::now();
            stages.end_attempt(answered.times, ended_at);
            let outcome = answered.outcome;
            let metrics = &self.core.shared.metrics;
            metrics.record(&outcome);
            match &outcome {
                Err(ProposeError::NotProposed(reason)) if reason.awaits_leader() => {
                    if self.core.pause(deadline).await {
                        continue;
                    }
                    stages.end_attempt(ProposalTimes::default(), RT::Instant::now());
                }
                Err(_) => {}
                Ok(_) => metrics.histograms.proposal.observe(ended_at.saturating_duration_since(started_at)),
            }
            stages.has_outcome = true;
            return outcome;
        }
    }

    /// Like `propose`, with a time limit instead of a deadline, for callers without the runtime's clock.
    pub async fn propose_within(&self, command: Command, limit: Duration) -> Result<Answer, ProposeError> {
        self.propose(command, RT::Instant::now() + limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propose::{queue, times::HandOver};
    use fairhold_trace::Stage;
    use fairhold_types::Revision;
    use futures_util::FutureExt as _;
    use openraft_rt_tokio::{TokioInstant, TokioRuntime};
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(10);
    const WORKED: Duration = Duration::from_secs(3);

    /// The times in the queue, at another node and in the log, after the client has left. It came long ago.
    async fn stages_after_leaving(handed_over: Option<HandOver>) -> [Duration; 3] {
        let (queue, mut batcher) = queue::new(1_000_000);
        let work = RequestWork::default();
        let mut stages = ProposalStages::<TokioRuntime>::begin(Some(&work), TokioInstant::now());
        stages.since = TokioInstant::now() - LONG;
        let submitted = queue.submit(Command::Forget { through: Revision(1) }, false).unwrap();
        let answered = stages.answered(submitted, TokioInstant::now() + LONG).now_or_never();
        assert!(answered.is_none());
        let first = batcher.first().await.unwrap();
        let batch = batcher.gather(first);
        let _unanswered: Vec<_> = match &handed_over {
            Some(handed_over) => batch.into_iter().map(|proposal| proposal.hand_over(handed_over)).collect(),
            None => Vec::new(),
        };
        drop(stages);
        [Stage::Queue, Stage::Forward, Stage::Commit].map(|stage| work.time(stage))
    }

    #[tokio::test]
    async fn a_client_that_leaves_does_not_hide_the_stage_of_its_command() {
        let [queue, forward, commit] = stages_after_leaving(None).await;
        assert!(queue >= LONG && forward.is_zero() && commit.is_zero());
        for is_forwarded in [false, true] {
            let handed_over = HandOver { elapsed: Arc::new(|| WORKED), is_forwarded };
            let [queue, forward, commit] = stages_after_leaving(Some(handed_over)).await;
            assert!(queue >= LONG - WORKED, "{queue:?}");
            assert_eq!([forward, commit], if is_forwarded { [WORKED, Duration::ZERO] } else { [Duration::ZERO, WORKED] });
        }
    }

    #[test]
    fn the_wait_for_a_leader_is_a_part_of_the_queue() {
        let work = RequestWork::default();
        let mut stages = ProposalStages::<TokioRuntime>::begin(Some(&work), TokioInstant::now());
        stages.end_attempt(ProposalTimes::default(), TokioInstant::now());
        stages.since = TokioInstant::now() - LONG;
        let times = ProposalTimes { worked: Some(WORKED), applied: Duration::ZERO, is_forwarded: false };
        stages.end_attempt(times, TokioInstant::now());
        assert!(work.time(Stage::Queue) >= LONG - WORKED);
        stages.since = TokioInstant::now() - LONG;
        stages.has_outcome = true;
        drop(stages);
        assert!(work.time(Stage::Queue) < LONG, "the time after the outcome is none of its stages");
    }
}

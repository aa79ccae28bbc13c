//! Proposes the commands of a node's callers.

use crate::{
    base::error::ProposeError,
    propose::{lanes::Lane, times::Answered},
    replica::Replica,
};
use fairhold_state::command::{Answer, Command};
use fairhold_trace::RequestWork;
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

impl<RT: AsyncRuntime> Replica<RT> {
    /// Proposes a command, on any node, and waits for the state machine's answer.
    ///
    /// It is retried within the deadline while it was definitely not proposed, and never after that.
    pub async fn propose(&self, command: Command, deadline: RT::Instant) -> Result<Answer, ProposeError> {
        self.propose_for(Proposer::default(), command, deadline).await
    }

    /// The same for a request.
    pub async fn propose_for(
        &self,
        Proposer { tenant, work }: Proposer<'_>,
        command: Command,
        deadline: RT::Instant,
    ) -> Result<Answer, ProposeError> {
        if let Err(rejection) = command.validate() {
            return Ok(self.core.shared.rejected(rejection));
        }
        let started_at = RT::Instant::now();
        let mut submitted_at = started_at;
        loop {
            let trace = work.and_then(RequestWork::next_span);
            let answered = match self.queues.proposals.submit_traced(Lane::Own(tenant), command.clone(), false, trace) {
                Ok(mut submitted) => submitted.answered::<RT>(deadline).await,
                Err(reason) => Answered::from(Err(reason.into())),
            };
            if let Some(work) = work {
                let stages = answered.times.stages(submitted_at.elapsed(), trace.map(|trace| trace.span));
                stages.for_each(|stage| work.record(stage));
            }
            let outcome = answered.outcome;
            let metrics = &self.core.shared.metrics;
            metrics.record(&outcome);
            match &outcome {
                Err(ProposeError::NotProposed(reason)) if reason.awaits_leader() && self.core.pause(deadline).await => {
                    submitted_at = RT::Instant::now();
                    continue;
                }
                Err(_) => {}
                Ok(_) => metrics.histograms.proposal.observe(started_at.elapsed()),
            }
            return outcome;
        }
    }

    /// Like `propose`, with a time limit instead of a deadline, for callers without the runtime's clock.
    pub async fn propose_within(&self, command: Command, limit: Duration) -> Result<Answer, ProposeError> {
        self.propose(command, RT::Instant::now() + limit).await
    }
}

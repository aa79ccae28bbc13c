//! Proposes the commands of a node's callers.

use crate::{base::error::ProposeError, propose::lanes::Lane, replica::Replica};
use fairhold_state::command::{Answer, Command};
use openraft::{AsyncRuntime, Instant};
use std::time::Duration;

impl<RT: AsyncRuntime> Replica<RT> {
    /// Proposes a command, on any node, and waits for the state machine's answer.
    ///
    /// It is retried within the deadline while it was definitely not proposed, and never after that.
    pub async fn propose(&self, command: Command, deadline: RT::Instant) -> Result<Answer, ProposeError> {
        self.propose_for(None, command, deadline).await
    }

    /// The same for a caller of this tenant. The tenants of a node take turns.
    pub async fn propose_for(
        &self,
        tenant: Option<u64>,
        command: Command,
        deadline: RT::Instant,
    ) -> Result<Answer, ProposeError> {
        if let Err(rejection) = command.validate() {
            return Ok(self.core.shared.rejected(rejection));
        }
        let started_at = RT::Instant::now();
        loop {
            let outcome = match self.queues.proposals.submit_in(Lane::Own(tenant), command.clone(), false) {
                Ok(submitted) => submitted.outcome::<RT>(deadline).await,
                Err(reason) => Err(reason.into()),
            };
            let metrics = &self.core.shared.metrics;
            metrics.record(&outcome);
            match &outcome {
                Err(ProposeError::NotProposed(reason)) if reason.awaits_leader() && self.core.pause(deadline).await => continue,
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

//! Serves commands that another node forwards to the leader.

use crate::{
    base::{error::NotProposed, wall_clock::wall_now, wire::TracedCommand},
    core::Core,
    propose::{
        lanes::Lane,
        queue::{ProposalQueue, SubmittedCommand},
        times::ProposalOutcome,
    },
};
use fairhold_state::command::{Answer, Command, Rejection};
use fairhold_types::{
    NodeId,
    planted::{self, Bug},
    trace_context::TraceContext,
};
use futures_util::future::join_all;
use openraft::{AsyncRuntime, Instant};
use std::time::Duration;

/// Why node `from` may not forward a command; `None` if it may. Only the leader proposes the commands of its clocks and
/// other housekeeping, each node reports only its own capacity, and all other commands must respect the limits for
/// clients.
pub(crate) fn refusal(from: NodeId, command: &Command) -> Option<Rejection> {
    if is_for_leader(command) {
        return Some(Rejection::Unsupported { what: "a verdict of the leader from a node that does not lead".to_owned() });
    }
    if let Command::RecordCapacity { node, .. } = command.unguarded()
        && *node != from
    {
        return Some(Rejection::Unsupported { what: format!("a report by node {from} of the capacity of node {node}") });
    }
    command.validate().err()
}

/// Serves forwarded commands: batches each with this node's own, and does not forward it again. The stages of commands of
/// traced requests become spans.
pub(super) async fn serve<RT: AsyncRuntime>(
    core: &Core<RT>,
    proposals: &ProposalQueue,
    from: NodeId,
    (commands, traced): (Vec<Command>, Vec<TracedCommand>),
    within: Duration,
) -> Vec<ProposalOutcome> {
    let submitted_at = RT::Instant::now();
    let deadline = submitted_at + within;
    let submit = |command: Command| match refusal(from, &command) {
        Some(rejection) => Err(Ok(core.shared.rejected(rejection))),
        None => proposals.submit_in(Lane::Of(from), with_own_times(command), true).map_err(|reason| {
            core.shared.metrics.refused(reason).inc();
            Err(reason)
        }),
    };
    let submitted: Vec<Submitted> = commands.into_iter().map(submit).collect();
    let contexts = contexts(submitted.len(), &traced);
    let waiting = submitted.into_iter().zip(contexts);
    let times = (submitted_at, deadline);
    if !traced.is_empty() {
        // The span of a command ends with its own answer.
        return join_all(waiting.map(|(submitted, context)| outcome_of(core, submitted, context, times))).await;
    }
    // The outcomes go back together. Waiting for one command after the other takes fewer wake-ups and timers than
    // waiting for all of them at once.
    let mut outcomes = Vec::with_capacity(waiting.len());
    for (submitted, context) in waiting {
        outcomes.push(outcome_of(core, submitted, context, times).await);
    }
    outcomes
}

/// The command with times of this node's clock, if its rules depend on them: the leader judges when a join token expires.
fn with_own_times(command: Command) -> Command {
    if command.creates_join_token() { command.with_token_times(wall_now()) } else { command }
}

/// A submitted command, or what its caller gets at once: the answer to a rejected one, or why the queue refused it.
type Submitted = Result<SubmittedCommand, Result<Answer, NotProposed>>;

/// Waits for the outcome of a command.
async fn outcome_of<RT: AsyncRuntime>(
    core: &Core<RT>,
    submitted: Submitted,
    context: Option<TraceContext>,
    (submitted_at, deadline): (RT::Instant, RT::Instant),
) -> ProposalOutcome {
    match submitted {
        Ok(mut submitted) => {
            let answered = submitted.answered::<RT>(deadline).await;
            if let Some(context) = context {
                let stages = answered.times.stages(submitted_at.elapsed(), None);
                stages.for_each(|stage| core.tracer.finish_stage(context, stage));
            }
            core.shared.metrics.record(&answered.outcome);
            answered.outcome
        }
        Err(Ok(answer)) => Ok(answer),
        Err(Err(reason)) => Err(reason.into()),
    }
}

/// The span of each of this many commands. Another node says which are traced, so an index may be wrong.
fn contexts(count: usize, traced: &[TracedCommand]) -> Vec<Option<TraceContext>> {
    let mut contexts = vec![None; count];
    for command in traced {
        let index = usize::try_from(command.index).ok();
        if let Some(context) = index.and_then(|index| contexts.get_mut(index)) {
            *context = Some(command.context);
        }
    }
    contexts
}

/// Whether only the leader may propose this command.
fn is_for_leader(command: &Command) -> bool {
    command.is_leader_only() && !planted::has(Bug::ExpiresByOldLeader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::command::{Break, WriteKey};
    use fairhold_types::{
        GrantId, LockName, Revision,
        time::WallMillis,
        trace_context::{SpanId, TraceId},
    };

    #[test]
    fn a_wrong_index_of_a_traced_command_is_ignored() {
        let context = TraceContext { trace: TraceId([1; 16]), span: SpanId([2; 8]) };
        let traced = [1, 2, u32::MAX].map(|index| TracedCommand { index, context });
        assert_eq!(contexts(2, &traced), [None, Some(context)]);
    }

    #[test]
    fn verdicts_and_commands_over_the_limits_may_not_be_forwarded() {
        let order = |name: &str| {
            let lock = LockName::parse(name).unwrap();
            let key = WriteKey { key: GrantId::from_ulid(1), fingerprint: [0; 16] };
            let (by, reason) = ("root".to_owned(), String::new());
            Command::Break(Break { key, lock, token: None, by, reason, at: WallMillis(0) })
        };
        assert_eq!(refusal(2, &order("printer")), None);
        assert!(refusal(2, &order("2-lock-0000000000")).unwrap().to_string().contains("a contender's name"));
        let verdict = Command::Forget { through: Revision(7) };
        assert!(refusal(2, &verdict).unwrap().to_string().contains("a verdict of the leader"));
        let capacity = |bytes| Command::RecordCapacity { node: 2, bytes };
        assert_eq!(refusal(2, &capacity(1_000_000)), None);
        assert!(refusal(3, &capacity(1_000_000)).unwrap().to_string().contains("a report by node 3 of the capacity of node 2"));
        assert!(refusal(2, &capacity(0)).unwrap().to_string().contains("a capacity of 0"));
    }
}

//! Deliberate handover of the leadership: before a node stops, and on an operator's request.
//!
//! A leader that hands over accepts no proposals and sends no heartbeats until another node leads: openraft cannot
//! cancel a handover. So everything that can be checked is checked first, above all whether the target answers and has
//! nearly all of the log.

use crate::{
    base::{
        error::{HandoverError, ProposeError},
        types::Types,
        wire::{HandedOver, PeerReply, PeerRequest},
    },
    core::{CallError, Core, LeaderRoute, status::is_silent},
    queues::Queues,
};
use fairhold_state::command::{AccessGuard, Command, Outcome, Rejection, WriteKey};
use fairhold_types::{NodeId, duration, failpoint, time::WallMillis};
use openraft::{AsyncRuntime, Instant, RaftMetrics};
use std::time::Duration;

/// Time limit of a handover, in leases: the target must win an election.
const HANDOVER_LEASES: u32 = 4;
/// Maximum number of entries that the target may be behind. It must receive them before its election, and nothing is
/// proposed meanwhile.
const HANDOVER_LAG_MAX: u64 = 1_000;

/// If this node leads and there is another voter, hands the leadership to the voter most likely to take it, preferring
/// one with free disk space, and waits briefly for the result.
pub(crate) async fn transfer<RT: AsyncRuntime>(core: &Core<RT>) {
    let leads = core.leadership().is_some();
    let best = core.with_metrics(|metrics| {
        let voters = metrics.membership_config.voter_ids().filter(|voter| *voter != metrics.id);
        let has_room = |id| core.disk_room.has_room(metrics.id, id, RT::Instant::now());
        voters.max_by_key(|id| (!is_silent(core.lease, metrics, *id), has_room(*id), matched(metrics, *id)))
    });
    let Some(best) = best.filter(|_| leads) else { return };
    tracing::info!(node = best, "transferring the leadership to node {best}");
    if !transfer_to(core, best).await {
        tracing::warn!(node = best, "node {best} did not become the leader in time; the others will elect a leader");
    }
}

/// Hands over on an operator's request, from whichever node leads. After `Ok`, this node's status names the member as
/// the leader. A key that was used before changes nothing, and any member may lead.
pub(crate) async fn hand_over<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    to: NodeId,
    (key, guard): (Option<WriteKey>, Option<AccessGuard>),
    deadline: RT::Instant,
) -> Result<(), HandoverError> {
    let done = loop {
        let result = match core.route() {
            LeaderRoute::Local => Some(serve(core, queues, to, (key, guard), deadline).await),
            LeaderRoute::Remote(leader) => {
                let within_ms = duration::millis(deadline.saturating_duration_since(RT::Instant::now()));
                let request = match guard {
                    Some(guard) => PeerRequest::HandOverGuarded { to, key, within_ms, guard },
                    None => PeerRequest::HandOver { to, key, within_ms },
                };
                match core.until_leader_changes(RT::timeout_at(deadline, core.call(&leader, &request))).await {
                    Some(Ok(Ok(PeerReply::HandedOver(done)))) => Some(done),
                    Some(Ok(Err(CallError::NotDelivered(_)))) => None,
                    // The handover may have begun.
                    Some(Ok(Ok(_) | Err(CallError::Lost)) | Err(_)) | None => Some(Ok(HandedOver::Now)),
                }
            }
            LeaderRoute::Unknown => None,
        };
        match result {
            Some(Err(HandoverError::NoLeader)) | None if core.pause(deadline).await => {}
            Some(done) => break done,
            None => break Err(HandoverError::NoLeader),
        }
    };
    if done? == HandedOver::Before {
        return Ok(());
    }
    // Waits for the metrics that a status shows. They change last, so the status names the new leader after this.
    let leads = core.until_any_metrics(|metrics| (metrics.current_leader == Some(to)).then_some(()));
    match RT::timeout_at(deadline, leads).await {
        Ok(Some(())) => Ok(()),
        Ok(None) | Err(_) => Err(HandoverError::Unfinished { to }),
    }
}

/// Hands over if this node leads.
pub(crate) async fn serve<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    to: NodeId,
    (key, guard): (Option<WriteKey>, Option<AccessGuard>),
    deadline: RT::Instant,
) -> Result<HandedOver, HandoverError> {
    let leadership = core.leadership().ok_or(HandoverError::NoLeader)?;
    // A new leader may not have applied everything from the previous leader yet, perhaps including this key or a
    // revocation.
    let caught_up = async { core.applied(queues.barriers.next(false).await.ok()?).await };
    RT::timeout_at(deadline, caught_up).await.ok().flatten().ok_or(HandoverError::NoLeader)?;
    if core.leadership() != Some(leadership) {
        return Err(HandoverError::NoLeader);
    }
    // Comes before the other checks: an earlier copy of this request may have changed their results.
    if let Some(key) = key
        && core.shared.read().was_written(key).map_err(|_| HandoverError::OtherRequest)?
    {
        return Ok(HandedOver::Before);
    }
    check_guard(core, guard)?;
    core.with_metrics(|metrics| may_take_over(core.lease, metrics, to))?;
    if let Some(key) = key {
        if !record_key::<RT>(queues, to, key, deadline).await? {
            return Ok(HandedOver::Before);
        }
        // With its key in the log, the same request does nothing any more, even if a new decision permits it.
        check_guard(core, guard).map_err(|_| HandoverError::Unfinished { to })?;
    }
    tracing::info!(node = to, "transferring the leadership to node {to}, as requested");
    match RT::timeout_at(deadline, transfer_to(core, to)).await {
        Ok(true) => Ok(HandedOver::Now),
        Ok(false) | Err(_) => Err(HandoverError::Unfinished { to }),
    }
}

/// Refuses a handover if the rights of its principal were narrowed after it was decided. It is no command of the state,
/// so `apply` compares no guard: this does, directly before the handover.
fn check_guard<RT: AsyncRuntime>(core: &Core<RT>, guard: Option<AccessGuard>) -> Result<(), HandoverError> {
    let state = core.shared.read();
    state.require_guard(guard).map_err(|_| HandoverError::AccessChanged { revision: state.revision() })
}

/// Records the key in the log, so that a late retry does nothing; returns whether the key was new.
async fn record_key<RT: AsyncRuntime>(
    queues: &Queues,
    to: NodeId,
    key: WriteKey,
    deadline: RT::Instant,
) -> Result<bool, HandoverError> {
    // The time is only for display, and this one is never shown.
    let submitted = queues.proposals.submit(Command::RecordKey { key, at: WallMillis(0) }, true);
    let outcome = match submitted {
        Ok(submitted) => submitted.outcome::<RT>(deadline).await,
        Err(reason) => Err(reason.into()),
    };
    match outcome {
        Ok(answer) => match answer.result {
            Ok(outcome) => Ok(outcome == Outcome::Done),
            Err(Rejection::MemoryFull { .. } | Rejection::StateFull { .. }) => Err(HandoverError::TooManyKeys),
            Err(_) => Err(HandoverError::OtherRequest),
        },
        Err(ProposeError::NotProposed(_)) => Err(HandoverError::NoLeader),
        Err(ProposeError::Unknown(_)) => Err(HandoverError::Unfinished { to }),
    }
}

/// Checks whether a member may take over from this leader.
fn may_take_over<RT: AsyncRuntime>(lease: Duration, metrics: &RaftMetrics<Types<RT>>, to: NodeId) -> Result<(), HandoverError> {
    let membership = &metrics.membership_config;
    if membership.get_node(&to).is_none() {
        return Err(HandoverError::NotMember { to, members: membership.nodes().map(|(id, _)| *id).collect() });
    }
    if to == metrics.id {
        return Err(HandoverError::AlreadyLeader { to });
    }
    if !membership.voter_ids().any(|voter| voter == to) {
        return Err(HandoverError::NoVote { to, voters: membership.voter_ids().collect() });
    }
    if is_silent(lease, metrics, to) {
        return Err(HandoverError::Silent { to });
    }
    let lag = metrics.last_log_index.map_or(0, |index| index + 1).saturating_sub(matched(metrics, to));
    if lag > HANDOVER_LAG_MAX {
        return Err(HandoverError::Behind { to, lag });
    }
    Ok(())
}

/// How many entries a member is known to have.
fn matched<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>, id: NodeId) -> u64 {
    let known = metrics.replication.as_ref().and_then(|replication| replication.get(&id));
    known.and_then(|log_id| log_id.as_ref()).map_or(0, |log_id| log_id.index + 1)
}

/// Starts the handover and waits until another node leads; returns whether one does.
pub(crate) async fn transfer_to<RT: AsyncRuntime>(core: &Core<RT>, to: NodeId) -> bool {
    if failpoint!(RaftTransferBegin, RT).is_err() || core.raft.trigger().transfer_leader(to).await.is_err() {
        return false;
    }
    let other_leads = core.until(|metrics| {
        let elsewhere = metrics.current_leader.is_some_and(|leader| leader != metrics.id);
        elsewhere.then_some(())
    });
    let limit: Duration = core.lease * HANDOVER_LEASES;
    RT::timeout(limit, other_leads).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{
            aliases::{LeaderId, Members},
            types::Member,
        },
        core::status::SILENT_LEASES,
    };
    use openraft::{LogId, Membership, metrics::SerdeInstant};
    use openraft_rt_tokio::TokioRuntime;
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
    };

    const LEASE: Duration = Duration::from_secs(1);
    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    /// The metrics of node 1 as the leader of three voters and a learner, with a log that ends at `last`. `others` says
    /// how much of the log each other node has, and when it last answered.
    fn leader(last: u64, others: &[(NodeId, Option<u64>, Moment)]) -> RaftMetrics<Types<TokioRuntime>> {
        let mut metrics = RaftMetrics::new_initial(1);
        let nodes: BTreeMap<NodeId, Member> = (1..=4).map(|id| (id, Member::default())).collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2, 3])], nodes).unwrap();
        metrics.membership_config = Arc::new(Members::new(None, membership));
        let leader_id = LeaderId { term: 1, node_id: 1 };
        let reached = |index: Option<u64>| index.map(|index| LogId { leader_id, index });
        metrics.last_log_index = Some(last);
        metrics.replication = Some(others.iter().map(|(id, index, _)| (*id, reached(*index))).collect());
        metrics.heartbeat =
            Some(others.iter().map(|(id, _, answered_at)| (*id, Some(SerdeInstant::new(*answered_at)))).collect());
        metrics
    }

    #[test]
    fn only_a_voter_that_answers_and_has_nearly_all_of_the_log_may_take_over() {
        let now = <Moment as Instant>::now();
        let long_ago = now - LEASE * (SILENT_LEASES + 1);
        let metrics = leader(5_000, &[(2, Some(4_000), now), (3, Some(5_000), long_ago), (4, Some(5_000), now)]);
        let check = |to| may_take_over(LEASE, &metrics, to);
        assert_eq!(check(2), Ok(()));
        assert_eq!(check(1), Err(HandoverError::AlreadyLeader { to: 1 }));
        assert_eq!(check(3), Err(HandoverError::Silent { to: 3 }));
        assert_eq!(check(4), Err(HandoverError::NoVote { to: 4, voters: vec![1, 2, 3] }));
        assert_eq!(check(9), Err(HandoverError::NotMember { to: 9, members: vec![1, 2, 3, 4] }));
        let behind = leader(5_000, &[(2, Some(3_999), now), (3, None, now)]);
        assert_eq!(may_take_over(LEASE, &behind, 2), Err(HandoverError::Behind { to: 2, lag: 1_001 }));
        assert_eq!(may_take_over(LEASE, &behind, 3), Err(HandoverError::Behind { to: 3, lag: 5_001 }));
    }

    #[test]
    fn every_refusal_names_the_node_and_the_reason() {
        let error = HandoverError::NotMember { to: 9, members: vec![1, 2, 3] };
        assert_eq!(error.to_string(), "node 9 is not a member of the cluster: the members are 1, 2, 3");
        assert!(HandoverError::Behind { to: 2, lag: 1_001 }.to_string().contains("1001 log entries behind"));
    }
}

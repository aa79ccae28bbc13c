//! The upgrade of a running cluster to its next version, when every member runs a program that supports it.
//!
//! etcd raises its cluster version by itself, seconds after the last member restarts, and then an older program cannot
//! start any more. Here an operator decides when the way back ends, or sets how long it stays open (`finalizer`).

use crate::{
    base::{
        error::{FinalizeError, ProposeError},
        types::Types,
        upgrade_status::{MemberProgram, UpgradeStatus},
        wire::{PeerReply, PeerRequest},
    },
    core::{
        CallError, Core, LeaderRoute,
        status::{is_silent, silent_for},
    },
    leadership::reconciler::view::{Answered, ask, is_healthy},
    queues::Queues,
};
use fairhold_state::command::{AccessGuard, Command};
use fairhold_types::{ClusterVersion, NodeId, duration};
use openraft::{AsyncRuntime, Instant, RaftMetrics};
use std::time::Duration;

/// The first version whose programs can be asked about an upgrade and about members.
const TELLS_SINCE: ClusterVersion = ClusterVersion(2);

/// Why the version is raised.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RaiseReason {
    /// An operator requests it. The guard tells by which access data that was decided, if rights are enforced.
    Request(Option<AccessGuard>),
    /// The configuration says so, because every member has supported the version for this long.
    Supported(Duration),
}

/// The status as the leader knows it. Without a reachable leader, as this node knows it.
pub(crate) async fn status<RT: AsyncRuntime>(core: &Core<RT>, deadline: RT::Instant) -> UpgradeStatus {
    if let LeaderRoute::Remote(leader) = core.route()
        && tells(core, leader.id)
        && let Ok(Ok(PeerReply::UpgradeStatus(status))) =
            RT::timeout_at(deadline, core.call(&leader, &PeerRequest::UpgradeStatus)).await
    {
        return status;
    }
    own_status(core)
}

/// The status as this node knows it. Only the leader knows whether the others answer.
pub(crate) fn own_status<RT: AsyncRuntime>(core: &Core<RT>) -> UpgradeStatus {
    status_by(core, |metrics, id| !is_silent(core.lease, metrics, id))
}

/// The status as this leader knows it after a question to all members: only those that answer it do not block.
async fn asked_status<RT: AsyncRuntime>(core: &Core<RT>, deadline: RT::Instant) -> UpgradeStatus {
    let asked_at = RT::Instant::now();
    let members: Vec<NodeId> = core.with_metrics(|metrics| metrics.membership_config.nodes().map(|(id, _)| *id).collect());
    // The other half of the time is for the refusal on its way, or for the command.
    let limit = deadline.saturating_duration_since(asked_at) / 2;
    let answered = RT::timeout(limit, ask(core, members)).await.unwrap_or(Answered::Since(asked_at));
    status_by(core, |metrics, id| is_healthy(core.lease, metrics, id, answered))
}

/// The status by the members that answer this leader.
fn status_by<RT: AsyncRuntime>(core: &Core<RT>, answers: impl Fn(&RaftMetrics<Types<RT>>, NodeId) -> bool) -> UpgradeStatus {
    let version = core.shared.read().cluster_version();
    let next = Some(version.next()).filter(|next| core.program.supports.includes(*next));
    let leads = core.leadership().is_some();
    let older_leader = match core.route() {
        LeaderRoute::Remote(leader) if !tells(core, leader.id) => Some(leader.id),
        LeaderRoute::Remote(_) | LeaderRoute::Local | LeaderRoute::Unknown => None,
    };
    let members = core.with_metrics(|metrics| {
        let ids = metrics.membership_config.nodes().map(|(id, _)| *id);
        ids.map(|id| {
            let is_self = id == core.id;
            let program = if is_self { Some(core.program.clone()) } else { core.programs.of(id) };
            let is_silent = leads && !is_self && !answers(metrics, id);
            (MemberProgram { id, program, silent: silent_for(metrics, id) }, is_silent)
        })
        .collect::<Vec<_>>()
    });
    let mut blockers: Vec<String> = match next {
        Some(next) => members.iter().filter_map(|(member, is_silent)| blocker(member, *is_silent, next, older_leader)).collect(),
        None => Vec::new(),
    };
    if next.is_some() && !leads && blockers.is_empty() {
        blockers.push("no leader answers: a majority of the nodes must be able to reach each other".to_owned());
    }
    UpgradeStatus { version, next, members: members.into_iter().map(|(member, _)| member).collect(), blockers }
}

/// Why a member stands in the way of a version. A leader with an older program tells nothing about the others.
fn blocker(member: &MemberProgram, is_silent: bool, next: ClusterVersion, older_leader: Option<NodeId>) -> Option<String> {
    let id = member.id;
    match &member.program {
        _ if is_silent => Some(format!("node {id} does not answer the leader: start it, or repair the network to it")),
        None => Some(match older_leader {
            Some(leader) => {
                format!("the program of node {id} is unknown while the leader, node {leader}, runs an older program")
            }
            None => format!("node {id} has not introduced itself yet: try again in a second"),
        }),
        Some(program) if !program.supports.includes(next) => {
            let version = program.version.as_deref().unwrap_or("an older program");
            let supports = program.supports;
            Some(format!("node {id} runs {version}, which supports cluster version {supports}: restart it with a newer program"))
        }
        Some(_) => None,
    }
}

/// Raises the cluster's version to the next one, from whichever node leads. If it is `to` already, nothing changes.
pub(crate) async fn finalize<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    to: ClusterVersion,
    guard: Option<AccessGuard>,
    deadline: RT::Instant,
) -> Result<(), FinalizeError> {
    loop {
        let result = match core.route() {
            LeaderRoute::Local => serve(core, queues, to, guard, deadline).await,
            LeaderRoute::Remote(leader) if !tells(core, leader.id) => Err(FinalizeError::Blocked(own_status(core).blockers)),
            LeaderRoute::Remote(leader) => {
                let within_ms = duration::millis(deadline.saturating_duration_since(RT::Instant::now()));
                let request = PeerRequest::FinalizeUpgrade { to, within_ms, guard };
                match RT::timeout_at(deadline, core.call(&leader, &request)).await {
                    Ok(Ok(PeerReply::UpgradeFinalized(result))) => result,
                    Ok(Err(CallError::NotDelivered(_))) => Err(FinalizeError::NoLeader),
                    // A repeated request does nothing, so trying again is safe.
                    Ok(Ok(_) | Err(CallError::Lost)) | Err(_) => Err(FinalizeError::NoLeader),
                }
            }
            LeaderRoute::Unknown => Err(FinalizeError::NoLeader),
        };
        match result {
            Err(FinalizeError::NoLeader) if core.pause(deadline).await => {}
            result => return result,
        }
    }
}

/// Raises the version, as an operator requested, if this node leads, and every member answers and supports it.
pub(crate) async fn serve<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    to: ClusterVersion,
    guard: Option<AccessGuard>,
    deadline: RT::Instant,
) -> Result<(), FinalizeError> {
    raise(core, queues, to, RaiseReason::Request(guard), deadline).await
}

/// Raises the version if this node leads, and every member answers and supports it.
pub(crate) async fn raise<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    to: ClusterVersion,
    reason: RaiseReason,
    deadline: RT::Instant,
) -> Result<(), FinalizeError> {
    let leadership = core.leadership().ok_or(FinalizeError::NoLeader)?;
    // A new leader may not have applied everything from the previous leader yet.
    let caught_up = async { core.applied(queues.barriers.next(false).await.ok()?).await };
    RT::timeout_at(deadline, caught_up).await.ok().flatten().ok_or(FinalizeError::NoLeader)?;
    let status = own_status(core);
    if status.version == to {
        return Ok(());
    }
    match status.next {
        Some(next) if next == to => {}
        next => return Err(FinalizeError::NotNext { to, version: status.version, next }),
    }
    // A leader notices late that a member is silent, and a member that is down may come back with the older program.
    let blockers = asked_status(core, deadline).await.blockers;
    // A leader that was deposed meanwhile knows nothing about the members.
    if core.leadership() != Some(leadership) {
        return Err(FinalizeError::NoLeader);
    }
    if !blockers.is_empty() {
        return Err(FinalizeError::Blocked(blockers));
    }
    check_guard(core, reason)?;
    let why = match reason {
        RaiseReason::Request(_) => "as requested".to_owned(),
        RaiseReason::Supported(time) => format!("because every member has supported it for {}", duration::rounded(time)),
    };
    tracing::info!(version = %to, "raising the cluster's version to {to}, {why}");
    let outcome = match queues.proposals.submit(Command::RaiseClusterVersion { to }, true) {
        Ok(submitted) => submitted.outcome::<RT>(deadline).await,
        Err(reason) => Err(reason.into()),
    };
    match outcome {
        // The command refuses nothing. If it did nothing, another request was faster.
        Ok(_) => Ok(()),
        Err(ProposeError::NotProposed(_) | ProposeError::Unknown(_)) => Err(FinalizeError::NoLeader),
    }
}

/// Refuses a request if the rights of its principal were narrowed after it was decided. The command needs no guard,
/// because the configuration may raise the version too: so `apply` compares none, and this does, directly before it is
/// proposed.
fn check_guard<RT: AsyncRuntime>(core: &Core<RT>, reason: RaiseReason) -> Result<(), FinalizeError> {
    let RaiseReason::Request(guard) = reason else { return Ok(()) };
    let state = core.shared.read();
    state.require_guard(guard).map_err(|_| FinalizeError::AccessChanged { revision: state.revision() })
}

/// Whether a node's program knows the requests of cluster version 2.
pub(crate) fn tells<RT: AsyncRuntime>(core: &Core<RT>, node: NodeId) -> bool {
    core.programs.of(node).is_none_or(|program| program.supports.includes(TELLS_SINCE))
}

/// The highest version that all nodes support: a new cluster gets it. Fails with the nodes that have not introduced
/// themselves yet.
pub(crate) fn first_version<RT: AsyncRuntime>(core: &Core<RT>) -> Result<ClusterVersion, Vec<NodeId>> {
    common_version(own_status(core).members)
}

fn common_version(members: Vec<MemberProgram>) -> Result<ClusterVersion, Vec<NodeId>> {
    let unknown: Vec<NodeId> = members.iter().filter(|member| member.program.is_none()).map(|member| member.id).collect();
    let supported = members.into_iter().filter_map(|member| member.program).map(|program| program.supports.newest());
    supported.min().filter(|_| unknown.is_empty()).ok_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::program::Program;
    use fairhold_types::SupportedVersions;

    #[test]
    fn a_new_cluster_gets_the_highest_version_of_all_nodes_once_each_has_introduced_itself() {
        let member = |id, supports: Option<SupportedVersions>| {
            let program = supports.map(|supports| Program { version: None, supports });
            MemberProgram { id, program, silent: None }
        };
        let (own, older) = (Some(SupportedVersions::OWN), Some(SupportedVersions::UNTOLD));
        assert_eq!(common_version(vec![member(1, own), member(2, own)]), Ok(SupportedVersions::OWN.newest()));
        assert_eq!(common_version(vec![member(1, own), member(2, older)]), Ok(ClusterVersion::FIRST));
        assert_eq!(common_version(vec![member(1, own), member(2, None), member(3, None)]), Err(vec![2, 3]));
    }

    #[test]
    fn an_unknown_program_is_not_expected_soon_while_an_older_one_leads() {
        let unknown = MemberProgram { id: 3, program: None, silent: None };
        let reason = |older_leader| blocker(&unknown, false, ClusterVersion(2), older_leader);
        assert!(reason(None).is_some_and(|text| text.ends_with("try again in a second")));
        let while_older = "the program of node 3 is unknown while the leader, node 1, runs an older program";
        assert_eq!(reason(Some(1)).as_deref(), Some(while_older));
    }
}

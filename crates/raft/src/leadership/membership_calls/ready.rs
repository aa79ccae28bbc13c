//! Whether this node may serve a call about members: it leads, its state is current, and the cluster's version is new
//! enough. It decides one such call at a time.

use crate::{
    base::membership::MembershipError,
    core::{Core, Leadership},
    queues::Queues,
};
use fairhold_state::State;
use fairhold_types::{
    ClusterVersion,
    cluster_version::MEMBERSHIP_SINCE,
    planted::{self, Bug},
};
use openraft::AsyncRuntime;
use tokio::sync::MutexGuard;

/// Checks whether the cluster's version allows the commands about members.
pub(crate) fn check_version(state: &State) -> Result<(), MembershipError> {
    let version = state.cluster_version();
    if allows_membership(version) { Ok(()) } else { Err(MembershipError::NeedsUpgrade { version }) }
}

/// Whether this version has the commands about members.
pub(super) fn allows_membership(version: ClusterVersion) -> bool {
    version >= MEMBERSHIP_SINCE || ignores_version()
}

/// Never true, except with the planted bug.
fn ignores_version() -> bool {
    planted::has(Bug::VersionTooEarly)
}

/// This node's leadership, once its state has everything that earlier leaders acknowledged.
pub(super) async fn leading<RT: AsyncRuntime>(core: &Core<RT>, queues: &Queues, deadline: RT::Instant) -> Option<Leadership> {
    let leadership = core.leadership()?;
    let caught_up = async { core.applied(queues.barriers.next(true).await.ok()?).await };
    RT::timeout_at(deadline, caught_up).await.ok().flatten()?;
    core.leadership().filter(|now| *now == leadership)
}

/// Waits until no other request about members is being decided, and until this node's state has what they have
/// recorded. The next decision waits until the turn is dropped.
pub(super) async fn turn<RT: AsyncRuntime>(
    core: &Core<RT>,
    deadline: RT::Instant,
) -> Result<MutexGuard<'_, ()>, MembershipError> {
    let late = |what: &str| MembershipError::ChangeInProgress { what: what.to_owned() };
    let turn = RT::timeout_at(deadline, core.admissions.lock()).await;
    let turn = turn.map_err(|_| late("another request about members is not decided yet"))?;
    // The command of a request that has no time left may be in the log already, and is not applied yet.
    if let Some(last) = core.with_metrics(|metrics| metrics.last_log_index) {
        let applied = RT::timeout_at(deadline, core.until_leader_changes(core.applied(last)));
        let applied = applied.await.map_err(|_| late("what earlier requests have written is not applied yet"))?;
        applied.flatten().ok_or(MembershipError::NoLeader)?;
    }
    Ok(turn)
}

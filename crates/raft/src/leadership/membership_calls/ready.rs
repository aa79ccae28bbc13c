//! Whether this node may serve a call about members: it leads, its state is current, and the cluster's version is new
//! enough.

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

//! Changes that the leader makes outside the state: of members, of the leadership, of the cluster's version.
//!
//! They are no commands, so `apply` compares no guard. The leader does, directly before it makes the change. If rights
//! were narrowed in the meantime, this node decides again.

use super::{caller::Caller, judge::DECISIONS_MAX, refusal::AccessRefusal};
use crate::{api::CallError, node::Node};
use fairhold_access::{Need, Verb};
use fairhold_raft::{FinalizeError, HandoverError, MemberRequest, MembershipError};
use fairhold_state::{
    access::{AccessData, AccessGuard},
    command::WriteKey,
};
use fairhold_types::{ClusterVersion, NodeId};
use openraft_rt::AsyncRuntime;

impl<RT: AsyncRuntime> Node<RT> {
    /// Changes a member once the caller's rights cover it.
    pub(crate) async fn change_member_decided(&self, request: MemberRequest, deadline: RT::Instant) -> Result<(), CallError> {
        for _ in 0..DECISIONS_MAX {
            let enforcing = self.enforcing();
            let verb = if request.sets_url() { Verb::Admin } else { Verb::Operate };
            let guard = enforcing.map(|(caller, access)| self.guard_of(caller, &access, &[Need::unnamed(verb)]));
            let change = request.clone().decided_by(guard.transpose()?).attributed(Some(self.act_origin()));
            match self.0.replica.change_member(change, deadline).await {
                Err(MembershipError::AccessChanged { revision }) if self.caller().is_some() => {
                    self.0.replica.wait_for_revision(revision, deadline).await?;
                }
                changed => return Ok(changed?),
            }
        }
        Err(AccessRefusal::Stale.into())
    }

    /// Transfers the leadership once the caller's rights cover what its request needs.
    pub(crate) async fn hand_over_decided(
        &self,
        to: NodeId,
        key: Option<WriteKey>,
        deadline: RT::Instant,
    ) -> Result<(), CallError> {
        for _ in 0..DECISIONS_MAX {
            let guard = self.guard_of_request()?;
            match self.0.replica.hand_over(to, key, guard, deadline).await {
                Err(HandoverError::AccessChanged { revision }) if self.caller().is_some() => {
                    self.0.replica.wait_for_revision(revision, deadline).await?;
                }
                done => return Ok(done?),
            }
        }
        Err(AccessRefusal::Stale.into())
    }

    /// Raises the cluster's version once the caller's rights cover what its request needs.
    pub(crate) async fn finalize_decided(&self, to: ClusterVersion, deadline: RT::Instant) -> Result<(), CallError> {
        for _ in 0..DECISIONS_MAX {
            let guard = self.guard_of_request()?;
            match self.0.replica.finalize_upgrade(to, guard, deadline).await {
                Err(FinalizeError::AccessChanged { revision }) if self.caller().is_some() => {
                    self.0.replica.wait_for_revision(revision, deadline).await?;
                }
                done => return Ok(done?),
            }
        }
        Err(AccessRefusal::Stale.into())
    }

    /// The guard of a caller whose rights cover what its request needs, if rights are enforced.
    fn guard_of_request(&self) -> Result<Option<AccessGuard>, CallError> {
        let guard = self.enforcing().map(|(caller, access)| self.guard_of(caller, &access, &caller.needs));
        guard.transpose()
    }

    fn guard_of(&self, caller: &Caller, access: &AccessData, needs: &[Need<'_>]) -> Result<AccessGuard, CallError> {
        self.decide(caller, access, needs)?;
        Ok(AccessGuard { access: access.revision(), principal: caller.key() })
    }
}

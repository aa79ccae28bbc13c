//! The calls of administrators. The HTTP layer checks their token; this module logs which client called, and its
//! reason.

use crate::{
    api::{At, BreakCall, CallError, LockInfo, RevokeCall, SetLockCall},
    calls::write_key::{fingerprint, write_key},
    clock::wall_now,
    node::Node,
    views,
};
use fairhold_raft::{FinalizeError, HandoverError, UpgradeStatus, error::ProposeError};
use fairhold_state::command::{Break, Command, NotedAct, Outcome, Revoke, SetLock, WriteKey};
use fairhold_types::{ClusterVersion, GrantId, NodeId, Revision, SessionNumber, duration};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// Takes a lock from all its holders; without holders nothing changes. A repeated key does nothing, even if there
    /// are new holders by then.
    pub async fn break_lock(&self, call: BreakCall) -> Result<Revision, CallError> {
        let BreakCall { key, lock, token, by, reason, timeout } = call;
        let key = WriteKey { key, fingerprint: fingerprint(&("break", &lock, token, &reason))? };
        let command = Break { key, lock: lock.clone(), token, by: by.clone(), reason: reason.clone(), at: wall_now() };
        let deadline = RT::Instant::now() + timeout;
        let answer = self.propose_decided(Command::Break(command), deadline).await?;
        match answer.result? {
            Outcome::Broken { holders, named } => {
                let named: Vec<String> = named.iter().map(|number| format!("#{number}")).collect();
                let grants = named.join(" ");
                let lock = lock.as_str();
                let revision = answer.revision.0;
                tracing::info!(lock, holders, %grants, revision, by, reason, "an administrator broke a lock");
            }
            Outcome::Nothing => {}
            outcome @ (Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => unreachable!("a break was answered with {outcome:?}"),
        }
        Ok(self.wait_until_settled(answer.revision, deadline, |state| !state.is_settling(&lock)).await)
    }

    /// Sets the limits of a lock, and returns the lock with its new limits. With a key, it happens once.
    pub async fn set_lock(&self, call: SetLockCall) -> Result<At<LockInfo>, CallError> {
        let deadline = RT::Instant::now() + call.timeout;
        let SetLockCall { key, lock, limit, max_waiters, max_hold, by, timeout } = call;
        let max_hold_ms = max_hold.map(duration::millis);
        let key = write_key(key, &("allow", &lock, limit, max_waiters, max_hold_ms))?;
        let command = SetLock { key, lock: lock.clone(), limit, max_waiters, max_hold_ms, by: by.clone(), at: wall_now() };
        let answer = self.propose(Command::SetLock(command), timeout).await?;
        answer.result?;
        let name = lock.as_str();
        let revision = answer.revision.0;
        tracing::info!(
            lock = name,
            limit,
            max_waiters,
            max_hold_ms,
            revision,
            by,
            "an administrator changed the settings of a lock"
        );
        self.0.replica.wait_for_revision(answer.revision, deadline).await?;
        self.wait_until_settled(answer.revision, deadline, |state| !state.is_settling(&lock)).await;
        Ok(self.0.replica.read(|state| At { value: views::lock(state, &lock), revision: state.revision() }))
    }

    /// Asks the holders of a lock to release it. With a key, it asks once.
    pub async fn revoke(&self, call: RevokeCall) -> Result<Revision, CallError> {
        let RevokeCall { key, lock, by, reason, timeout } = call;
        let deadline = RT::Instant::now() + timeout;
        let key = write_key(key, &("revoke", &lock, &reason))?;
        let command = Revoke { key, lock: lock.clone(), by: by.clone(), reason: reason.clone(), at: wall_now() };
        let answer = self.propose_decided(Command::Revoke(command), deadline).await?;
        answer.result?;
        tracing::info!(
            lock = lock.as_str(),
            revision = answer.revision.0,
            by,
            reason,
            "an administrator asked the holders to release a lock"
        );
        Ok(self.wait_until_settled(answer.revision, deadline, |state| !state.is_settling(&lock)).await)
    }

    /// Ends a session by its number, with everything that it owns.
    pub async fn end_session(
        &self,
        session: SessionNumber,
        by: String,
        reason: String,
        timeout: Duration,
    ) -> Result<Revision, CallError> {
        let command = Command::EndSession { session, by: by.clone(), reason: reason.clone(), at: wall_now() };
        let deadline = RT::Instant::now() + timeout;
        let answer = self.propose_decided(command, deadline).await?;
        answer.result?;
        tracing::info!(session = session.0, revision = answer.revision.0, by, reason, "an administrator ended a session");
        Ok(self.wait_until_settled(answer.revision, deadline, |state| !state.is_ending(session)).await)
    }

    /// Transfers the leadership to a member, from any node. With a key it happens once: a repeated request leaves the
    /// current leader in place.
    pub async fn hand_over(&self, to: NodeId, key: Option<GrantId>, timeout: Duration) -> Result<(), CallError> {
        let key = write_key(key, &("lead", to))?;
        let deadline = RT::Instant::now() + timeout;
        self.confirm_caller(deadline).await?;
        let node = self.clone();
        let act = async move { node.hand_over_decided(to, key, deadline).await };
        let noted = move |result: &Result<(), CallError>| {
            let is_unfinished = matches!(result, Err(CallError::Handover(HandoverError::Unfinished { .. })));
            (result.is_ok() || is_unfinished).then_some((NotedAct::HandOver { to }, !is_unfinished))
        };
        self.noted(key, deadline, act, noted).await
    }

    /// The cluster's version and what each member supports, as the leader knows it. If the leader does not answer
    /// within the timeout, as this node knows it.
    pub async fn upgrade_status(&self, timeout: Duration) -> UpgradeStatus {
        self.0.replica.upgrade_status(RT::Instant::now() + timeout).await
    }

    /// Raises the cluster's version to the next one, from any node, if every member supports it. If the cluster has
    /// that version already, nothing changes.
    pub async fn finalize_upgrade(&self, to: ClusterVersion, timeout: Duration) -> Result<(), CallError> {
        let deadline = RT::Instant::now() + timeout;
        self.confirm_caller(deadline).await?;
        let is_done = move |node: &Self| node.0.replica.read(|state| state.cluster_version() >= to);
        // This node may have missed that the version was raised before.
        self.0.replica.read_barrier(deadline).await.map_err(|_| FinalizeError::NoLeader)?;
        let was_done = is_done(self);
        let (node, noting) = (self.clone(), self.clone());
        let act = async move { node.finalize_decided(to, deadline).await };
        // The version may be raised although the answer was lost.
        let noted = move |result: &Result<(), CallError>| {
            (!was_done && (result.is_ok() || is_done(&noting))).then_some((NotedAct::Finalize { to }, true))
        };
        self.noted(None, deadline, act, noted).await?;
        // The answer must show the new version. If it cannot, a repeated request does no harm.
        Ok(self.0.replica.read_barrier(deadline).await.map_err(|_| FinalizeError::NoLeader)?)
    }

    /// Takes a snapshot of this node's state, unless one exists for it, and waits until it is stored. Returns the index
    /// of the last log entry in the snapshot. After the timeout the snapshot is still written.
    pub async fn take_snapshot(&self, timeout: Duration) -> Result<u64, CallError> {
        let deadline = RT::Instant::now() + timeout;
        self.confirm_caller(deadline).await?;
        let replica = self.0.replica.clone();
        let act = async move { replica.take_snapshot(deadline).await };
        let node = self.0.replica.id();
        let noted = move |result: &Result<u64, ProposeError>| {
            let is_unfinished = matches!(result, Err(ProposeError::Unknown(_)));
            (result.is_ok() || is_unfinished).then_some((NotedAct::TakeSnapshot { node }, !is_unfinished))
        };
        self.noted(None, deadline, act, noted).await
    }
}

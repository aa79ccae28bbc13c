//! The decisions.

use super::{
    caller::{Caller, CallerIdentity, Credential},
    caller_request::CallerRequest,
    refusal::{AccessRefusal, CredentialFault},
    trail::AccessTrail,
    visible::Visible,
};
use crate::{
    api::{At, CallError, ReadOptions},
    clock::wall_now,
    feed::watch_filter::WatchFilter,
    node::Node,
};
use fairhold_access::{Denied, Need, Principal, Rights};
use fairhold_raft::error::{NotProposed, ReadError};
use fairhold_state::{
    State,
    access::{AccessData, AccessGuard},
    command::{Answer, Command, Rejection},
    read::GrantStatus,
};
use fairhold_types::{GrantId, LockName, duration, limits::CREDENTIAL_NOTICE};
use openraft_rt::{AsyncRuntime, Instant};
use std::{future::pending, sync::Arc, time::Duration};

/// How often one request is decided before it gives up.
pub(super) const DECISIONS_MAX: u32 = 4;
/// While rights are enforced, a node answers local reads for this long without a sign of the leader, and then waits for one.
/// So a node that is cut off serves by old rights for five seconds at most.
const PROOF_VALID: Duration = Duration::from_secs(4);
/// How long such a sign may take.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);

impl<RT: AsyncRuntime> Node<RT> {
    /// A handle of the same node for requests of this caller.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Node<RT> {
        Node(Arc::clone(&self.0), Some(Arc::new(CallerRequest::new(caller, None))))
    }

    /// A handle of the same node for a request of this caller that began while this data enforced rights. The request stays
    /// subject to rights: if they are not enforced any more, to those of this data. Otherwise it would need neither a right
    /// nor the administrators' token.
    #[must_use]
    pub fn for_caller_under(&self, caller: Caller, access: Arc<AccessData>) -> Node<RT> {
        Node(Arc::clone(&self.0), Some(Arc::new(CallerRequest::new(caller, Some(access)))))
    }

    /// The caller, unless the handle is the node's own.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        self.1.as_deref().map(CallerRequest::caller)
    }

    /// The access data as this node has applied it. It is never older than the state that a read sees.
    #[must_use]
    pub fn access(&self) -> Arc<AccessData> {
        self.0.hub.access()
    }

    /// Refuses the caller if its credential is not valid, or its rights do not cover what the request needs.
    pub fn check_caller(&self) -> Result<(), CallError> {
        let needs = self.caller().map_or(&[][..], |caller| &caller.needs);
        self.require(needs)
    }

    /// Refuses the caller if its credential is not valid, or its rights do not cover these needs.
    pub(crate) fn require(&self, needs: &[Need<'_>]) -> Result<(), CallError> {
        let Some((caller, access)) = self.enforcing() else {
            self.note_undecided(needs.iter().cloned());
            return Ok(());
        };
        self.decide(caller, &access, needs).map(drop)
    }

    /// Refuses the caller if its rights do not cover this need.
    pub fn require_right(&self, need: &Need<'_>) -> Result<(), CallError> {
        self.require(std::slice::from_ref(need))
    }

    /// The rights of a principal by the access data of this node, whether rights are enforced or not. What a provider would
    /// say about it is not known here.
    #[must_use]
    pub fn rights_of(&self, principal: &Principal) -> Arc<Rights> {
        self.0.rights.rights(&self.access(), &CallerIdentity::of(principal))
    }

    /// The rights of the caller by the access data of this node, whether rights are enforced or not.
    #[must_use]
    pub fn own_rights(&self) -> Arc<Rights> {
        match self.caller() {
            Some(caller) => self.0.rights.rights(&self.access(), &caller.identity),
            None => self.rights_of(&Principal::anonymous()),
        }
    }

    /// The access data, as fresh as required.
    pub async fn read_access(&self, read: ReadOptions) -> Result<At<Arc<AccessData>>, CallError> {
        self.read(read, State::shared_access).await
    }

    /// Refuses the caller if its credential is not valid.
    pub(crate) fn require_credential(&self) -> Result<(), CallError> {
        self.require(&[])
    }

    /// Refuses the caller if its credential is not valid, or it may not watch what these filters select.
    pub(crate) fn require_watch(&self, filters: &[WatchFilter]) -> Result<(), CallError> {
        let Some((caller, access)) = self.enforcing() else {
            self.note_undecided(filters.iter().flat_map(WatchFilter::needs));
            return Ok(());
        };
        let needs: Vec<Need<'_>> = filters.iter().flat_map(WatchFilter::needs).chain(caller.needs.iter().cloned()).collect();
        self.decide(caller, &access, &needs).map(drop)
    }

    /// What a list may show to the caller.
    pub(crate) fn visible(&self) -> Result<Visible, CallError> {
        match self.enforcing() {
            Some((caller, access)) => self.decide(caller, &access, &[]).map(Visible::Covered),
            None => Ok(Visible::Everything),
        }
    }

    /// Whether rights are enforced for this handle.
    pub(crate) fn is_enforced(&self) -> bool {
        self.enforcing().is_some()
    }

    /// The caller and the access data, if rights are enforced for this handle.
    pub(super) fn enforcing(&self) -> Option<(&Caller, Arc<AccessData>)> {
        let request = self.1.as_deref()?;
        let access = self.0.hub.enforced_access().or_else(|| request.admitted_by().cloned())?;
        Some((request.caller(), access))
    }

    /// The rights of a caller with a valid credential, if they cover these needs.
    pub(super) fn decide(&self, caller: &Caller, access: &AccessData, needs: &[Need<'_>]) -> Result<Arc<Rights>, CallError> {
        let decision = self.decision(caller, access, needs);
        decision.write_down(caller, needs);
        decision.result?;
        Ok(decision.rights)
    }

    /// Decides, and writes nothing down.
    fn decision(&self, caller: &Caller, access: &AccessData, needs: &[Need<'_>]) -> Decision {
        let look_up = || self.0.rights.rights(access, &caller.identity);
        let rights = self.1.as_deref().map_or_else(look_up, |request| request.rights(access.revision(), look_up));
        let result = caller.check_credential(access, wall_now()).and_then(|()| decide(caller, &rights, needs));
        Decision { rights, result }
    }

    /// Writes down needs that are not decided, for the audit log.
    fn note_undecided<'n>(&self, needs: impl IntoIterator<Item = Need<'n>>) {
        if let Some(trail) = self.trail() {
            trail.undecided(needs);
        }
    }

    /// Writes down what a command touches that is not decided: by an id, or while rights are not enforced.
    fn note_command(&self, command: &Command) {
        let Some(trail) = self.trail() else { return };
        if !self.is_enforced() {
            trail.undecided(self.needs_of(command));
        }
        if let Command::Release { grant, .. } | Command::Downgrade { grant, .. } | Command::Upgrade { grant, .. } = command {
            self.note_grant(grant);
        }
    }

    /// Writes down the locks of a grant that the request names by its id.
    pub(crate) fn note_grant(&self, grant: &GrantId) {
        let Some(trail) = self.trail() else { return };
        let locks: Vec<LockName> = self.0.replica.read(|state| match state.grant(grant) {
            GrantStatus::Live(contender) => state.locks_of(contender.number),
            GrantStatus::Ended(_) | GrantStatus::Unknown => Vec::new(),
        });
        trail.by_id(&locks);
    }

    fn trail(&self) -> Option<&AccessTrail> {
        self.caller()?.trail.as_deref()
    }

    /// Refuses the caller by everything that was acknowledged before. It is for changes that are no commands, so that
    /// nothing compares a guard. This node may not have heard yet that rights are enforced.
    pub(crate) async fn confirm_caller(&self, deadline: RT::Instant) -> Result<(), CallError> {
        if self.caller().is_some() {
            self.0.replica.read_barrier(deadline).await?;
        }
        self.check_caller()
    }

    /// Whether this node has had no sign of the leader for some time: it may have missed that the caller lost its rights. An
    /// administrator by a file needs no quorum.
    #[must_use]
    pub fn is_proof_due(&self) -> bool {
        self.proof_due_in().is_some_and(|due| due.is_zero())
    }

    /// Gets a sign of the leader by the deadline if one is due, or refuses the caller.
    pub(crate) async fn prove_access(&self, deadline: RT::Instant) -> Result<(), CallError> {
        if !self.is_proof_due() {
            return Ok(());
        }
        // In a box: the other requests need no room for it.
        Box::pin(self.catch_up_with_access(deadline)).await
    }

    /// Refuses the caller of a stream if its credential is not valid, by access data of the last seconds.
    pub(crate) async fn prove_credential(&self) -> Result<(), CallError> {
        self.prove_access(RT::Instant::now() + PROOF_TIMEOUT).await?;
        self.require_credential()
    }

    /// Waits until this node has the access data that was acknowledged before, at most until the deadline of the request: its
    /// timeout bounds all of its steps together.
    pub async fn catch_up_with_access(&self, deadline: RT::Instant) -> Result<(), CallError> {
        let asked_at = RT::Instant::now();
        // A node that is late cannot decide either.
        let caught_up = self.0.replica.read_barrier(deadline.min(asked_at + PROOF_TIMEOUT)).await;
        caught_up.map_err(|error| match error {
            ReadError::Deadline => ReadError::NotServed(NotProposed::NoLeader),
            ReadError::NotServed(_) => error,
        })?;
        *self.0.proven_at.lock() = Some(asked_at);
        Ok(())
    }

    /// Whether this node has had a sign of the leader since its start, so that it knows whether rights are enforced.
    #[must_use]
    pub fn has_heard_of_rights(&self) -> bool {
        self.0.proven_at.lock().is_some()
    }

    /// Whether the caller's credential expires soon: streams say so.
    pub(crate) fn credential_expires_soon(&self) -> bool {
        let end = self.enforcing().and_then(|(caller, access)| caller.expires_at(&access));
        end.is_some_and(|end| end.0.saturating_sub(wall_now().0) <= duration::millis(CREDENTIAL_NOTICE))
    }

    /// Waits until the caller's credential has expired: nothing else would wake a request that waits.
    pub(crate) async fn credential_expired(&self) {
        let end = self.enforcing().and_then(|(caller, access)| caller.expires_at(&access));
        match end {
            Some(end) => RT::sleep(Duration::from_millis(end.0.saturating_sub(wall_now().0).saturating_add(1))).await,
            None => pending().await,
        }
    }

    /// How soon the next sign of the leader is due for this caller; `None` if it needs none.
    fn proof_due_in(&self) -> Option<Duration> {
        let (caller, _) = self.enforcing()?;
        if caller.credential == Credential::File {
            return None;
        }
        let proven_at = *self.0.proven_at.lock();
        Some(proven_at.map_or(Duration::ZERO, |proven_at| PROOF_VALID.saturating_sub(proven_at.elapsed())))
    }

    /// Waits until a stream must be decided again, by another sign of the leader: a credential may expire without any event,
    /// and a node that is cut off hears of nothing.
    pub(crate) async fn proof_due(&self) -> Result<(), CallError> {
        match self.enforcing() {
            None => pending().await,
            Some(_) => RT::sleep(self.proof_due_in().unwrap_or(PROOF_VALID)).await,
        }
        self.prove_access(RT::Instant::now() + PROOF_TIMEOUT).await
    }

    /// Proposes a command once the caller's rights cover it. If they were narrowed before it was applied, it is decided
    /// again.
    pub(crate) async fn propose_decided(&self, mut command: Command, deadline: RT::Instant) -> Result<Answer, CallError> {
        if command.is_act() {
            command = Box::pin(self.attributed(command, deadline)).await;
        }
        // What is rare is in a box: the other commands need no room for it while they wait.
        if command.needs_depend_on_state() && self.is_enforced() {
            Box::pin(self.learn_needs_of(&command, deadline)).await?;
        }
        let is_changed = |answer: &Answer| matches!(answer.result, Err(Rejection::AccessChanged));
        let mut is_up_to_date = false;
        for _ in 0..DECISIONS_MAX {
            let Some((caller, access)) = self.enforcing().filter(|_| command.needs_guard()) else {
                self.note_command(&command);
                let answer = self.0.replica.propose_for(self.proposer(None), &command, deadline).await?;
                self.count_quota_refusal(&answer);
                // Rights are enforced since.
                let is_stale = self.caller().is_some() && is_changed(&answer);
                return if is_stale { Err(AccessRefusal::Stale.into()) } else { Ok(answer) };
            };
            let needs = self.needs_of(&command);
            let decision = self.decision(caller, &access, &needs);
            // This node may not have heard of the right yet. If it cannot find out, it says that: a refusal is final for its
            // caller. The audit log has only the last decision.
            if decision.result.is_err() && !is_up_to_date {
                Box::pin(self.catch_up_with_access(deadline)).await?;
                is_up_to_date = true;
                continue;
            }
            decision.write_down(caller, &needs);
            drop(needs);
            decision.result?;
            let guard = AccessGuard { access: access.revision(), principal: caller.key() };
            // The machine knows principals by their keys only, so it is told the tenant for which a session counts. The
            // queue needs the tenant of every command.
            let tenant = access.tenant_of(caller.principal());
            let of_session = tenant.filter(|_| command.opens_session());
            command = command.guarded(guard).for_tenant(of_session);
            let proposer = self.proposer(tenant.map(|tenant| tenant.0));
            let answer = self.0.replica.propose_for(proposer, &command, deadline).await?;
            self.count_quota_refusal(&answer);
            if !is_changed(&answer) {
                return self.without_hidden(answer);
            }
            Box::pin(self.0.replica.wait_for_revision(answer.revision, deadline)).await?;
            command = command.without_guard();
        }
        Err(AccessRefusal::Stale.into())
    }

    /// Counts an answer that refuses something for a quota. In a transaction, a step is refused.
    fn count_quota_refusal(&self, answer: &Answer) {
        let Err(rejection) = &answer.result else { return };
        let rejection = if let Rejection::Step { reason, .. } = rejection { &**reason } else { rejection };
        if let Rejection::QuotaExceeded { quota, .. } = rejection {
            self.0.hub.metrics.record_over_quota(*quota);
        }
    }

    /// Leaves out of a deadlock what the caller may not see.
    fn without_hidden(&self, mut answer: Answer) -> Result<Answer, CallError> {
        if let Err(Rejection::WouldDeadlock { cycle }) = &mut answer.result {
            let visible = self.visible()?;
            cycle.retain(|blocked| visible.has_lock(&blocked.lock));
        }
        Ok(answer)
    }

    /// Waits until this node knows the state on which the needs of a command depend.
    async fn learn_needs_of(&self, command: &Command, deadline: RT::Instant) -> Result<(), CallError> {
        self.0.replica.read_barrier(deadline).await?;
        let Command::Upgrade { grant, .. } = command else { return Ok(()) };
        // Nothing is proposed for a grant without known locks: an acquire that is under way could create it first, and the
        // upgrade would need no right.
        self.0.replica.read(|state| match state.grant(grant) {
            GrantStatus::Live(_) => Ok(()),
            GrantStatus::Ended(reason) => Err(Rejection::GrantEnded { reason, note: state.break_note(grant) }.into()),
            GrantStatus::Unknown => Err(Rejection::NoGrant.into()),
        })
    }

    fn needs_of<'c>(&self, command: &'c Command) -> Vec<Need<'c>> {
        // The most frequent command does not wait for the state, which is locked while commands are applied.
        if let Command::Acquire(acquire) = command {
            return acquire.needs();
        }
        self.0.replica.read(|state| state.needs_of(command))
    }
}

/// The decision on what a caller needs.
struct Decision {
    rights: Arc<Rights>,
    result: Result<(), AccessRefusal>,
}

impl Decision {
    /// Writes it down for the audit log, if that asks for it.
    fn write_down(&self, caller: &Caller, needs: &[Need<'_>]) {
        if let Some(trail) = &caller.trail {
            trail.decided(&self.rights, needs, self.result.as_ref().err());
        }
    }
}

/// Whether rights cover these needs of a caller with a valid credential.
fn decide(caller: &Caller, rights: &Rights, needs: &[Need<'_>]) -> Result<(), AccessRefusal> {
    for need in needs {
        rights.decide(need).map_err(|denied| refusal(caller, denied))?;
    }
    // A caller that shows nothing and has no role gets nothing, not even what needs no right.
    if caller.credential == Credential::Nothing && rights.roles().is_empty() {
        return Err(CredentialFault::Missing.into());
    }
    Ok(())
}

/// A caller without a credential learns that one is missing: with one, its request may succeed.
fn refusal(caller: &Caller, denied: Denied) -> AccessRefusal {
    if caller.credential == Credential::Nothing {
        return CredentialFault::Missing.into();
    }
    AccessRefusal::Denied(denied)
}

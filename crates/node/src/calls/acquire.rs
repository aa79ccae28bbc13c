//! Acquires a grant: one proposal, then a wait at this node until the grant is granted, withdrawn or abandoned.
//!
//! The request goes on as a task when its caller disconnects: it can take the caller out of the queue only after it knows
//! whether the caller is in the queue, and as which attempt.

use crate::{
    api::{AcquireCall, Acquired, At, CallError, GrantView, Renewal},
    calls::{
        attempt::{AttemptStatus, CommittedAcquire, OwnGrant, attempt_status, expires_in},
        keep_alive_guard::KeepAliveGuard,
        waiter_rights::instead_of_timeout,
    },
    clock::wall_now,
    leader::keepalive::Renewed,
    node::Node,
    views::{self, positions},
};
use fairhold_raft::error::{NotProposed, ProposeError, UnknownReason};
use fairhold_state::{
    command::{Acquire, Claimant, Command, HeldGrant, IfBusy, Outcome, Queued, Rejection},
    read::GrantStatus,
};
use fairhold_trace::Stage;
use fairhold_types::{EndReason, FencingToken, Revision, failpoint};
use futures_util::FutureExt;
use openraft_rt::{AsyncRuntime, Instant};
use std::{future::Future, time::Duration};
use tokio::sync::oneshot;

pub(crate) type GrantAnswer = Result<At<Acquired>, CallError>;

/// An answer for the caller.
struct Delivery {
    answer: GrantAnswer,
    /// The caller sends here when it has received the answer, and drops this if it never does.
    taken: oneshot::Sender<()>,
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Acquires a grant, or attaches to the grant that was acquired with the same id.
    ///
    /// Dropping the future means that the caller disconnected. Then its grant ends soon, queued or held, unless the
    /// caller named a session or wants the answer later.
    pub async fn acquire(&self, call: AcquireCall) -> GrantAnswer {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        let _waits = self.begin_wait_for(&call.acquire.grant, call.wait)?;
        let (answer, mut answered) = oneshot::channel();
        let request = PendingAcquire { node: self.clone(), call };
        let mut work = self.0.tasks.begin::<RT>(request.run(answer));
        match work.until(|| answered.try_recv().ok()).await {
            Some(Delivery { answer, taken }) => {
                // The receiver is gone only if the runtime ends.
                let _receiver_may_be_gone = taken.send(());
                // One more poll: `run` learns that the answer was received, and ends.
                work.now_or_never();
                answer
            }
            None => Err(CallError::Detached),
        }
    }
}

/// An acquire that is not answered yet.
pub(crate) struct PendingAcquire<RT: AsyncRuntime> {
    pub(crate) node: Node<RT>,
    pub(crate) call: AcquireCall,
}

impl<RT: AsyncRuntime> PendingAcquire<RT> {
    async fn run(self, mut answer: oneshot::Sender<Delivery>) {
        let started_at = RT::Instant::now();
        let deadline = started_at + self.call.timeout;
        let (outcome, gone) = self.commit_and_watch_caller(deadline, answer.closed()).await;
        let (result, own) = match outcome {
            Err(error) => {
                let own = if error.is_unknown() { OwnGrant::Unknown } else { OwnGrant::Nothing };
                (Some(Err(error)), own)
            }
            // The caller may have retried elsewhere, and that request may have arrived first.
            Ok(committed) if gone && committed.attempt > 1 => (None, OwnGrant::Nothing),
            Ok(committed) => {
                (self.answer_committed(committed, started_at, deadline, &mut answer).await, OwnGrant::Committed(committed))
            }
        };
        let counted = result.as_ref().map(|result| result.as_ref().map(|acquired| &acquired.value));
        self.node.0.hub.metrics.record_acquire(counted);
        let delivered = match result {
            Some(result) => deliver(answer, result).await,
            None => false,
        };
        if !delivered {
            Box::pin(self.give_up(own)).await;
        }
    }

    /// Commits the acquire. Also returns whether the caller disconnected before the outcome was known.
    pub(crate) async fn commit_and_watch_caller(
        &self,
        deadline: RT::Instant,
        gone: impl Future<Output = ()>,
    ) -> (Result<CommittedAcquire, CallError>, bool) {
        let mut commit = std::pin::pin!(self.commit(deadline));
        tokio::select! {
            biased;
            outcome = &mut commit => (outcome, false),
            () = gone => (commit.await, true),
        }
    }

    async fn commit(&self, deadline: RT::Instant) -> Result<CommittedAcquire, CallError> {
        failpoint!(NodeAcquireClaim, RT).map_err(|_| ProposeError::from(NotProposed::Overloaded))?;
        self.check_ttl()?;
        let must_not_wait = self.call.wait.is_zero() && !self.call.respond_async;
        let if_busy = if must_not_wait { IfBusy::Refuse } else { IfBusy::Queue };
        let at = wall_now();
        let command = Command::Acquire(Acquire { if_busy, at, ..self.call.acquire.clone() });
        let answer = self.node.propose_until(command, deadline).await?;
        failpoint!(NodeAcquireClaimed, RT).map_err(|_| ProposeError::from(UnknownReason::ConnectionLost))?;
        let revision = answer.revision;
        let outcome = match answer.result {
            Err(Rejection::LockHeld { holder, ahead }) => {
                let queue_position = views::front(&self.node.0.replica.state(), self.locks(), &holder, ahead);
                let refused = Rejection::LockHeld { holder, ahead };
                return Err(CallError::LockHeld { refused, queue_position: Box::new(queue_position) });
            }
            result => result?,
        };
        match outcome {
            Outcome::Held(HeldGrant { number, token, session, attempt }) => {
                Ok(CommittedAcquire { number, session, attempt, token: Some(token), revision, at })
            }
            Outcome::Queued(Queued { number, session, attempt }) => {
                Ok(CommittedAcquire { number, session, attempt, token: None, revision, at })
            }
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => {
                unreachable!("an acquire was answered with {outcome:?}")
            }
        }
    }

    /// Refuses a `ttl` that is too short, unless an earlier request with the same id has acquired the grant already.
    fn check_ttl(&self) -> Result<(), CallError> {
        let Claimant::Anonymous { timeout_ms } = self.call.acquire.claimant else { return Ok(()) };
        let checked = self.node.check_ttl(timeout_ms);
        let grant = &self.call.acquire.grant;
        let is_known = || self.node.0.replica.read(|state| !matches!(state.grant(grant), GrantStatus::Unknown));
        if checked.is_err() && is_known() { Ok(()) } else { checked }
    }

    /// The answer after the commit; `None` if the caller disconnected first. After the commit, no failure means that
    /// the call did nothing.
    async fn answer_committed(
        &self,
        committed: CommittedAcquire,
        started_at: RT::Instant,
        deadline: RT::Instant,
        answer: &mut oneshot::Sender<Delivery>,
    ) -> Option<GrantAnswer> {
        // Each request allocates its future, which has no room for what is boxed here: most requests are granted at once.
        let result = match committed.token {
            // The leader's answer is enough: this node may not have applied it yet.
            Some(token) if committed.attempt == 1 => {
                Ok(At { value: Acquired::Held(self.view_of_new(committed, token)), revision: committed.revision })
            }
            Some(_) => Box::pin(self.answer_held(committed, committed.revision, None, deadline)).await,
            None => Box::pin(self.wait(committed, started_at, deadline, answer)).await?,
        };
        Some(result.map_err(as_unknown))
    }

    /// Waits for the grant; `None` if the caller disconnected first.
    async fn wait(
        &self,
        committed: CommittedAcquire,
        started_at: RT::Instant,
        deadline: RT::Instant,
        answer: &mut oneshot::Sender<Delivery>,
    ) -> Option<GrantAnswer> {
        let since = RT::Instant::now();
        let until = since + self.call.wait;
        let open = self.own_timeout().map(|timeout| KeepAliveGuard::start(&self.node, committed, timeout, started_at));
        let confirmed_at = || open.as_ref().and_then(KeepAliveGuard::confirmed_at);
        loop {
            let mut waiter = self.node.0.hub.register(committed.number);
            match self.node.0.replica.read(|state| attempt_status(state, &self.call.acquire.grant, committed)) {
                AttemptStatus::Held => {
                    let deadline = after_waiting(deadline, since);
                    return Some(self.answer_held(committed, committed.revision, confirmed_at(), deadline).await);
                }
                AttemptStatus::Ended(reason) => return Some(Err(self.node.grant_ended(&self.call.acquire.grant, reason))),
                AttemptStatus::Superseded => return Some(Err(CallError::Superseded)),
                AttemptStatus::Waiting if self.call.respond_async && self.call.wait.is_zero() => {
                    return Some(self.answer_queued(committed, deadline).await);
                }
                AttemptStatus::Waiting => {}
            }
            if let Err(refused) = self.node.check_waiter(&self.call.acquire) {
                let deadline = after_waiting(deadline, since);
                return Some(instead_of_timeout(self.withdraw(committed, confirmed_at(), deadline).await, refused));
            }
            let waiting = self.node.begin_wait_time();
            tokio::select! {
                biased;
                () = self.node.0.stop.requested() => return Some(Err(CallError::Detached)),
                () = answer.closed() => return None,
                () = waiter.woken() => {}
                () = self.node.credential_expired() => {}
                () = RT::sleep_until(until) => {
                    drop(waiting);
                    let deadline = after_waiting(deadline, since);
                    return Some(if self.call.respond_async {
                        self.answer_queued(committed, deadline).await
                    } else {
                        self.withdraw(committed, confirmed_at(), deadline).await
                    });
                }
            }
        }
    }

    /// Withdraws from the queue, unless the grant was granted by then.
    pub(crate) async fn withdraw(
        &self,
        committed: CommittedAcquire,
        confirmed_at: Option<RT::Instant>,
        deadline: RT::Instant,
    ) -> GrantAnswer {
        let queue_position =
            positions::of_grant(&self.node.0.replica.state(), self.locks(), committed.number).unwrap_or_default();
        let command = Command::Withdraw { grant: self.call.acquire.grant, attempt: committed.attempt, at: wall_now() };
        let answer = self.node.propose_until_answered(command, deadline).await?;
        match answer.result {
            Ok(Outcome::Done) | Err(Rejection::GrantEnded { reason: EndReason::Withdrawn, .. }) => {
                let holder = self.node.0.replica.read(|state| self.locks().find_map(|lock| views::holder(state, lock)));
                Err(CallError::WaitTimeout { holder, queue_position: Box::new(queue_position) })
            }
            Ok(Outcome::Held(_)) => self.answer_held(committed, answer.revision, confirmed_at, deadline).await,
            Ok(Outcome::Nothing) => Err(CallError::Superseded),
            Ok(
                outcome @ (Outcome::Queued(_)
                | Outcome::SessionOpened { .. }
                | Outcome::Written { .. }
                | Outcome::WrittenBefore { .. }
                | Outcome::Broken { .. }
                | Outcome::Judged { .. }
                | Outcome::JoinTokenCreated { .. }
                | Outcome::Admitted { .. }
                | Outcome::AccessTokenCreated { .. }),
            ) => {
                unreachable!("a withdrawal was answered with {outcome:?}")
            }
            Err(rejection) => Err(rejection.into()),
        }
    }

    /// The answer `held`, at this revision or a later one. If this request has not kept an anonymous grant alive, it
    /// renews the grant first. Then it reads the grant from the state, because the session may have ended in the same
    /// batch.
    pub(crate) async fn answer_held(
        &self,
        committed: CommittedAcquire,
        revision: Revision,
        confirmed_at: Option<RT::Instant>,
        deadline: RT::Instant,
    ) -> GrantAnswer {
        let confirmed_at = match confirmed_at {
            Some(confirmed_at) => confirmed_at,
            None if self.is_anonymous() => self.renew(committed, deadline).await?,
            None => RT::Instant::now(),
        };
        self.node.timed(Stage::Apply, self.node.0.replica.wait_for_revision(revision, deadline)).await?;
        let grant = self.call.acquire.grant;
        self.node.0.replica.read(|state| match attempt_status(state, &grant, committed) {
            AttemptStatus::Held => {
                let mut value = views::grant_of(state, &grant).ok_or(UNKNOWN)?;
                value.expires_in = expires_in::<RT>(state, &value, confirmed_at);
                value.attempt_to_abandon =
                    Some(committed.attempt).filter(|_| self.ends_with_connection() && !committed.was_held());
                Ok(At { value: Acquired::Held(value), revision: state.revision() })
            }
            AttemptStatus::Ended(reason) => Err(Rejection::GrantEnded { reason, note: state.break_note(&grant) }.into()),
            AttemptStatus::Superseded => Err(CallError::Superseded),
            AttemptStatus::Waiting => Err(UNKNOWN.into()),
        })
    }

    /// Renews an anonymous grant. Returns the start of its full timeout.
    async fn renew(&self, committed: CommittedAcquire, deadline: RT::Instant) -> Result<RT::Instant, CallError> {
        let sent = RT::Instant::now();
        match self.node.0.keepalives.renew::<RT>(Renewal::Number(committed.session), deadline).await?.value {
            Renewed::Alive { .. } => Ok(sent),
            Renewed::Ended { .. } => Err(self.node.grant_ended(&self.call.acquire.grant, EndReason::Expired)),
            Renewed::SessionOwned { .. } | Renewed::Unconfirmed => Err(UNKNOWN.into()),
        }
    }

    async fn answer_queued(&self, committed: CommittedAcquire, deadline: RT::Instant) -> GrantAnswer {
        self.node.timed(Stage::Apply, self.node.0.replica.wait_for_revision(committed.revision, deadline)).await?;
        let state = self.node.0.replica.state();
        let value = views::grant_in_queue(&state, &self.call.acquire.grant).ok_or(UNKNOWN)?;
        let acquired = if value.token.is_some() { Acquired::Held(value) } else { Acquired::Queued(value) };
        Ok(At { value: acquired, revision: state.revision() })
    }

    /// The view of a grant that this request created, from the request itself.
    pub(crate) fn view_of_new(&self, committed: CommittedAcquire, token: FencingToken) -> GrantView {
        let acquire = &self.call.acquire;
        GrantView {
            id: acquire.grant,
            number: committed.number,
            lock: acquire.wants[0].lock.clone(),
            others: acquire.wants[1..].to_vec(),
            holds: 1,
            revoked: None,
            session: committed.session,
            anonymous: self.is_anonymous(),
            token: Some(token),
            mode: acquire.wants[0].mode,
            permits: acquire.permits,
            owner: acquire.owner.text.clone(),
            meta: acquire.meta.clone(),
            queue_position: None,
            waits_for: None,
            deadlock_checked: true,
            queued_at: committed.at,
            held_since: Some(committed.at),
            expires_in: self.own_timeout(),
            attempt_to_abandon: self.ends_with_connection().then_some(committed.attempt),
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self.call.acquire.claimant, Claimant::Anonymous { .. })
    }

    /// The timeout of an anonymous grant's own session.
    pub(crate) fn own_timeout(&self) -> Option<Duration> {
        match &self.call.acquire.claimant {
            Claimant::Anonymous { timeout_ms } => Some(Duration::from_millis(*timeout_ms)),
            Claimant::Session(_) => None,
        }
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = &fairhold_types::LockName> + Clone {
        self.call.acquire.wants.iter().map(|want| &want.lock)
    }
}

/// The outcome is unknown because the expected answer is missing.
pub(crate) const UNKNOWN: ProposeError = ProposeError::Unknown(UnknownReason::Deadline);

/// The deadline of a request that has waited since that moment: waiting does not count.
pub(crate) fn after_waiting<I: Instant>(deadline: I, since: I) -> I {
    deadline + I::now().saturating_duration_since(since)
}

/// Delivers the answer, and returns whether the caller received it.
async fn deliver(caller: oneshot::Sender<Delivery>, answer: GrantAnswer) -> bool {
    let (taken, was_taken) = oneshot::channel();
    caller.send(Delivery { answer, taken }).is_ok() && was_taken.await.is_ok()
}

/// Converts an error of a later step. The acquire is committed, so the outcome is unknown.
pub(crate) fn as_unknown(error: CallError) -> CallError {
    match error {
        CallError::Propose(ProposeError::NotProposed(NotProposed::ShuttingDown)) => CallError::Detached,
        CallError::Propose(_) | CallError::Read(_) => UNKNOWN.into(),
        CallError::Rejected(_)
        | CallError::LockHeld { .. }
        | CallError::WaitTimeout { .. }
        | CallError::Superseded
        | CallError::NotInQueue { .. }
        | CallError::NoNode { .. }
        | CallError::Access(_)
        | CallError::OverRate { .. }
        | CallError::Handover(_)
        | CallError::Finalize(_)
        | CallError::Membership(_)
        | CallError::TtlTooShort { .. }
        | CallError::TimingTooFast { .. }
        | CallError::Compacted { .. }
        | CallError::FutureRevision { .. }
        | CallError::WatcherTooSlow
        | CallError::BackupBusy
        | CallError::ShuttingDown
        | CallError::Detached => error,
    }
}

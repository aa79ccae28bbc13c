//! Taking a grant: one proposal, then waiting at this node until it is granted, given up or abandoned.
//!
//! The work outlives a caller that goes away, as a task: only when it knows whether and as which attempt the caller stands in the
//! queue can it take it out again.

use crate::{
    api::{AcquireCall, Acquired, At, CallError, GrantView, Renewal},
    calls::{
        attempt::{CallerStanding, GrantLook, OwnGrant, look},
        keep_alive_guard::OpenRequest,
    },
    clock::wall_now,
    leader::keepalive::Renewed,
    node::Node,
    views::{self, positions},
};
use fairhold_raft::error::{NotProposed, ProposeError, UnknownReason};
use fairhold_state::{
    State,
    command::{Acquire, Claimant, Command, HeldGrant, IfBusy, Outcome, Queued, Rejection},
};
use fairhold_types::{EndReason, FencingToken, Revision, failpoint};
use futures_util::FutureExt;
use openraft_rt::{AsyncRuntime, Instant};
use std::{future::Future, time::Duration};
use tokio::sync::oneshot;

pub(crate) type GrantAnswer = Result<At<Acquired>, CallError>;

/// An answer on its way to the caller.
struct Delivery {
    answer: GrantAnswer,
    /// Used when the caller has taken it; dropped with it when nobody has.
    taken: oneshot::Sender<()>,
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Takes a grant, or attaches again to the one that was taken with the same id.
    ///
    /// Dropping the future means that the caller went away: unless it named a session or asked to be answered later, its
    /// grant ends soon after, queued or held.
    pub async fn acquire(&self, call: AcquireCall) -> GrantAnswer {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        let (answer, mut answered) = oneshot::channel();
        let request = OpenAcquire { node: self.clone(), call };
        let mut work = self.0.tasks.begin::<RT>(request.run(answer));
        match work.until(|| answered.try_recv().ok()).await {
            Some(Delivery { answer, taken }) => {
                // The other end is gone only when the runtime ends.
                let _nobody_may_care = taken.send(());
                // It waited only to learn that.
                work.now_or_never();
                answer
            }
            None => Err(CallError::Detached),
        }
    }
}

pub(crate) struct OpenAcquire<RT: AsyncRuntime> {
    pub(crate) node: Node<RT>,
    pub(crate) call: AcquireCall,
}

impl<RT: AsyncRuntime> OpenAcquire<RT> {
    async fn run(self, mut answer: oneshot::Sender<Delivery>) {
        let begun = RT::Instant::now();
        let deadline = begun + self.call.timeout;
        let (claimed, gone) = self.claim_while_wanted(deadline, answer.closed()).await;
        let (result, claim) = match claimed {
            Err(error) => {
                let claim = if error.is_unknown() { OwnGrant::Unknown } else { OwnGrant::Nothing };
                (Some(Err(error)), claim)
            }
            // Its caller may have come again elsewhere, and been the first to arrive.
            Ok(standing) if gone && standing.attempt > 1 => (None, OwnGrant::Nothing),
            Ok(standing) => (self.after_claim(standing, begun, deadline, &mut answer).await, OwnGrant::Committed(standing)),
        };
        let outcome = result.as_ref().map(|result| result.as_ref().map(|acquired| &acquired.value));
        self.node.0.hub.metrics.note_acquire(outcome);
        let delivered = match result {
            Some(result) => deliver(answer, result).await,
            None => false,
        };
        if !delivered {
            self.give_up(claim).await;
        }
    }

    /// Commits the acquire, and notes whether the caller went away before its outcome was known.
    pub(crate) async fn claim_while_wanted(
        &self,
        deadline: RT::Instant,
        gone: impl Future<Output = ()>,
    ) -> (Result<CallerStanding, CallError>, bool) {
        let mut claim = std::pin::pin!(self.claim(deadline));
        tokio::select! {
            biased;
            claimed = &mut claim => (claimed, false),
            () = gone => (claim.await, true),
        }
    }

    async fn claim(&self, deadline: RT::Instant) -> Result<CallerStanding, CallError> {
        failpoint!(NodeAcquireClaim, RT).map_err(|_| ProposeError::from(NotProposed::Overloaded))?;
        let at_once = self.call.wait.is_zero() && !self.call.respond_async;
        let if_busy = if at_once { IfBusy::Refuse } else { IfBusy::Queue };
        let command = Command::Acquire(Acquire { if_busy, at: wall_now(), ..self.call.acquire.clone() });
        let answer = self.node.propose_until(command, deadline).await?;
        failpoint!(NodeAcquireClaimed, RT).map_err(|_| ProposeError::from(UnknownReason::ConnectionLost))?;
        let revision = answer.revision;
        let outcome = match answer.result {
            Err(Rejection::LockHeld { holder, ahead }) => {
                let in_the_way = views::front(&self.node.0.replica.state(), self.locks(), &holder, ahead);
                let refused = Rejection::LockHeld { holder, ahead };
                return Err(CallError::LockHeld { refused, in_the_way: Box::new(in_the_way) });
            }
            result => result?,
        };
        match outcome {
            Outcome::Held(HeldGrant { number, token, session, attempt }) => {
                Ok(CallerStanding { number, session, attempt, token: Some(token), revision })
            }
            Outcome::Queued(Queued { number, session, attempt }) => {
                Ok(CallerStanding { number, session, attempt, token: None, revision })
            }
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }) => {
                unreachable!("an acquire was answered with {outcome:?}")
            }
        }
    }

    /// The answer to one whose acquire is committed; `None` where the caller went away first. Whatever fails from here on is
    /// never "surely nothing happened".
    async fn after_claim(
        &self,
        standing: CallerStanding,
        begun: RT::Instant,
        deadline: RT::Instant,
        answer: &mut oneshot::Sender<Delivery>,
    ) -> Option<GrantAnswer> {
        let result = match standing.token {
            // The leader's answer is enough: this node need not have applied it yet.
            Some(token) if standing.attempt == 1 => {
                Ok(At { value: Acquired::Held(self.view_of_new(standing, token)), revision: standing.revision })
            }
            Some(_) => self.answer_held(standing, standing.revision, None, deadline).await,
            None => self.wait(standing, begun, deadline, answer).await?,
        };
        Some(result.map_err(uncertain))
    }

    /// Waits for the grant; `None` where the caller went away first.
    async fn wait(
        &self,
        standing: CallerStanding,
        begun: RT::Instant,
        deadline: RT::Instant,
        answer: &mut oneshot::Sender<Delivery>,
    ) -> Option<GrantAnswer> {
        let since = RT::Instant::now();
        let until = since + self.call.wait;
        let open = self.own_timeout().map(|timeout| OpenRequest::keep(&self.node, standing, timeout, begun));
        let proved = || open.as_ref().and_then(OpenRequest::proved);
        loop {
            let mut place = self.node.0.hub.park(standing.number);
            match self.node.0.replica.read(|state| look(state, &self.call.acquire.grant, standing)) {
                GrantLook::Held => {
                    let deadline = after_waiting(deadline, since);
                    return Some(self.answer_held(standing, standing.revision, proved(), deadline).await);
                }
                GrantLook::Ended(reason) => return Some(Err(self.node.grant_ended(&self.call.acquire.grant, reason))),
                GrantLook::Superseded => return Some(Err(CallError::Superseded)),
                GrantLook::Waiting if self.call.respond_async && self.call.wait.is_zero() => {
                    return Some(self.answer_queued(standing, deadline).await);
                }
                GrantLook::Waiting => {}
            }
            tokio::select! {
                biased;
                () = self.node.0.stop.requested() => return Some(Err(CallError::Detached)),
                () = answer.closed() => return None,
                () = place.woken() => {}
                () = RT::sleep_until(until) => {
                    let deadline = after_waiting(deadline, since);
                    return Some(if self.call.respond_async {
                        self.answer_queued(standing, deadline).await
                    } else {
                        self.withdraw(standing, proved(), deadline).await
                    });
                }
            }
        }
    }

    /// Gives up waiting, unless it was granted by then.
    pub(crate) async fn withdraw(
        &self,
        standing: CallerStanding,
        proved: Option<RT::Instant>,
        deadline: RT::Instant,
    ) -> GrantAnswer {
        let in_the_way = positions::of_grant(&self.node.0.replica.state(), self.locks(), standing.number).unwrap_or_default();
        let command = Command::Withdraw { grant: self.call.acquire.grant, attempt: standing.attempt, at: wall_now() };
        let answer = self.node.propose_until_answered(command, deadline).await?;
        match answer.result {
            Ok(Outcome::Done) | Err(Rejection::GrantEnded { reason: EndReason::Withdrawn, .. }) => {
                let holder = self.node.0.replica.read(|state| self.locks().find_map(|lock| views::holder(state, lock)));
                Err(CallError::WaitTimeout { holder, in_the_way: Box::new(in_the_way) })
            }
            Ok(Outcome::Held(_)) => self.answer_held(standing, answer.revision, proved, deadline).await,
            Ok(Outcome::Nothing) => Err(CallError::Superseded),
            Ok(
                outcome @ (Outcome::Queued(_)
                | Outcome::SessionOpened { .. }
                | Outcome::Written { .. }
                | Outcome::WrittenBefore { .. }
                | Outcome::Broken { .. }
                | Outcome::Judged { .. }),
            ) => {
                unreachable!("a withdrawal was answered with {outcome:?}")
            }
            Err(rejection) => Err(rejection.into()),
        }
    }

    /// The answer to one who holds, at that revision at the latest. A grant of its own that nobody has proved alive in this
    /// request is renewed first; and it is read again from the state, because its session may have ended in the same batch.
    pub(crate) async fn answer_held(
        &self,
        standing: CallerStanding,
        revision: Revision,
        proved: Option<RT::Instant>,
        deadline: RT::Instant,
    ) -> GrantAnswer {
        let proved = match proved {
            Some(proved) => proved,
            None if self.is_anonymous() => self.renew(standing, deadline).await?,
            None => RT::Instant::now(),
        };
        self.node.0.replica.wait_for_revision(revision, deadline).await?;
        let grant = self.call.acquire.grant;
        self.node.0.replica.read(|state| match look(state, &grant, standing) {
            GrantLook::Held => {
                let mut value = views::grant_of(state, &grant).ok_or(UNKNOWN)?;
                value.expires_in = expires_in::<RT>(state, &value, proved);
                value.leaves_with_caller = Some(standing.attempt).filter(|_| self.leaves_with_caller() && !standing.was_held());
                Ok(At { value: Acquired::Held(value), revision: state.revision() })
            }
            GrantLook::Ended(reason) => Err(Rejection::GrantEnded { reason, note: state.break_note(&grant) }.into()),
            GrantLook::Superseded => Err(CallError::Superseded),
            GrantLook::Waiting => Err(UNKNOWN.into()),
        })
    }

    /// Renews a grant of its own; says from when on it has its full time.
    async fn renew(&self, standing: CallerStanding, deadline: RT::Instant) -> Result<RT::Instant, CallError> {
        let sent = RT::Instant::now();
        match self.node.0.keepalives.renew::<RT>(Renewal::Number(standing.session), deadline).await?.value {
            Renewed::Alive { .. } => Ok(sent),
            Renewed::Ended { .. } => Err(self.node.grant_ended(&self.call.acquire.grant, EndReason::Expired)),
            Renewed::SessionOwned { .. } | Renewed::Unproved => Err(UNKNOWN.into()),
        }
    }

    async fn answer_queued(&self, standing: CallerStanding, deadline: RT::Instant) -> GrantAnswer {
        self.node.0.replica.wait_for_revision(standing.revision, deadline).await?;
        let state = self.node.0.replica.state();
        let value = views::grant_in_queue(&state, &self.call.acquire.grant).ok_or(UNKNOWN)?;
        let acquired = if value.token.is_some() { Acquired::Held(value) } else { Acquired::Queued(value) };
        Ok(At { value: acquired, revision: state.revision() })
    }

    /// A grant that was given by this very request, as the request has it.
    pub(crate) fn view_of_new(&self, standing: CallerStanding, token: FencingToken) -> GrantView {
        let (acquire, at) = (&self.call.acquire, wall_now());
        GrantView {
            id: acquire.grant,
            number: standing.number,
            lock: acquire.wants[0].lock.clone(),
            others: acquire.wants[1..].to_vec(),
            holds: 1,
            revoked: None,
            session: standing.session,
            anonymous: self.is_anonymous(),
            token: Some(token),
            mode: acquire.wants[0].mode,
            permits: acquire.permits,
            owner: acquire.owner.text.clone(),
            meta: acquire.meta.clone(),
            in_the_way: None,
            waits_for: None,
            deadlock_checked: true,
            queued_at: at,
            held_since: Some(at),
            expires_in: self.own_timeout(),
            leaves_with_caller: self.leaves_with_caller().then_some(standing.attempt),
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self.call.acquire.claimant, Claimant::Anonymous { .. })
    }

    /// The timeout of the grant's own session, where it has one.
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

/// It may have happened: what an answer says that should have come and did not.
pub(crate) const UNKNOWN: ProposeError = ProposeError::Unknown(UnknownReason::Deadline);

/// Until when the server may work on a request that has waited since that moment: waiting is no work.
pub(crate) fn after_waiting<I: Instant>(deadline: I, since: I) -> I {
    deadline + I::now().saturating_duration_since(since)
}

/// Hands an answer over, and says whether the caller was there to take it.
async fn deliver(caller: oneshot::Sender<Delivery>, answer: GrantAnswer) -> bool {
    let (taken, was_taken) = oneshot::channel();
    caller.send(Delivery { answer, taken }).is_ok() && was_taken.await.is_ok()
}

/// After the acquire is committed, a step that surely did nothing does not mean that nothing was done.
pub(crate) fn uncertain(error: CallError) -> CallError {
    match error {
        CallError::Propose(ProposeError::NotProposed(NotProposed::ShuttingDown)) => CallError::Detached,
        CallError::Propose(_) | CallError::Read(_) => UNKNOWN.into(),
        CallError::Rejected(_)
        | CallError::LockHeld { .. }
        | CallError::WaitTimeout { .. }
        | CallError::Superseded
        | CallError::NoNode { .. }
        | CallError::Handover(_)
        | CallError::Compacted { .. }
        | CallError::FutureRevision { .. }
        | CallError::WatcherTooSlow
        | CallError::ShuttingDown
        | CallError::Detached => error,
    }
}

/// How long a grant of its own lives yet, counted from the last keepalive that was proved.
pub(crate) fn expires_in<RT: AsyncRuntime>(state: &State, view: &GrantView, proved: RT::Instant) -> Option<Duration> {
    let session = state.session(view.session).filter(|_| view.anonymous)?;
    Some(Duration::from_millis(session.timeout_ms).saturating_sub(RT::Instant::now().saturating_duration_since(proved)))
}

//! Taking a grant: one proposal, then waiting at this node until it is granted, given up or abandoned.
//!
//! The work runs as a task of its own, because it must outlive a caller that goes away: only when it knows whether and as which
//! attempt the caller stands in the queue can it take it out again.

use crate::{
    api::{AcquireCall, Acquired, At, CallError, GrantView, Renewal},
    clock::wall_now,
    keepalive::Renewed,
    node::Node,
    view,
};
use fairhold_raft::error::{ProposeError, UnknownReason};
use fairhold_state::{
    State,
    command::{Acquire, Claimant, Command, Held, IfBusy, Outcome, Queued, Rejection},
    read::GrantStatus,
};
use fairhold_types::{EndReason, FencingToken, GrantId, GrantNumber, Revision, SessionNumber};
use openraft_rt::{AsyncRuntime, Instant};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// How long a caller that went away may take to come back on another connection before its place is given up. It leaves within a
/// second, commit included.
const ABANDON_AFTER: Duration = Duration::from_millis(400);
/// How long giving up a place may take, across a change of leader.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(30);

type Answer = Result<At<Acquired>, CallError>;

/// A caller's standing, once its acquire is committed.
#[derive(Debug, Clone, Copy)]
struct Standing {
    number: GrantNumber,
    session: SessionNumber,
    attempt: u64,
    /// Its token, where it was granted at once.
    token: Option<FencingToken>,
    /// The revision of the answer.
    revision: Revision,
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Takes a grant, or attaches again to the one that was taken with the same id.
    ///
    /// Dropping the future means that the caller went away: unless it named a session or asked to be answered later, its grant ends
    /// soon after, queued or held.
    pub async fn acquire(&self, call: AcquireCall) -> Answer {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        let (answer, answered) = oneshot::channel();
        let request = Request { node: self.clone(), call };
        self.0.tasks.spawn::<RT>(request.run(answer));
        answered.await.unwrap_or(Err(CallError::ShuttingDown))
    }

    /// Ends a grant whose answer did not reach its caller, in the background.
    pub fn abandon_soon(&self, grant: GrantId, attempt: u64) {
        let node = self.clone();
        self.0.tasks.spawn::<RT>(async move { node.abandon(grant, attempt).await });
    }

    /// Ends a grant whose caller went away, unless it has come again since.
    async fn abandon(&self, grant: GrantId, attempt: u64) {
        tokio::select! {
            biased;
            // A server that stops by itself drops nobody from a queue.
            () = self.0.stop.asked() => return,
            () = RT::sleep(ABANDON_AFTER) => {}
        }
        let command = Command::Abandon { grant, attempt, at: wall_now() };
        if let Err(error) = self.0.replica.propose(command, RT::Instant::now() + ABANDON_TIMEOUT).await {
            tracing::warn!(%error, "a caller went away and its grant could not be ended; it ends with its ttl");
        }
    }
}

struct Request<RT: AsyncRuntime> {
    node: Node<RT>,
    call: AcquireCall,
}

impl<RT: AsyncRuntime> Request<RT> {
    async fn run(self, mut answer: oneshot::Sender<Answer>) {
        let begun = RT::Instant::now();
        let standing = match self.claim(begun + self.call.timeout).await {
            Ok(standing) => standing,
            Err(error) => {
                // Nothing stands in the queue, or it is not known: its session's timeout takes care of that.
                let _caller_may_be_gone = answer.send(Err(error));
                return;
            }
        };
        let result = match standing.token {
            Some(token) => self.held(standing, token, begun).await,
            None => self.wait(standing, begun, &mut answer).await,
        };
        let undelivered = match result {
            Some(result) => answer.send(result).is_err(),
            None => true,
        };
        if undelivered && self.leaves_with_caller() {
            self.node.abandon(self.call.acquire.grant, standing.attempt).await;
        }
    }

    async fn claim(&self, deadline: RT::Instant) -> Result<Standing, CallError> {
        let at_once = self.call.wait.is_zero() && !self.call.respond_async;
        let if_busy = if at_once { IfBusy::Refuse } else { IfBusy::Queue };
        let command = Command::Acquire(Acquire { if_busy, at: wall_now(), ..self.call.acquire.clone() });
        let answer = self.node.0.replica.propose(command, deadline).await?;
        let revision = answer.revision;
        match answer.result? {
            Outcome::Held(Held { number, token, session, attempt }) => {
                Ok(Standing { number, session, attempt, token: Some(token), revision })
            }
            Outcome::Queued(Queued { number, session, attempt }) => {
                Ok(Standing { number, session, attempt, token: None, revision })
            }
            outcome @ (Outcome::Nothing | Outcome::Done | Outcome::SessionOpened { .. } | Outcome::Written { .. }) => {
                unreachable!("an acquire was answered with {outcome:?}")
            }
        }
    }

    /// The answer to one who holds at once.
    async fn held(&self, standing: Standing, token: FencingToken, begun: RT::Instant) -> Option<Answer> {
        if standing.attempt == 1 {
            // The leader's answer is enough: this node need not have applied it yet.
            return Some(Ok(At { value: Acquired::Held(self.view_of_new(standing, token)), revision: standing.revision }));
        }
        let deadline = begun + self.call.timeout;
        let renewed = if self.is_anonymous() {
            // Attached again: the grant is as old as it is, so it is renewed before its owner is told that it holds.
            self.node.0.keepalives.renew::<RT>(Renewal::Number(standing.session), deadline).await
        } else {
            Ok(Renewed::Alive { timeout_ms: 0 })
        };
        Some(match renewed {
            Ok(Renewed::Alive { .. }) => match self.node.0.replica.wait_for_revision(standing.revision, deadline).await {
                Ok(()) => self.answer_held(standing, None),
                Err(error) => Err(error.into()),
            },
            Ok(Renewed::Ended { .. }) => Err(Rejection::GrantEnded { reason: EndReason::Expired }.into()),
            Ok(Renewed::SessionOwned { .. } | Renewed::Unproved) => Err(ProposeError::Unknown(UnknownReason::Deadline).into()),
            Err(error) => Err(error.into()),
        })
    }

    /// Waits for the grant; `None` where the caller went away first.
    async fn wait(&self, standing: Standing, begun: RT::Instant, answer: &mut oneshot::Sender<Answer>) -> Option<Answer> {
        let until = RT::Instant::now() + self.call.wait;
        let open = self.is_anonymous().then(|| OpenRequest::keep(&self.node, standing, begun));
        let open_since = || open.as_ref().map(OpenRequest::proved);
        loop {
            let mut place = self.node.0.hub.park(standing.number);
            match self.node.0.replica.read(|state| look(state, &self.call.acquire.grant, standing)) {
                Look::Held => return Some(self.answer_held(standing, open_since())),
                Look::Ended(reason) => return Some(Err(Rejection::GrantEnded { reason }.into())),
                Look::Superseded => return Some(Err(CallError::Superseded)),
                Look::Waiting if self.call.respond_async && self.call.wait.is_zero() => {
                    let deadline = begun + self.call.timeout;
                    return Some(match self.node.0.replica.wait_for_revision(standing.revision, deadline).await {
                        Ok(()) => self.answer_queued(),
                        Err(error) => Err(error.into()),
                    });
                }
                Look::Waiting => {}
            }
            tokio::select! {
                biased;
                () = self.node.0.stop.asked() => return Some(Err(CallError::ShuttingDown)),
                () = answer.closed() => return None,
                () = place.woken() => {}
                () = RT::sleep_until(until) => {
                    return Some(if self.call.respond_async {
                        self.answer_queued()
                    } else {
                        self.withdraw(standing, open_since()).await
                    });
                }
            }
        }
    }

    /// Gives up waiting, unless it was granted by then.
    async fn withdraw(&self, standing: Standing, proved: Option<RT::Instant>) -> Answer {
        let command = Command::Withdraw { grant: self.call.acquire.grant, attempt: standing.attempt, at: wall_now() };
        let deadline = RT::Instant::now() + self.call.timeout;
        match self.node.0.replica.propose(command, deadline).await?.result {
            Ok(Outcome::Done) | Err(Rejection::GrantEnded { reason: EndReason::Withdrawn }) => {
                let holder = self.node.0.replica.read(|state| view::holder(state, self.lock()));
                Err(CallError::WaitTimeout { holder })
            }
            Ok(Outcome::Held(_)) => self.answer_held(standing, proved),
            Ok(Outcome::Nothing) => Err(CallError::Superseded),
            Ok(outcome @ (Outcome::Queued(_) | Outcome::SessionOpened { .. } | Outcome::Written { .. })) => {
                unreachable!("a withdrawal was answered with {outcome:?}")
            }
            Err(rejection) => Err(rejection.into()),
        }
    }

    /// The answer to one who holds: read again from the state, because its session may have ended in the same batch.
    fn answer_held(&self, standing: Standing, proved: Option<RT::Instant>) -> Answer {
        let grant = self.call.acquire.grant;
        self.node.0.replica.read(|state| match look(state, &grant, standing) {
            Look::Held => {
                let mut value = view::grant_of(state, &grant).ok_or(Rejection::NoGrant)?;
                value.expires_in = self.expires_in(state, &value, proved);
                value.leaves_with_caller = self.leaves_with_caller().then_some(standing.attempt);
                Ok(At { value: Acquired::Held(value), revision: state.revision() })
            }
            Look::Ended(reason) => Err(Rejection::GrantEnded { reason }.into()),
            Look::Superseded => Err(CallError::Superseded),
            // The state here lags behind the answer that says that it holds.
            Look::Waiting => Err(ProposeError::Unknown(UnknownReason::Deadline).into()),
        })
    }

    /// A grant that was given by this very request, as the request has it.
    fn view_of_new(&self, standing: Standing, token: FencingToken) -> GrantView {
        let (acquire, at) = (&self.call.acquire, wall_now());
        let timeout = match &acquire.claimant {
            Claimant::Anonymous { timeout_ms } => Some(Duration::from_millis(*timeout_ms)),
            Claimant::Session(_) => None,
        };
        GrantView {
            id: acquire.grant,
            number: standing.number,
            lock: self.lock().clone(),
            session: standing.session,
            anonymous: self.is_anonymous(),
            token: Some(token),
            mode: acquire.wants[0].mode,
            permits: acquire.permits,
            owner: acquire.owner.text.clone(),
            meta: acquire.meta.clone(),
            position: None,
            waits_for: None,
            queued_at: at,
            held_since: Some(at),
            expires_in: timeout,
            leaves_with_caller: self.leaves_with_caller().then_some(standing.attempt),
        }
    }

    fn answer_queued(&self) -> Answer {
        let grant = self.call.acquire.grant;
        self.node.0.replica.read(|state| {
            let value = view::grant_in_queue(state, &grant).ok_or(Rejection::NoGrant)?;
            let acquired = if value.token.is_some() { Acquired::Held(value) } else { Acquired::Queued(value) };
            Ok(At { value: acquired, revision: state.revision() })
        })
    }

    /// How long a grant of its own lives yet, counted from the last keepalive that was proved while it waited.
    fn expires_in(&self, state: &State, view: &GrantView, proved: Option<RT::Instant>) -> Option<Duration> {
        let session = state.session(view.session).filter(|_| view.anonymous)?;
        let timeout = Duration::from_millis(session.timeout_ms);
        let age = match proved {
            Some(proved) => RT::Instant::now().saturating_duration_since(proved),
            None => Duration::ZERO,
        };
        Some(timeout.saturating_sub(age))
    }

    fn is_anonymous(&self) -> bool {
        matches!(self.call.acquire.claimant, Claimant::Anonymous { .. })
    }

    /// Whether the grant ends when the caller goes away: not where it asked to be answered later, or has a session to come back with.
    fn leaves_with_caller(&self) -> bool {
        self.is_anonymous() && !self.call.respond_async && !self.node.is_shutting_down()
    }

    fn lock(&self) -> &fairhold_types::LockName {
        &self.call.acquire.wants[0].lock
    }
}

/// What a waiting request sees of its grant.
enum Look {
    Waiting,
    Held,
    Ended(EndReason),
    Superseded,
}

fn look(state: &State, grant: &GrantId, standing: Standing) -> Look {
    match state.grant(grant) {
        GrantStatus::Live(contender) if contender.attempt > standing.attempt => Look::Superseded,
        GrantStatus::Live(contender) if contender.granted_at.is_some() => Look::Held,
        GrantStatus::Live(_) => Look::Waiting,
        GrantStatus::Ended(reason) => Look::Ended(reason),
        // This node has not applied the acquire yet, which the leader has: it will, and wakes us then.
        GrantStatus::Unknown if state.revision().0 < standing.number.0 => Look::Waiting,
        // Remembered no more, so it ended long ago; how is not known.
        GrantStatus::Unknown => Look::Ended(EndReason::Expired),
    }
}

/// Keeps the grant of an open request alive, as long as this is not dropped.
struct OpenRequest<I> {
    proved: Arc<Mutex<I>>,
    _open: oneshot::Sender<()>,
}

impl<I: Instant> OpenRequest<I> {
    fn keep<RT: AsyncRuntime<Instant = I>>(node: &Node<RT>, standing: Standing, begun: I) -> OpenRequest<I> {
        let (open, mut closed) = oneshot::channel::<()>();
        let proved = Arc::new(Mutex::new(begun));
        let (shared, node) = (Arc::clone(&proved), node.clone());
        let timeout = node.0.replica.read(|state| state.session(standing.session).map(|session| session.timeout_ms));
        let timeout = Duration::from_millis(timeout.unwrap_or(1_000));
        node.clone().0.tasks.spawn::<RT>(async move {
            // Attached again: the session is older than this request.
            let mut pause = if standing.attempt > 1 { Duration::ZERO } else { timeout / 3 };
            loop {
                tokio::select! {
                    biased;
                    _ = &mut closed => return,
                    () = node.0.stop.asked() => return,
                    () = RT::sleep(pause) => {}
                }
                let sent = RT::Instant::now();
                let renewal = node.0.keepalives.renew::<RT>(Renewal::Number(standing.session), sent + timeout / 3);
                if let Ok(Renewed::Alive { .. }) = renewal.await {
                    *shared.lock().unwrap_or_else(PoisonError::into_inner) = sent;
                }
                pause = timeout / 3;
            }
        });
        OpenRequest { proved, _open: open }
    }

    fn proved(&self) -> I {
        *self.proved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

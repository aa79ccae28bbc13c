//! Holds a grant as long as its caller is connected: the connection is the session.
//!
//! Each caller has one task. The task acquires the grant, sends its events, and ends it when the caller disconnects. It
//! never waits to send. If a caller does not read, the task first skips `Alive` events, and after the grant's timeout
//! it ends the stream. A caller that falls silent or does not read keeps its grant for the timeout, because it may be
//! alive and believe that it holds the lock.

use crate::{
    access::TenantSlot,
    api::{AcquireCall, Acquired, At, CallError, CallerSilent, GrantView, HoldCall, HoldEvent},
    base::metrics::OpenStream,
    calls::{
        acquire::{PendingAcquire, UNKNOWN, after_waiting, as_unknown},
        attempt::{AttemptStatus, CommittedAcquire, OwnGrant, attempt_status},
        keep_alive_guard::KeepAliveGuard,
        waiter_rights::instead_of_timeout,
    },
    node::Node,
    views::{self, positions},
};
use fairhold_types::{Revision, limits::SESSION_TIMEOUT_DEFAULT};
use openraft_rt::{AsyncRuntime, Instant};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::sync::mpsc;

/// The capacity of one caller's event queue.
const EVENTS_MAX: usize = 16;
/// The part of this capacity that `Alive` events leave free for `Queued`, `Held` and the last event.
const EVENTS_RESERVED: usize = 3;
/// The interval between `Alive` events; a third of the grant's timeout if that is shorter.
const ALIVE_EVERY_MAX: Duration = Duration::from_secs(3);

type Events = mpsc::Sender<At<HoldEvent>>;

/// The last status that was sent to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldStage {
    Nothing,
    Queued,
    Held,
}

/// How a stream ends.
enum HoldEnd {
    /// The last event was sent.
    Finished,
    /// The caller disconnected.
    Gone {
        /// Whether `held` was sent before.
        held: bool,
    },
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Acquires a grant, or attaches to the grant that was acquired with the same id, and holds it as long as the
    /// caller is connected. The grant must be anonymous: a named session does not end with a connection.
    ///
    /// Dropping the future or its result means that the caller disconnected. A shutdown of the server ends no grant.
    pub async fn hold(&self, call: AcquireCall) -> Result<HoldCall, CallError> {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        // The stream is open as long as the grant.
        let wait = self.begin_wait_for(&call.acquire.grant, Duration::MAX)?;
        let (send, mut events) = mpsc::channel(EVENTS_MAX);
        // The stream is the answer, so the caller cannot request a later one.
        let call = AcquireCall { respond_async: false, ..call };
        let caller_silent = CallerSilent::default();
        let hold = OpenHold {
            request: PendingAcquire { node: self.clone(), call },
            events: send,
            caller_silent: caller_silent.clone(),
            is_expiry_told: AtomicBool::new(false),
            _wait: wait,
        };
        self.0.tasks.spawn::<RT>(hold.run());
        let first = events.recv().await;
        self.record_first(first.as_ref().map(|first| &first.value));
        match first {
            Some(At { value: HoldEvent::Failed(error), .. }) => Err(error),
            Some(first) => Ok(HoldCall { first, events, caller_silent }),
            None => Err(CallError::Detached),
        }
    }

    fn record_first(&self, first: Option<&HoldEvent>) {
        let metrics = &self.0.hub.metrics;
        match first {
            Some(HoldEvent::Held(_)) => metrics.record_held(),
            Some(HoldEvent::Queued { .. }) => metrics.record_queued(),
            Some(HoldEvent::Failed(error)) => metrics.record_acquire(Some(Err(error))),
            Some(
                HoldEvent::Alive | HoldEvent::Revoke(_) | HoldEvent::CredentialExpires | HoldEvent::Lost(_) | HoldEvent::GoAway,
            )
            | None => {
                metrics.record_acquire(Some(Err(&CallError::Detached)));
            }
        }
    }
}

struct OpenHold<RT: AsyncRuntime> {
    request: PendingAcquire<RT>,
    events: Events,
    caller_silent: CallerSilent,
    /// The caller knows that its credential expires soon.
    is_expiry_told: AtomicBool,
    /// Counts the stream for the tenant of its caller.
    _wait: Option<TenantSlot>,
}

impl<RT: AsyncRuntime> OpenHold<RT> {
    async fn run(self) {
        let _open = OpenStream::count(&self.request.node.0.hub.metrics.streams);
        let started_at = RT::Instant::now();
        let deadline = started_at + self.request.call.timeout;
        let (outcome, gone) = self.request.commit_and_watch_caller(deadline, self.events.closed()).await;
        let committed = match outcome {
            Ok(committed) => committed,
            Err(error) if gone && error.is_unknown() => return self.request.give_up(OwnGrant::Unknown).await,
            Err(error) => return self.send_now(HoldEvent::Failed(error)),
        };
        let end = match gone {
            // The grant of a later attempt stays: it may belong to another request. At the first attempt it belongs to
            // this caller, which disconnected.
            true if committed.attempt > 1 => HoldEnd::Finished,
            true => HoldEnd::Gone { held: false },
            false => self.follow(committed, started_at, deadline).await.unwrap_or_else(|error| {
                let error = as_unknown(error);
                self.send_last(if error == CallError::Detached { HoldEvent::GoAway } else { HoldEvent::Failed(error) })
            }),
        };
        let node = &self.request.node;
        let grant = self.request.call.acquire.grant;
        match end {
            HoldEnd::Finished => {}
            HoldEnd::Gone { .. } if self.caller_silent.is_set() => {}
            // A held grant blocks other requests, and by contract it ends with its connection. A queued grant blocks no
            // other request, so its caller gets time to reconnect. After a later attempt, so does the caller whose
            // stream that attempt ended.
            HoldEnd::Gone { held: true } if committed.attempt == 1 => node.abandon_at_once(grant, committed.attempt).await,
            HoldEnd::Gone { .. } => node.abandon(grant, committed.attempt).await,
        }
    }

    /// Sends the events of the grant until the last one.
    async fn follow(
        &self,
        committed: CommittedAcquire,
        started_at: RT::Instant,
        deadline: RT::Instant,
    ) -> Result<HoldEnd, CallError> {
        let PendingAcquire { node, call } = &self.request;
        let mut since = RT::Instant::now();
        let until = since + call.wait;
        let timeout = self.request.own_timeout().unwrap_or(SESSION_TIMEOUT_DEFAULT);
        let keep_alive = KeepAliveGuard::start(node, committed, timeout, started_at);
        let alive_interval = (timeout / 3).min(ALIVE_EVERY_MAX);
        let mut alive_at = RT::Instant::now() + alive_interval;
        let mut stage = self.send_held_at_once(committed);
        let mut position = None;
        let mut drained_at = RT::Instant::now();
        let mut revoked = None;
        loop {
            let mut waiter = node.0.hub.register(committed.number);
            let status = node.0.replica.read(|state| attempt_status(state, &call.acquire.grant, committed));
            stage = match (status, stage) {
                (AttemptStatus::Ended(reason), _) => return Ok(self.send_last(HoldEvent::Lost(reason))),
                (AttemptStatus::Superseded, _) => return Err(CallError::Superseded),
                (AttemptStatus::Held, HoldStage::Nothing | HoldStage::Queued) => {
                    position = None;
                    let deadline = after_waiting(deadline, since);
                    self.send_held(
                        self.request.answer_held(committed, committed.revision, keep_alive.confirmed_at(), deadline).await?,
                    )
                }
                (AttemptStatus::Waiting, HoldStage::Nothing) => {
                    position = self.send_queued(committed, deadline).await?;
                    since = RT::Instant::now();
                    if position.is_some() { HoldStage::Queued } else { HoldStage::Nothing }
                }
                (AttemptStatus::Held, HoldStage::Held) | (AttemptStatus::Waiting, HoldStage::Queued | HoldStage::Held) => stage,
            };
            if stage == HoldStage::Nothing {
                continue;
            }
            if stage == HoldStage::Queued
                && let Err(refused) = node.check_waiter(&call.acquire)
            {
                let deadline = after_waiting(deadline, since);
                let withdrawn = self.request.withdraw(committed, keep_alive.confirmed_at(), deadline).await;
                stage = self.send_held(instead_of_timeout(withdrawn, refused)?);
            }
            // A right that is lost takes no lock away. Without a valid credential the stream renews it no more.
            node.prove_credential().await?;
            if stage == HoldStage::Held {
                revoked = self.send_revocation(committed, revoked);
            }
            tokio::select! {
                biased;
                () = node.0.stop.requested() => return Ok(self.send_last(HoldEvent::GoAway)),
                () = self.events.closed() => return Ok(HoldEnd::Gone { held: stage == HoldStage::Held }),
                () = waiter.woken() => {}
                () = RT::sleep_until(until), if stage == HoldStage::Queued => {
                    let deadline = after_waiting(deadline, since);
                    stage = self.send_held(self.request.withdraw(committed, keep_alive.confirmed_at(), deadline).await?);
                }
                () = RT::sleep_until(alive_at.min(keep_alive.may_expire_at())) => {
                    // This node can no longer renew the grant, so it does not know its status. Another node may.
                    if keep_alive.may_expire_at() <= RT::Instant::now() {
                        return Err(UNKNOWN.into());
                    }
                    alive_at = RT::Instant::now() + alive_interval;
                    if self.events.capacity() == EVENTS_MAX {
                        drained_at = RT::Instant::now();
                    } else if drained_at + timeout <= RT::Instant::now() {
                        return Err(UNKNOWN.into());
                    }
                    position = self.send_alive(committed, position);
                }
            }
        }
    }

    /// Sends `held` for a grant that this request created. The leader's answer is enough: this node may not have
    /// applied the command yet.
    fn send_held_at_once(&self, committed: CommittedAcquire) -> HoldStage {
        match committed.token {
            Some(token) if committed.attempt == 1 => {
                let value = Acquired::Held(self.request.view_of_new(committed, token));
                self.send_held(At { value, revision: committed.revision })
            }
            Some(_) | None => HoldStage::Nothing,
        }
    }

    /// Sends the revocation if it is newer than `sent`. Returns the revision of the last revocation sent.
    fn send_revocation(&self, committed: CommittedAcquire, sent: Option<Revision>) -> Option<Revision> {
        let state = self.request.node.0.replica.state();
        let revocation = state.contender(committed.number).and_then(|contender| contender.revoked.clone());
        drop(state);
        match revocation {
            Some(revocation) if Some(revocation.revision) > sent && self.events.capacity() > EVENTS_RESERVED => {
                let revision = revocation.revision;
                self.send_now(HoldEvent::Revoke(revocation));
                Some(revision)
            }
            Some(_) | None => sent,
        }
    }

    /// Sends `held`. `Acquired::Queued` does not occur: only `respond_async` allows it, and a stream never sets it.
    fn send_held(&self, acquired: At<Acquired>) -> HoldStage {
        let (Acquired::Held(view) | Acquired::Queued(view)) = acquired.value;
        self.send(At { value: HoldEvent::Held(Box::new(view)), revision: acquired.revision });
        HoldStage::Held
    }

    /// Waits until this node has applied the acquire, then sends the position in the queue and returns it. `None` if
    /// the grant no longer waits.
    async fn send_queued(&self, committed: CommittedAcquire, deadline: RT::Instant) -> Result<Option<u64>, CallError> {
        self.request.node.0.replica.wait_for_revision(committed.revision, deadline).await?;
        let queued = self.queued(committed);
        let position = queued.as_ref().map(|(position, _)| *position);
        if let Some((_, event)) = queued {
            self.send(event);
        }
        Ok(position)
    }

    /// The position in the queue, and the event for it, while the grant waits.
    fn queued(&self, committed: CommittedAcquire) -> Option<(u64, At<HoldEvent>)> {
        let PendingAcquire { node, call } = &self.request;
        let state = node.0.replica.state();
        let grant = &call.acquire.grant;
        if !matches!(attempt_status(&state, grant, committed), AttemptStatus::Waiting) {
            return None;
        }
        let view = views::grant_of(&state, grant)?;
        let queue_position = positions::of_grant(&state, self.request.locks(), committed.number)?;
        let position = queue_position.position;
        let view = Box::new(GrantView { queue_position: Some(queue_position), ..view });
        Some((position, At { value: HoldEvent::Queued { view }, revision: state.revision() }))
    }

    /// Sends once that the credential expires soon, otherwise the position in the queue if it has changed, otherwise `Alive`.
    /// Returns the last position sent. Sends nothing if the caller does not read.
    fn send_alive(&self, committed: CommittedAcquire, sent: Option<u64>) -> Option<u64> {
        if self.events.capacity() <= EVENTS_RESERVED {
            return sent;
        }
        if self.request.node.credential_expires_soon() && !self.is_expiry_told.swap(true, Ordering::Relaxed) {
            self.send_now(HoldEvent::CredentialExpires);
            return sent;
        }
        match sent.and_then(|_| self.queued(committed)) {
            Some((position, event)) if sent != Some(position) => {
                self.send(event);
                Some(position)
            }
            Some(_) | None => {
                self.send_now(HoldEvent::Alive);
                sent
            }
        }
    }

    fn send_last(&self, event: HoldEvent) -> HoldEnd {
        self.send_now(event);
        HoldEnd::Finished
    }

    fn send_now(&self, event: HoldEvent) {
        self.send(At { value: event, revision: self.request.node.revision() });
    }

    /// Never waits. The queue always has room, because `Alive` and `Revoke` leave some free. `follow` detects a caller
    /// that has disconnected.
    fn send(&self, event: At<HoldEvent>) {
        let _caller_may_be_gone = self.events.try_send(event);
    }
}

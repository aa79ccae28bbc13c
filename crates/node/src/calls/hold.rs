//! Holding a grant for as long as its caller listens: the connection is the session.
//!
//! One task a caller. It takes the grant, tells what becomes of it, and ends it when the caller goes away. Telling never waits: a
//! caller that does not read misses signs of life first, and is given up when it has read nothing for its grant's timeout. One
//! that fell silent, or does not read, keeps its grant for the timeout: it may be alive, and believe that it holds.

use crate::{
    api::{AcquireCall, Acquired, At, CallError, GrantView, HoldCall, HoldEvent, Silence},
    base::metrics::OpenStream,
    calls::{
        acquire::{OpenAcquire, UNKNOWN, after_waiting, uncertain},
        attempt::{CallerStanding, GrantLook, OwnGrant, look},
        keep_alive_guard::OpenRequest,
    },
    node::Node,
    views::{self, positions},
};
use fairhold_types::{Revision, limits::SESSION_TIMEOUT_DEFAULT};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;
use tokio::sync::mpsc;

/// Events that may wait for one caller.
const EVENTS_MAX: usize = 16;
/// Of those, kept free for what must not be missed: `Queued`, `Held`, and the one that ends it.
const EVENTS_RESERVED: usize = 3;
/// A sign of life comes at least so often, and three times in the grant's timeout.
const ALIVE_EVERY_MAX: Duration = Duration::from_secs(3);

type Events = mpsc::Sender<At<HoldEvent>>;

/// What the caller was told so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldStage {
    Nothing,
    Queued,
    Held,
}

/// How telling ended.
enum HoldEnd {
    /// All is told.
    Told,
    /// The caller went away.
    Gone {
        /// Whether it had been told that it holds.
        held: bool,
    },
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Takes a grant, or attaches again to the one that was taken with the same id, and holds it as long as the caller listens.
    /// It is for a grant without a named session, which has its own life.
    ///
    /// Dropping the future or what it gives means that the caller went away. A server that stops ends nothing.
    pub async fn hold(&self, call: AcquireCall) -> Result<HoldCall, CallError> {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        let (tell, mut events) = mpsc::channel(EVENTS_MAX);
        // The connection is what the grant lives by: there is no later answer.
        let call = AcquireCall { respond_async: false, ..call };
        let silence = Silence::default();
        let holder = OpenHold { request: OpenAcquire { node: self.clone(), call }, events: tell, silence: silence.clone() };
        self.0.tasks.spawn::<RT>(holder.run());
        let first = events.recv().await;
        self.note_first(first.as_ref().map(|first| &first.value));
        match first {
            Some(At { value: HoldEvent::Failed(error), .. }) => Err(error),
            Some(first) => Ok(HoldCall { first, events, silence }),
            None => Err(CallError::Detached),
        }
    }

    fn note_first(&self, first: Option<&HoldEvent>) {
        let metrics = &self.0.hub.metrics;
        match first {
            Some(HoldEvent::Held(_)) => metrics.note_held(),
            Some(HoldEvent::Queued { .. }) => metrics.note_queued(),
            Some(HoldEvent::Failed(error)) => metrics.note_acquire(Some(Err(error))),
            Some(HoldEvent::Alive | HoldEvent::Revoke(_) | HoldEvent::Lost(_) | HoldEvent::GoAway) | None => {
                metrics.note_acquire(Some(Err(&CallError::Detached)));
            }
        }
    }
}

struct OpenHold<RT: AsyncRuntime> {
    request: OpenAcquire<RT>,
    events: Events,
    silence: Silence,
}

impl<RT: AsyncRuntime> OpenHold<RT> {
    async fn run(self) {
        let _open = OpenStream::count(&self.request.node.0.hub.metrics.streams);
        let begun = RT::Instant::now();
        let deadline = begun + self.request.call.timeout;
        let (claimed, gone) = self.request.claim_while_wanted(deadline, self.events.closed()).await;
        let standing = match claimed {
            Ok(standing) => standing,
            Err(error) if gone && error.is_unknown() => return self.request.give_up(OwnGrant::Unknown).await,
            Err(error) => return self.tell_now(HoldEvent::Failed(error)),
        };
        let end = match gone {
            // A caller that left before it had an attempt cannot have been followed by a later one, unless this one is the
            // later: then the grant that stands there now is left alone.
            true if standing.attempt > 1 => HoldEnd::Told,
            true => HoldEnd::Gone { held: false },
            false => self.follow(standing, begun, deadline).await.unwrap_or_else(|error| {
                let error = uncertain(error);
                self.tell_last(if error == CallError::Detached { HoldEvent::GoAway } else { HoldEvent::Failed(error) })
            }),
        };
        let (node, grant) = (&self.request.node, self.request.call.acquire.grant);
        match end {
            HoldEnd::Told => {}
            HoldEnd::Gone { .. } if self.silence.is_noted() => {}
            // Others wait for what it held, and it was said to end with the connection. A place in a queue holds nobody up: its
            // caller may come again on another connection, as may one whose stream was ended by this one.
            HoldEnd::Gone { held: true } if standing.attempt == 1 => node.abandon_at_once(grant, standing.attempt).await,
            HoldEnd::Gone { .. } => node.abandon(grant, standing.attempt).await,
        }
    }

    /// Tells what becomes of the grant, until there is nothing more to tell.
    async fn follow(&self, standing: CallerStanding, begun: RT::Instant, deadline: RT::Instant) -> Result<HoldEnd, CallError> {
        let OpenAcquire { node, call } = &self.request;
        let mut since = RT::Instant::now();
        let until = since + call.wait;
        let timeout = self.request.own_timeout().unwrap_or(SESSION_TIMEOUT_DEFAULT);
        let open = OpenRequest::keep(node, standing, timeout, begun);
        let pause = (timeout / 3).min(ALIVE_EVERY_MAX);
        let mut alive_at = RT::Instant::now() + pause;
        let mut told = self.tell_granted_at_once(standing);
        let (mut position, mut all_read_at, mut revoked) = (None, RT::Instant::now(), None);
        loop {
            let mut place = node.0.hub.park(standing.number);
            let seen = node.0.replica.read(|state| look(state, &call.acquire.grant, standing));
            told = match (seen, told) {
                (GrantLook::Ended(reason), _) => return Ok(self.tell_last(HoldEvent::Lost(reason))),
                (GrantLook::Superseded, _) => return Err(CallError::Superseded),
                (GrantLook::Held, HoldStage::Nothing | HoldStage::Queued) => {
                    position = None;
                    let deadline = after_waiting(deadline, since);
                    self.tell_held(self.request.answer_held(standing, standing.revision, open.proved(), deadline).await?)
                }
                (GrantLook::Waiting, HoldStage::Nothing) => {
                    position = self.tell_queued(standing, deadline).await?;
                    since = RT::Instant::now();
                    if position.is_some() { HoldStage::Queued } else { HoldStage::Nothing }
                }
                (GrantLook::Held, HoldStage::Held) | (GrantLook::Waiting, HoldStage::Queued | HoldStage::Held) => told,
            };
            if told == HoldStage::Nothing {
                continue;
            }
            if told == HoldStage::Held {
                revoked = self.tell_revoked(standing, revoked);
            }
            tokio::select! {
                biased;
                () = node.0.stop.requested() => return Ok(self.tell_last(HoldEvent::GoAway)),
                () = self.events.closed() => return Ok(HoldEnd::Gone { held: told == HoldStage::Held }),
                () = place.woken() => {}
                () = RT::sleep_until(until), if told == HoldStage::Queued => {
                    let deadline = after_waiting(deadline, since);
                    told = self.tell_held(self.request.withdraw(standing, open.proved(), deadline).await?);
                }
                () = RT::sleep_until(alive_at.min(open.doubtful_from())) => {
                    // Cut off from the others, this node cannot know: another node can tell.
                    if open.doubtful_from() <= RT::Instant::now() {
                        return Err(UNKNOWN.into());
                    }
                    alive_at = RT::Instant::now() + pause;
                    if self.events.capacity() == EVENTS_MAX {
                        all_read_at = RT::Instant::now();
                    } else if all_read_at + timeout <= RT::Instant::now() {
                        return Err(UNKNOWN.into());
                    }
                    position = self.tell_alive(standing, position);
                }
            }
        }
    }

    /// Tells of a grant that was given by this very request: the leader's answer is enough, this node need not have applied it.
    fn tell_granted_at_once(&self, standing: CallerStanding) -> HoldStage {
        match standing.token {
            Some(token) if standing.attempt == 1 => {
                let value = Acquired::Held(self.request.view_of_new(standing, token));
                self.tell_held(At { value, revision: standing.revision })
            }
            Some(_) | None => HoldStage::Nothing,
        }
    }

    /// Tells of an administrator's word that was not told yet, and gives the revision of the last one that was.
    fn tell_revoked(&self, standing: CallerStanding, told: Option<Revision>) -> Option<Revision> {
        let state = self.request.node.0.replica.state();
        let word = state.contender(standing.number).and_then(|contender| contender.revoked.clone());
        drop(state);
        match word {
            Some(word) if Some(word.revision) > told && self.events.capacity() > EVENTS_RESERVED => {
                let revision = word.revision;
                self.tell_now(HoldEvent::Revoke(word));
                Some(revision)
            }
            Some(_) | None => told,
        }
    }

    /// Tells that it holds, which is not certain before it was asked for. Only a request to be answered later is told `Queued`.
    fn tell_held(&self, acquired: At<Acquired>) -> HoldStage {
        let (Acquired::Held(view) | Acquired::Queued(view)) = acquired.value;
        self.tell(At { value: HoldEvent::Held(Box::new(view)), revision: acquired.revision });
        HoldStage::Held
    }

    /// Tells where it stands in the queue, as soon as this node knows, and gives that position; nothing where it waits no more by
    /// then.
    async fn tell_queued(&self, standing: CallerStanding, deadline: RT::Instant) -> Result<Option<u64>, CallError> {
        self.request.node.0.replica.wait_for_revision(standing.revision, deadline).await?;
        let queued = self.queued(standing);
        let position = queued.as_ref().map(|(position, _)| *position);
        if let Some((_, event)) = queued {
            self.tell(event);
        }
        Ok(position)
    }

    /// Its place in the queue and the event that tells it, while it waits.
    fn queued(&self, standing: CallerStanding) -> Option<(u64, At<HoldEvent>)> {
        let OpenAcquire { node, call } = &self.request;
        let state = node.0.replica.state();
        let grant = &call.acquire.grant;
        if !matches!(look(&state, grant, standing), GrantLook::Waiting) {
            return None;
        }
        let view = views::grant_of(&state, grant)?;
        let in_the_way = positions::of_grant(&state, self.request.locks(), standing.number)?;
        let position = in_the_way.position;
        let view = Box::new(GrantView { in_the_way: Some(in_the_way), ..view });
        Some((position, At { value: HoldEvent::Queued { view }, revision: state.revision() }))
    }

    /// Shows that the connection stands: by the place in the queue where that is another one than was told last, and gives the
    /// one that is told by now. Left out where the caller does not read.
    fn tell_alive(&self, standing: CallerStanding, told: Option<u64>) -> Option<u64> {
        if self.events.capacity() <= EVENTS_RESERVED {
            return told;
        }
        match told.and_then(|_| self.queued(standing)) {
            Some((position, event)) if told != Some(position) => {
                self.tell(event);
                Some(position)
            }
            Some(_) | None => {
                self.tell_now(HoldEvent::Alive);
                told
            }
        }
    }

    fn tell_last(&self, event: HoldEvent) -> HoldEnd {
        self.tell_now(event);
        HoldEnd::Told
    }

    fn tell_now(&self, event: HoldEvent) {
        self.tell(At { value: event, revision: self.request.node.revision() });
    }

    /// Never waits: room is kept for every event but the signs of life. A caller that is gone is noticed where it is waited for.
    fn tell(&self, event: At<HoldEvent>) {
        let _caller_may_be_gone = self.events.try_send(event);
    }
}

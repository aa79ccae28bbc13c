//! Waits for a lock with an open request, for grants without a session.
//!
//! A request that waits is silent. So the client also asks its node, every few seconds, to renew the grant. That has
//! two effects. A renewal proves that the grant is alive, so the answer, whenever it comes, is a guard without a
//! further round trip. And a node that does not answer a renewal may not answer the request either: the client then
//! sends the same request, with the same id, to another node too. It leaves the first request open, because closing it
//! would tell its node that the caller has left.

use crate::{
    acquire::{
        acquisition::{Acquisition, Attempt},
        bound::QueuedEvidence,
        queue_place::{OnQueue, QueuePlace},
        wait_until::WaitUntil,
    },
    error::{Error, Lost},
    hold::{
        lease::{RenewTarget, RenewalProof, attempt_max, renewal_due},
        session::Session,
    },
    wire::{
        backoff::Backoff,
        call::Call,
        clock::Moment,
        endpoints::{Endpoint, Prefer},
        http::Attempted,
        retry::LastError,
    },
};
use fairhold_types::dto;
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use reqwest::Method;
use std::{collections::VecDeque, time::Duration};
use tokio::time::{Instant, sleep_until};

/// The most open requests of one acquisition.
const POSTS_MAX: usize = 4;
/// The client repeats the request before the server's longest wait ends, so that the grant keeps its place.
const POST_AGAIN_AFTER: Duration = Duration::from_secs(540);
/// The time from a new request to the first probe of its node.
const FIRST_PROBE_AFTER: Duration = Duration::from_millis(500);
/// The same if the caller wants to know the place in the queue.
const FIRST_PLACE_AFTER: Duration = Duration::from_millis(30);
/// The longest time between two probes.
const PROBE_EVERY_MAX: Duration = Duration::from_secs(5);

/// The result of a probe.
struct Probed {
    outcome: ProbeOutcome,
    place: Option<QueuePlace>,
}

enum ProbeOutcome {
    /// The node acknowledged a keepalive.
    Alive(RenewalProof),
    /// The node answers, but does not have the grant yet.
    NotThereYet,
    /// The grant, or its session, has ended.
    Ended,
    /// The node does not answer.
    Silent,
}

/// Open requests and probes.
struct InFlight {
    posts: FuturesUnordered<BoxFuture<'static, Attempted>>,
    probes: FuturesUnordered<BoxFuture<'static, Probed>>,
    /// The nodes that this round has not tried yet.
    order: VecDeque<Endpoint>,
    /// The node of the newest request.
    newest: Option<Endpoint>,
    post_at: Instant,
    probe_at: Instant,
    backoff: Backoff,
    last_error: LastError,
    /// The newest acknowledged keepalive.
    proved: Option<RenewalProof>,
    /// The place that the caller knows.
    notified: Option<QueuePlace>,
    /// A node said that the grant has ended, while the request for it is still open.
    seems_ended: bool,
}

impl InFlight {
    fn new() -> InFlight {
        let now = Instant::now();
        InFlight {
            posts: FuturesUnordered::new(),
            probes: FuturesUnordered::new(),
            order: VecDeque::new(),
            newest: None,
            post_at: now,
            probe_at: now,
            backoff: Backoff::new(),
            last_error: LastError::default(),
            proved: None,
            notified: None,
            seems_ended: false,
        }
    }

    /// Schedules the next request after one that brought no result.
    fn post_after(&mut self, retry_after: Option<Duration>) {
        // A request that still waits at another node is enough.
        if self.posts.is_empty() {
            let pause = if self.order.is_empty() { self.backoff.next(retry_after) } else { Duration::ZERO };
            self.post_at = Instant::now() + pause;
        }
    }

    /// Calls the caller's function with a place that it does not know yet.
    fn notify(&mut self, place: Option<QueuePlace>, on_queue: &mut Option<OnQueue>) {
        if place.is_some() && place != self.notified {
            if let (Some(on_queue), Some(place)) = (on_queue, &place) {
                on_queue(place);
            }
            self.notified = place;
        }
    }
}

impl Acquisition<'_> {
    /// Keeps a request open until the lock is held, cannot be held under this id any more, or the caller's time is up.
    pub(super) async fn wait_by_request(mut self, on_queue: &mut Option<OnQueue>) -> Result<Attempt, Error> {
        let mut in_flight = InFlight::new();
        let mut new_tokens = self.client.inner().calls.token_changes();
        let give_up_at = self.until.give_up_at();
        loop {
            tokio::select! {
                biased;
                Some(attempted) = in_flight.posts.next(), if !in_flight.posts.is_empty() => match attempted {
                    Attempted::Answered(reply) => match self.answered(&reply, in_flight.proved).await? {
                        Some(attempt) => return Ok(attempt),
                        // No request asked for that answer. The grant keeps its place all the same.
                        None => in_flight.post_after(None),
                    },
                    failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => {
                        let retry_after = in_flight.last_error.note(failed);
                        in_flight.post_after(retry_after);
                    }
                },
                Some(probed) = in_flight.probes.next(), if !in_flight.probes.is_empty() => {
                    in_flight.notify(probed.place, on_queue);
                    if let Some(attempt) = self.probed(probed.outcome, &mut in_flight) {
                        return Ok(attempt);
                    }
                }
                lost = session_lost(self.session) => return Err(Error::Lost(lost)),
                () = sleep_until(give_up_at.unwrap_or(self.started_at)), if give_up_at.is_some() => {
                    return Err(self.error_at_end(in_flight.last_error));
                }
                // An open request ends, and loses the place, when the token that it showed expires. The new request continues it.
                () = new_tokens.next() => in_flight.post_at = Instant::now(),
                () = sleep_until(in_flight.post_at), if in_flight.posts.len() < POSTS_MAX => self.post(&mut in_flight),
                () = sleep_until(in_flight.probe_at), if in_flight.probes.is_empty() && !in_flight.posts.is_empty() => {
                    self.probe(&mut in_flight, on_queue.is_some());
                }
            }
        }
    }

    /// Sends the request to the next node.
    fn post(&mut self, in_flight: &mut InFlight) {
        let inner = self.client.inner();
        if in_flight.order.is_empty() {
            let prefer = if matches!(self.until, WaitUntil::Now(_)) { Prefer::Leader } else { Prefer::Any };
            in_flight.order = inner.calls.endpoints.order(prefer).into();
        }
        let Some(endpoint) = in_flight.order.pop_front() else { return };
        let wait = self.until.wait();
        let work = inner.timeout;
        let call = self.call(&self.request.body(self.session, wait));
        let calls = inner.calls.clone();
        in_flight.newest = Some(endpoint.clone());
        in_flight.posts.push(Box::pin(async move { calls.wait_at(&endpoint, &call, wait, work).await }));
        self.posts_sent += 1;
        self.first_sent.get_or_insert_with(Moment::now);
        if !wait.is_zero() {
            self.queued = QueuedEvidence::Perhaps;
        }
        let now = Instant::now();
        in_flight.post_at = now + POST_AGAIN_AFTER;
        in_flight.probe_at = now + FIRST_PROBE_AFTER.min(renewal_due(self.request.ttl));
    }

    /// Asks the node of the newest request to renew the grant and, if the caller wants to know, for its place in the
    /// queue.
    fn probe(&self, in_flight: &mut InFlight, wants_place: bool) {
        let Some(endpoint) = in_flight.newest.clone() else { return };
        let target = match self.session {
            Some(session) => RenewTarget::Session(session.id()),
            None => RenewTarget::Grant(self.id),
        };
        let calls = self.client.inner().renewals.clone();
        let id = self.id;
        let limit = attempt_max(self.request.ttl);
        in_flight.probes.push(Box::pin(async move {
            let outcome = match calls.try_at(&endpoint, &target.renewal(), limit).await {
                Attempted::Answered(reply) => match target.proof(&reply) {
                    Ok(proof) => ProbeOutcome::Alive(proof),
                    Err(Error::Lost(_)) => ProbeOutcome::Ended,
                    // It answers, and does not say that the grant has ended.
                    Err(_) => ProbeOutcome::NotThereYet,
                },
                // It answers, and another node could do no better now.
                Attempted::Nothing { busy: true, .. } => ProbeOutcome::NotThereYet,
                Attempted::Nothing { .. } | Attempted::Unknown { .. } => ProbeOutcome::Silent,
            };
            let mut place = None;
            if wants_place && !matches!(outcome, ProbeOutcome::Silent) {
                let read = Call::new(Method::GET, format!("/v1/grants/{id}"));
                if let Attempted::Answered(reply) = calls.try_at(&endpoint, &read, limit).await {
                    place = reply.json::<dto::Grant>().ok().and_then(QueuePlace::of);
                }
            }
            Probed { outcome, place }
        }));
        in_flight.probe_at = Instant::now() + renewal_due(self.request.ttl).min(PROBE_EVERY_MAX);
        if wants_place && in_flight.notified.is_none() {
            in_flight.probe_at = Instant::now() + FIRST_PLACE_AFTER * 4;
        }
    }

    fn probed(&mut self, outcome: ProbeOutcome, in_flight: &mut InFlight) -> Option<Attempt> {
        match outcome {
            ProbeOutcome::Alive(proof) => {
                in_flight.proved = in_flight.proved.max(Some(proof));
                if let Some(session) = self.session {
                    session.lease().proved(proof);
                }
            }
            ProbeOutcome::NotThereYet => {}
            // The session's own keepalive finds that out too, and knows the reason.
            ProbeOutcome::Ended if self.session.is_some() => {}
            // The open request is about to get the reason: a withdrawal at the end of a wait is answered after it
            // happened.
            ProbeOutcome::Ended if !in_flight.seems_ended => {
                in_flight.seems_ended = true;
                in_flight.probe_at = Instant::now() + FIRST_PROBE_AFTER;
            }
            ProbeOutcome::Ended => {
                self.is_settled = true;
                return Some(Attempt::Again("it ended while it waited"));
            }
            ProbeOutcome::Silent => in_flight.post_at = Instant::now(),
        }
        None
    }
}

async fn session_lost(session: Option<&Session>) -> Lost {
    match session {
        Some(session) => session.lost().await,
        None => std::future::pending().await,
    }
}

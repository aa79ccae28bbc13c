//! One claim: one id, from before its first byte is sent until it is held, refused, or taken back.
//!
//! A request that waits is silent, so its node is asked beside it, every few seconds, to renew the grant. That does two things
//! at once. It proves the grant alive by a keepalive that this client sent, so that the answer, whenever it comes, is a guard
//! without a further round trip. And a node that does not answer it may not answer the request either: then the same request,
//! with the same id, goes to another node too. The first one is left open, because closing it would tell its node that the
//! caller went away.

use crate::{
    acquire::{
        acquire_request::AcquireRequest,
        bound::{QueuedEvidence, terms},
        queue_place::{OnQueue, QueuePlace},
        wait_until::WaitUntil,
    },
    client::Client,
    error::{Error, Lost},
    hold::{
        guard::Guard,
        lease::{Lease, RenewTarget, RenewalProof, renewal_due, try_max},
        session::Session,
    },
    wire::{
        backoff::Backoff,
        call::Call,
        clock::Moment,
        endpoints::{Endpoint, Prefer},
        http::Attempted,
        reply::Reply,
        retry::{LastError, RetryBudget},
    },
};
use fairhold_types::{Code, FencingToken, GrantId, dto};
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use reqwest::Method;
use std::{collections::VecDeque, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Requests of one claim that may be open at a time.
const POSTS_MAX: usize = 4;
/// The same request is sent anew before the server's longest wait ends, so that the place is kept.
const POST_AGAIN_AFTER: Duration = Duration::from_secs(540);
/// When the node of a new request is first asked whether it answers.
const FIRST_PROBE_AFTER: Duration = Duration::from_millis(500);
/// The same where somebody wants to be told of the place in the queue.
const FIRST_PLACE_AFTER: Duration = Duration::from_millis(30);
/// The longest time between two such questions.
const PROBE_EVERY_MAX: Duration = Duration::from_secs(5);

/// What came of a claim.
pub(crate) enum Attempt {
    Held(Guard),
    /// Nothing is held or queued under this id, and never will be; another id may succeed.
    Again(&'static str),
}

/// What a question to a node said.
struct Probed {
    outcome: ProbeOutcome,
    place: Option<QueuePlace>,
}

enum ProbeOutcome {
    /// A keepalive is acknowledged.
    Alive(RenewalProof),
    /// The node answers, and has no such grant yet.
    NotThereYet,
    /// The grant, or its session, has ended.
    Ended,
    /// The node does not answer.
    Silent,
}

/// A claim. Dropped before it is settled, it is taken back in the background.
#[derive(Debug)]
pub(crate) struct Acquisition<'a> {
    pub(super) client: &'a Client,
    pub(super) session: Option<&'a Session>,
    pub(super) wish: &'a AcquireRequest,
    pub(super) id: GrantId,
    pub(super) posts_sent: usize,
    /// From before the first request was sent.
    pub(super) first_sent: Option<Moment>,
    pub(super) waited: QueuedEvidence,
    /// All that was sent was answered: nothing of it may still arrive.
    pub(super) is_answered: bool,
    pub(super) is_settled: bool,
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        if !self.is_settled && self.posts_sent > 0 {
            let session = self.session.filter(|_| !self.is_answered).map(Session::id);
            drop(self.client.inner().background.release(self.id, session));
        }
    }
}

/// What is under way for a claim.
pub(super) struct InFlight {
    posts: FuturesUnordered<BoxFuture<'static, Attempted>>,
    probes: FuturesUnordered<BoxFuture<'static, Probed>>,
    /// The nodes that were not asked yet in this round.
    order: VecDeque<Endpoint>,
    /// The node of the newest request.
    at: Option<Endpoint>,
    post_at: Instant,
    probe_at: Instant,
    backoff: Backoff,
    trouble: LastError,
    /// The newest keepalive that was acknowledged.
    proved: Option<RenewalProof>,
    told: Option<QueuePlace>,
    /// A node said that the grant has ended, while the request for it is still open.
    seems_ended: bool,
}

impl InFlight {
    pub(super) fn new() -> InFlight {
        let now = Instant::now();
        InFlight {
            posts: FuturesUnordered::new(),
            probes: FuturesUnordered::new(),
            order: VecDeque::new(),
            at: None,
            post_at: now,
            probe_at: now,
            backoff: Backoff::new(),
            trouble: LastError::default(),
            proved: None,
            told: None,
            seems_ended: false,
        }
    }

    /// When to ask again after a try that brought nothing.
    fn post_after(&mut self, asked: Option<Duration>) {
        // A request that still waits elsewhere is enough.
        if self.posts.is_empty() {
            self.post_at = Instant::now() + if self.order.is_empty() { self.backoff.next(asked) } else { Duration::ZERO };
        }
    }
}

impl<'a> Acquisition<'a> {
    /// A claim with an id of its own, of which nothing is sent yet.
    pub(crate) fn new(client: &'a Client, session: Option<&'a Session>, wish: &'a AcquireRequest) -> Acquisition<'a> {
        let (id, first_sent, waited) = (client.inner().ids.make(), None, QueuedEvidence::No);
        Acquisition { client, session, wish, id, posts_sent: 0, first_sent, waited, is_answered: false, is_settled: false }
    }

    /// Claims until it is held, surely will not be under this id, or the caller's time is up.
    pub(crate) async fn pursue(self, until: WaitUntil, begun: Instant, told: &mut Option<OnQueue>) -> Result<Attempt, Error> {
        match (self.session, until) {
            (Some(session), WaitUntil::Held | WaitUntil::At(_)) => self.pursue_quietly(session, until, begun, told).await,
            (Some(_) | None, _) => self.pursue_openly(until, begun, told).await,
        }
    }

    /// The same with a request that is open while it waits.
    async fn pursue_openly(mut self, until: WaitUntil, begun: Instant, told: &mut Option<OnQueue>) -> Result<Attempt, Error> {
        let mut way = InFlight::new();
        let give_up_at = until.give_up_at();
        loop {
            tokio::select! {
                biased;
                Some(tried) = way.posts.next(), if !way.posts.is_empty() => match tried {
                    Attempted::Answered(reply) => {
                        if let Some(pursued) = self.answered(&reply, &mut way, until, begun).await? {
                            return Ok(pursued);
                        }
                    }
                    tried @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => {
                        let asked = way.trouble.note(tried);
                        way.post_after(asked);
                    }
                },
                Some(probed) = way.probes.next(), if !way.probes.is_empty() => {
                    if let Some(place) = &probed.place && way.told.as_ref() != Some(place) {
                        if let Some(told) = told {
                            told(place);
                        }
                        way.told = Some(place.clone());
                    }
                    if let Some(pursued) = self.probed(probed.outcome, &mut way) {
                        return Ok(pursued);
                    }
                }
                lost = session_lost(self.session) => return Err(Error::Lost(lost)),
                () = sleep_until(give_up_at.unwrap_or(begun)), if give_up_at.is_some() => {
                    return Err(self.too_late(way.trouble, until, begun));
                }
                () = sleep_until(way.post_at), if way.posts.len() < POSTS_MAX => self.post(&mut way, until),
                () = sleep_until(way.probe_at), if way.probes.is_empty() && !way.posts.is_empty() => {
                    self.ask_beside(&mut way, told.is_some());
                }
            }
        }
    }

    /// The caller's time is up, and there is no answer. Whatever was asked for is taken back.
    pub(super) fn too_late(&self, trouble: LastError, until: WaitUntil, begun: Instant) -> Error {
        match until {
            WaitUntil::At(_) if trouble.is_none() => {
                Error::WaitTimeout { lock: self.wish.lock.clone(), holder: None, waited: begun.elapsed() }
            }
            WaitUntil::Held | WaitUntil::At(_) | WaitUntil::Now(_) => trouble.error_of_nothing(),
        }
    }

    /// The request, the same for every node.
    pub(super) fn call(&self, body: &serde_json::Value) -> Call {
        Call::new(Method::POST, self.wish.path()).key(self.id).json(body)
    }

    /// Sends the request to the next node.
    fn post(&mut self, way: &mut InFlight, until: WaitUntil) {
        let inner = self.client.inner();
        if way.order.is_empty() {
            let prefer = if matches!(until, WaitUntil::Now(_)) { Prefer::Leader } else { Prefer::Anybody };
            way.order = inner.calls.endpoints.order(prefer).into();
        }
        let Some(endpoint) = way.order.pop_front() else { return };
        let (wait, work) = (until.wait(), inner.timeout);
        let call = self.call(&self.wish.body(self.session, wait));
        let (calls, at) = (inner.calls.clone(), endpoint.clone());
        way.posts.push(Box::pin(async move { calls.wait_at(&at, &call, wait, work).await }));
        way.at = Some(endpoint);
        self.posts_sent += 1;
        self.first_sent.get_or_insert_with(Moment::now);
        if !wait.is_zero() {
            self.waited = QueuedEvidence::Perhaps;
        }
        let now = Instant::now();
        way.post_at = now + POST_AGAIN_AFTER;
        way.probe_at = now + FIRST_PROBE_AFTER.min(renewal_due(self.wish.ttl));
    }

    /// Asks the node of the newest request to renew, and for the place in the queue where somebody wants it.
    fn ask_beside(&self, way: &mut InFlight, wants_place: bool) {
        let Some(endpoint) = way.at.clone() else { return };
        let kept = match self.session {
            Some(session) => RenewTarget::Session(session.id()),
            None => RenewTarget::Grant(self.id),
        };
        let (calls, id, limit) = (self.client.inner().renewals.clone(), self.id, try_max(self.wish.ttl));
        way.probes.push(Box::pin(async move {
            let outcome = match calls.try_at(&endpoint, &kept.renewal(), limit).await {
                Attempted::Answered(reply) => match kept.proof(&reply) {
                    Ok(proof) => ProbeOutcome::Alive(proof),
                    Err(Error::Lost(_)) => ProbeOutcome::Ended,
                    // It answers, and says nothing of an end.
                    Err(_) => ProbeOutcome::NotThereYet,
                },
                // It answers; and nobody else could do more now.
                Attempted::Nothing { busy: true, .. } => ProbeOutcome::NotThereYet,
                Attempted::Nothing { .. } | Attempted::Unknown { .. } => ProbeOutcome::Silent,
            };
            let mut place = None;
            if wants_place && !matches!(outcome, ProbeOutcome::Silent) {
                let look = Call::new(Method::GET, format!("/v1/grants/{id}"));
                if let Attempted::Answered(reply) = calls.try_at(&endpoint, &look, limit).await {
                    place = reply.json::<dto::Grant>().ok().and_then(QueuePlace::of);
                }
            }
            Probed { outcome, place }
        }));
        way.probe_at = Instant::now() + renewal_due(self.wish.ttl).min(PROBE_EVERY_MAX);
        if wants_place && way.told.is_none() {
            way.probe_at = Instant::now() + FIRST_PLACE_AFTER * 4;
        }
    }

    fn probed(&mut self, outcome: ProbeOutcome, way: &mut InFlight) -> Option<Attempt> {
        match outcome {
            ProbeOutcome::Alive(proof) => {
                way.proved = way.proved.max(Some(proof));
                if let Some(session) = self.session {
                    session.lease().proved(proof);
                }
            }
            ProbeOutcome::NotThereYet => {}
            // Its session says so too, and knows better how.
            ProbeOutcome::Ended if self.session.is_some() => {}
            // The request itself is about to be told, and how: a withdrawal at the end of a wait is answered after it.
            ProbeOutcome::Ended if !way.seems_ended => {
                way.seems_ended = true;
                way.probe_at = Instant::now() + FIRST_PROBE_AFTER;
            }
            ProbeOutcome::Ended => {
                self.is_settled = true;
                return Some(Attempt::Again("it ended while it waited"));
            }
            ProbeOutcome::Silent => way.post_at = Instant::now(),
        }
        None
    }

    /// Judges a definite answer to the request; nothing where the claim goes on.
    pub(super) async fn answered(
        &mut self,
        reply: &Reply,
        way: &mut InFlight,
        until: WaitUntil,
        begun: Instant,
    ) -> Result<Option<Attempt>, Error> {
        if reply.status.is_success() {
            let grant: dto::Grant = reply.json()?;
            if grant.id != self.id {
                return Err(Error::NotUnderstood { why: "it names another grant than was asked for".to_owned() });
            }
            return match grant.token {
                Some(token) => {
                    let granted = RenewalProof { sent: reply.sent, ttl: self.wish.ttl };
                    let newest = way.proved.map_or(granted, |proved| proved.max(granted));
                    Ok(Some(self.held(&grant, token, newest).await))
                }
                // Nobody asked for that answer; the place is kept all the same.
                None => {
                    way.post_after(None);
                    Ok(None)
                }
            };
        }
        // An earlier request may yet arrive, and then it is the only one: it is taken back.
        self.is_settled = self.posts_sent == 1 || self.is_answered;
        let problem = reply.problem();
        let (lock, holder) = (self.wish.lock.clone(), problem.holder.clone().map(Box::new));
        match problem.code {
            Some(Code::GrantGone | Code::Forgotten) => {
                self.is_settled = true;
                Ok(Some(Attempt::Again("its id has ended")))
            }
            Some(Code::WaitTimeout | Code::LockHeld) => match until {
                WaitUntil::Held => Ok(Some(Attempt::Again("the longest wait is over"))),
                WaitUntil::At(_) => Err(Error::WaitTimeout { lock, holder, waited: begun.elapsed() }),
                WaitUntil::Now(_) => Err(Error::LockHeld { lock, holder }),
            },
            _ => Err(Error::refused(reply.status.as_u16(), problem)),
        }
    }

    /// A guard, once the grant is known to live for a while: from `proved` on, it has its full time.
    pub(super) async fn held(&mut self, grant: &dto::Grant, token: FencingToken, proved: RenewalProof) -> Attempt {
        let terms = terms(grant, token, self.wish.max_hold, self.first_sent, self.waited);
        let lease = match self.session {
            Some(session) => session.lease().clone(),
            None => self.lease(proved).await,
        };
        if lease.check().is_err() {
            // Not settled: whatever is left of it is taken back.
            return Attempt::Again("it was granted and could not be kept alive");
        }
        self.is_settled = true;
        Attempt::Held(Guard::new(self.client, self.session, grant, terms, lease))
    }

    async fn lease(&self, proved: RenewalProof) -> Lease {
        let ttl = self.wish.ttl;
        let lease = Lease::new(ttl, proved);
        if lease.left().is_ok_and(|left| left >= renewal_due(ttl)) {
            return lease;
        }
        // The server kept it alive while the request was open. What we know of that is old: it is asked for.
        let kept = RenewTarget::Grant(self.id);
        let patience = RetryBudget { until: Instant::now() + ttl, each: try_max(ttl) };
        let renewed = self.client.inner().renewals.send(&kept.renewal(), patience).await;
        match renewed.and_then(|reply| kept.proof(&reply)) {
            Ok(proof) => Lease::new(ttl, proof),
            Err(_) => {
                lease.end(Lost::CutOff);
                lease
            }
        }
    }
}

async fn session_lost(session: Option<&Session>) -> Lost {
    match session {
        Some(session) => session.lost().await,
        None => std::future::pending().await,
    }
}

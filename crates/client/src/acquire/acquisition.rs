//! One acquire: requests under one id until the lock is held or refused, or the caller's time is up; then, if
//! necessary, under another id.

use crate::{
    acquire::{
        acquire_request::AcquireRequest,
        bound::{QueuedEvidence, hold_state},
        queue_place::OnQueue,
        wait_until::WaitUntil,
    },
    client::Client,
    error::{Error, Lost},
    hold::{
        guard::Guard,
        lease::{Lease, RenewTarget, RenewalProof, attempt_max, renewal_due},
        session::Session,
    },
    wire::{
        backoff::Backoff,
        call::Call,
        clock::Moment,
        reply::Reply,
        retry::{LastError, RetryBudget},
    },
};
use fairhold_types::{Code, FencingToken, GrantId, dto};
use reqwest::Method;
use tokio::time::{Instant, sleep};

/// The result of an acquisition.
pub(super) enum Attempt {
    Held(Guard),
    /// Nothing is held or queued under this id, and never will be. Another id may succeed.
    Again(&'static str),
}

/// The requests under one id. If it is dropped before it is settled, the background takes back what they may have
/// acquired.
#[derive(Debug)]
pub(super) struct Acquisition<'a> {
    pub(super) client: &'a Client,
    pub(super) session: Option<&'a Session>,
    pub(super) request: &'a AcquireRequest,
    pub(super) until: WaitUntil,
    /// When the caller started to wait.
    pub(super) started_at: Instant,
    pub(super) id: GrantId,
    pub(super) posts_sent: usize,
    /// Taken before the first request was sent.
    pub(super) first_sent: Option<Moment>,
    pub(super) queued: QueuedEvidence,
    /// Every request got an answer, so none of them can still arrive.
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

/// Tries one id after the other until the lock is held or refused, or the caller's time is up.
pub(super) async fn acquire(
    client: &Client,
    session: Option<&Session>,
    request: &AcquireRequest,
    until: WaitUntil,
    on_queue: &mut Option<OnQueue>,
) -> Result<Guard, Error> {
    client.discover();
    let started_at = Instant::now();
    let mut backoff = Backoff::new();
    loop {
        match Acquisition::new(client, session, request, until, started_at).run(on_queue).await? {
            Attempt::Held(guard) => return Ok(guard),
            Attempt::Again(why) if until.is_over() => {
                let waited = started_at.elapsed();
                return Err(match until {
                    WaitUntil::At(_) => Error::WaitTimeout { lock: request.lock.clone(), holder: None, waited },
                    WaitUntil::Held | WaitUntil::Now(_) => Error::Unavailable { last: why.to_owned() },
                });
            }
            Attempt::Again(why) => tracing::info!(why, "lost the place in the queue; the client queues again"),
        }
        if let Some(session) = session {
            session.lease().check().map_err(Error::Lost)?;
        }
        sleep(backoff.next(None)).await;
    }
}

impl<'a> Acquisition<'a> {
    /// Makes a new id. Nothing is sent yet.
    fn new(
        client: &'a Client,
        session: Option<&'a Session>,
        request: &'a AcquireRequest,
        until: WaitUntil,
        started_at: Instant,
    ) -> Acquisition<'a> {
        Acquisition {
            client,
            session,
            request,
            until,
            started_at,
            id: client.inner().ids.make(),
            posts_sent: 0,
            first_sent: None,
            queued: QueuedEvidence::No,
            is_answered: false,
            is_settled: false,
        }
    }

    /// Sends requests until the lock is held, cannot be held under this id any more, or the caller's time is up.
    async fn run(self, on_queue: &mut Option<OnQueue>) -> Result<Attempt, Error> {
        match (self.session, self.until) {
            (Some(session), WaitUntil::Held | WaitUntil::At(_)) => self.wait_by_session(session, on_queue).await,
            (Some(_) | None, _) => self.wait_by_request(on_queue).await,
        }
    }

    /// The caller's time is up without an answer. The background takes the request back.
    pub(super) fn error_at_end(&self, last_error: LastError) -> Error {
        match self.until {
            WaitUntil::At(_) if last_error.is_none() => self.wait_timeout(),
            WaitUntil::Held | WaitUntil::At(_) | WaitUntil::Now(_) => last_error.error_if_withdrawn(),
        }
    }

    pub(super) fn wait_timeout(&self) -> Error {
        Error::WaitTimeout { lock: self.request.lock.clone(), holder: None, waited: self.started_at.elapsed() }
    }

    /// The request with this body, the same for every node.
    pub(super) fn call(&self, body: &serde_json::Value) -> Call {
        Call::new(Method::POST, self.request.path()).key(self.id).json(body)
    }

    /// Judges a definite answer to the request; `None` if the grant is in the queue. `proved` is the newest
    /// acknowledged keepalive of the grant.
    pub(super) async fn answered(&mut self, reply: &Reply, proved: Option<RenewalProof>) -> Result<Option<Attempt>, Error> {
        if reply.status.is_success() {
            let grant: dto::Grant = reply.json()?;
            if grant.id != self.id {
                return Err(Error::NotUnderstood { why: "it names a different grant from the one requested".to_owned() });
            }
            let Some(token) = grant.token else { return Ok(None) };
            let granted = RenewalProof { sent: reply.sent, ttl: self.request.ttl };
            let newest = proved.map_or(granted, |proved| proved.max(granted));
            return Ok(Some(self.held(&grant, token, newest).await));
        }
        // If an earlier request can still arrive, this refusal says nothing about it: it must be taken back.
        self.is_settled = self.posts_sent == 1 || self.is_answered;
        let problem = reply.problem();
        match problem.code {
            Some(Code::GrantGone | Code::Forgotten) => {
                self.is_settled = true;
                Ok(Some(Attempt::Again("its id has ended")))
            }
            Some(Code::WaitTimeout | Code::LockHeld) => {
                let lock = self.request.lock.clone();
                let holder = problem.holder.map(Box::new);
                match self.until {
                    WaitUntil::Held => Ok(Some(Attempt::Again("the longest wait is over"))),
                    WaitUntil::At(_) => Err(Error::WaitTimeout { lock, holder, waited: self.started_at.elapsed() }),
                    WaitUntil::Now(_) => Err(Error::LockHeld { lock, holder }),
                }
            }
            _ => Err(Error::refused(reply.status.as_u16(), problem)),
        }
    }

    /// Makes the guard, once a keepalive proves that the grant lives for a while. `proved` is the newest one.
    pub(super) async fn held(&mut self, grant: &dto::Grant, token: FencingToken, proved: RenewalProof) -> Attempt {
        let state = hold_state(grant, token, self.request.max_hold, self.first_sent, self.queued);
        let lease = match self.session {
            Some(session) => session.lease().clone(),
            None => self.lease(proved).await,
        };
        if lease.check().is_err() {
            // It is not settled, so the background takes back what is left of it.
            return Attempt::Again("it was granted and could not be kept alive");
        }
        self.is_settled = true;
        Attempt::Held(Guard::new(self.client, self.session, grant, state, lease))
    }

    async fn lease(&self, proved: RenewalProof) -> Lease {
        let ttl = self.request.ttl;
        let lease = Lease::new(ttl, proved);
        if lease.left().is_ok_and(|left| left >= renewal_due(ttl)) {
            return lease;
        }
        // The server kept the grant alive while the request was open, but the newest proof of it is old. Renew it now.
        let target = RenewTarget::Grant(self.id);
        let budget = RetryBudget { until: Instant::now() + ttl, each: attempt_max(ttl) };
        let renewed = self.client.inner().renewals.send(&target.renewal(), budget).await;
        match renewed.and_then(|reply| target.proof(&reply)) {
            Ok(proof) => Lease::new(ttl, proof),
            Err(_) => {
                lease.end(Lost::CutOff);
                lease
            }
        }
    }
}

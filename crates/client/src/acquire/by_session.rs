//! Waits for a lock through a session: the session keeps the place in the queue, and the session's watch reports the
//! grant. So no request is open during the wait, and a thousand waits need only a few connections.

use crate::{
    acquire::{
        acquisition::{Acquisition, Attempt},
        bound::QueuedEvidence,
        queue_place::{OnQueue, QueuePlace},
        wait_until::WaitUntil,
    },
    error::Error,
    hold::{lease::RenewalProof, session::Session, session_watch::GrantUpdate},
    wire::{
        backoff::{Backoff, jitter},
        call::Call,
        clock::Moment,
        endpoints::Prefer,
        http::Attempted,
        reply::Reply,
        retry::{LastError, RetryBudget},
    },
};
use fairhold_types::{Code, FencingToken, dto};
use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::Method;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How long one node may take to put the grant into the queue.
const ENQUEUE_WITHIN: Duration = Duration::from_secs(3);
/// How often the client reads the grant in case its update does not arrive: the watch may have no node for a while.
const READ_EVERY: Duration = Duration::from_secs(20);
/// The time to the first read if the caller wants to know the place in the queue.
const FIRST_PLACE_AFTER: Duration = Duration::from_millis(30);
/// How often the client then reads the grant again.
const PLACE_EVERY: Duration = Duration::from_secs(5);
/// The wait of the last request, which takes the grant out of the queue: the shortest possible one.
const LEAVE_AFTER: Duration = Duration::from_millis(1);
/// How long the caller waits for the grant to leave the queue before the background takes over.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// The part of a pause that is not random.
const JITTER_LEAST: f64 = 0.7;

/// The state of a grant as a read found it.
enum SessionView {
    Held(FencingToken),
    Waits(Option<QueuePlace>),
    Ended,
    Unknown,
}

impl Acquisition<'_> {
    /// Puts the grant into the queue and waits for the session's watch to report it.
    pub(super) async fn wait_by_session(mut self, session: &Session, on_queue: &mut Option<OnQueue>) -> Result<Attempt, Error> {
        // The watch must start before the lock can be granted.
        let watcher = session.watcher();
        let give_up_at = self.until.give_up_at();
        let started_at = self.started_at;
        let enqueued = tokio::select! {
            biased;
            lost = session.lost() => return Err(Error::Lost(lost)),
            enqueued = self.request_at_nodes(session, None, give_up_at) => enqueued,
            () = sleep_until(give_up_at.unwrap_or(started_at)), if give_up_at.is_some() => Err(LastError::default()),
        };
        let reply = enqueued.map_err(|last_error| self.error_at_end(last_error))?;
        if let Some(attempt) = self.answered(&reply, None).await? {
            return Ok(attempt);
        }
        let grant: dto::Grant = reply.json()?;
        self.queued = QueuedEvidence::Yes;
        let mut waiter = watcher.wait_for(grant.number);
        let deadline = if let WaitUntil::At(until) = self.until { Some(until) } else { None };
        let mut reads = FuturesUnordered::new();
        let mut read_at = Instant::now() + pause(on_queue, true);
        if watcher.may_have_missed(grant.number) {
            read_at = Instant::now();
        }
        let mut place = None;
        let token = loop {
            tokio::select! {
                biased;
                lost = session.lost() => return Err(Error::Lost(lost)),
                update = waiter.update() => match update {
                    GrantUpdate::Granted(token) => break token,
                    GrantUpdate::Ended(_) => return Ok(self.ended()),
                },
                Some(view) = reads.next(), if !reads.is_empty() => match view {
                    SessionView::Held(token) => break token,
                    SessionView::Ended => return Ok(self.ended()),
                    SessionView::Waits(now) if now != place => {
                        if let (Some(on_queue), Some(now)) = (&mut *on_queue, &now) {
                            on_queue(now);
                        }
                        place = now;
                    }
                    SessionView::Waits(_) | SessionView::Unknown => {}
                },
                () = sleep_until(deadline.unwrap_or(started_at)), if deadline.is_some() => return self.leave(session).await,
                () = sleep_until(read_at) => {
                    read_at = Instant::now() + pause(on_queue, false);
                    if reads.is_empty() {
                        reads.push(self.read());
                    }
                }
            }
        };
        // The session proves that the grant is alive.
        Ok(self.held(&grant, token, RenewalProof { sent: Moment::now(), ttl: session.ttl() }).await)
    }

    /// Its place in the queue, or the grant itself, is gone.
    fn ended(&mut self) -> Attempt {
        self.is_settled = true;
        Attempt::Again("it ended while it waited")
    }

    /// Leaves the queue at the end of the caller's time, unless the lock is granted by then.
    async fn leave(&mut self, session: &Session) -> Result<Attempt, Error> {
        let give_up_at = Instant::now() + LEAVE_WITHIN;
        let left = timeout(LEAVE_WITHIN, self.request_at_nodes(session, Some(LEAVE_AFTER), Some(give_up_at))).await;
        if let Ok(Ok(reply)) = left
            && let Some(attempt) = self.answered(&reply, None).await?
        {
            return Ok(attempt);
        }
        // If it has not left, the background takes it back.
        Err(self.wait_timeout())
    }

    /// Sends the request to one node after the other until one gives a definite answer. Without a `wait`, the node
    /// answers as soon as the grant is in the queue.
    async fn request_at_nodes(
        &mut self,
        session: &Session,
        wait: Option<Duration>,
        give_up_at: Option<Instant>,
    ) -> Result<Reply, LastError> {
        let inner = self.client.inner();
        let mut backoff = Backoff::new();
        let mut last_error = LastError::default();
        let mut call = self.call(&self.request.body(Some(session), wait.unwrap_or_default()));
        if wait.is_none() {
            call = call.header("prefer", "respond-async".to_owned());
            call.part = self.request.part();
        }
        let was_answered = self.is_answered || self.posts_sent == 0;
        self.is_answered = false;
        loop {
            let mut retry_after = None;
            for endpoint in inner.calls.endpoints.order(Prefer::Leader) {
                let left = give_up_at.map_or(ENQUEUE_WITHIN, |at| at.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    return Err(last_error);
                }
                // The semaphore is never closed while the client exists.
                let _permit = if call.part.is_none() { inner.enqueues.acquire().await.ok() } else { None };
                self.posts_sent += 1;
                self.first_sent.get_or_insert_with(Moment::now);
                match inner.calls.try_at(&endpoint, &call, left.min(ENQUEUE_WITHIN)).await {
                    Attempted::Answered(reply) => {
                        self.is_answered = was_answered && !last_error.may_arrive();
                        return Ok(reply);
                    }
                    failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => {
                        retry_after = last_error.note(failed).max(retry_after);
                    }
                }
            }
            let pause = backoff.next(retry_after);
            sleep(give_up_at.map_or(pause, |at| pause.min(at.saturating_duration_since(Instant::now())))).await;
        }
    }

    /// Reads the grant.
    fn read(&self) -> impl Future<Output = SessionView> + use<> {
        let calls = self.client.inner().renewals.clone();
        let call = Call::new(Method::GET, format!("/v1/grants/{}", self.id));
        async move {
            let Ok(reply) = calls.send(&call, RetryBudget::within(ENQUEUE_WITHIN)).await else { return SessionView::Unknown };
            match reply.json::<dto::Grant>() {
                Ok(dto::Grant { token: Some(token), .. }) => SessionView::Held(token),
                Ok(waits) => SessionView::Waits(QueuePlace::of(waits)),
                Err(_) if matches!(reply.problem().code, Some(Code::GrantGone | Code::GrantNotFound)) => SessionView::Ended,
                Err(_) => SessionView::Unknown,
            }
        }
    }
}

/// The time to the next read.
fn pause(on_queue: &Option<OnQueue>, is_first: bool) -> Duration {
    match (on_queue.is_some(), is_first) {
        (true, true) => FIRST_PLACE_AFTER,
        (true, false) => jitter(PLACE_EVERY, JITTER_LEAST),
        (false, _) => jitter(READ_EVERY, JITTER_LEAST),
    }
}

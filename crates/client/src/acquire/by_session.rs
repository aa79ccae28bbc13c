//! A claim of a session: the session keeps its place in the queue, and the session's one watch says when it is granted. So no
//! request is open while it waits, and a thousand waits are a few connections.

use crate::{
    acquire::{
        acquisition::{Acquisition, Attempt, InFlight},
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

/// How long one node may take to put it into the queue.
const STAND_WITHIN: Duration = Duration::from_secs(3);
/// How often is looked at the grant, should its news not come: the watch may have no node for a while.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// When is looked first, and then how often, where somebody wants to be told of the place in the queue.
const FIRST_PLACE_AFTER: Duration = Duration::from_millis(30);
const PLACE_EVERY: Duration = Duration::from_secs(5);
/// The wait of the last request, which takes it out of the queue: the shortest that is one.
const LEAVE_AFTER: Duration = Duration::from_millis(1);
/// How long may be tried to leave before it is left to the background.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// The part of a pause that is not random.
const JITTER_LEAST: f64 = 0.7;

/// What a look at a grant said.
enum SessionView {
    Held(FencingToken),
    Waits(Option<QueuePlace>),
    Ended,
    Nothing,
}

impl Acquisition<'_> {
    /// As [`pursue`](Acquisition::pursue), for one that may wait.
    pub(super) async fn pursue_quietly(
        mut self,
        session: &Session,
        until: WaitUntil,
        begun: Instant,
        told: &mut Option<OnQueue>,
    ) -> Result<Attempt, Error> {
        // Listened to from before it can be granted.
        let lookout = session.lookout();
        let (mut way, give_up_at) = (InFlight::new(), until.give_up_at());
        let stood = tokio::select! {
            biased;
            lost = session.lost() => return Err(Error::Lost(lost)),
            stood = self.ask(session, None, give_up_at) => stood,
            () = sleep_until(give_up_at.unwrap_or(begun)), if give_up_at.is_some() => Err(LastError::default()),
        };
        let reply = stood.map_err(|trouble| self.too_late(trouble, until, begun))?;
        if let Some(pursued) = self.answered(&reply, &mut way, until, begun).await? {
            return Ok(pursued);
        }
        let grant: dto::Grant = reply.json()?;
        self.waited = QueuedEvidence::Yes;
        let mut waiting = lookout.wait_for(grant.number);
        let deadline = if let WaitUntil::At(until) = until { Some(until) } else { None };
        let (mut looks, mut look_at) = (FuturesUnordered::new(), Instant::now() + pause(told, true));
        if lookout.may_have_missed(grant.number) {
            look_at = Instant::now();
        }
        let mut place = None;
        let token = loop {
            tokio::select! {
                biased;
                lost = session.lost() => return Err(Error::Lost(lost)),
                news = waiting.news() => match news {
                    GrantUpdate::Granted(token) => break token,
                    GrantUpdate::Ended(_) => return Ok(self.gone()),
                },
                Some(seen) = looks.next(), if !looks.is_empty() => match seen {
                    SessionView::Held(token) => break token,
                    SessionView::Ended => return Ok(self.gone()),
                    SessionView::Waits(now) if now != place => {
                        if let (Some(told), Some(now)) = (&mut *told, &now) {
                            told(now);
                        }
                        place = now;
                    }
                    SessionView::Waits(_) | SessionView::Nothing => {}
                },
                () = sleep_until(deadline.unwrap_or(begun)), if deadline.is_some() => {
                    return self.leave(session, &mut way, until, begun).await;
                }
                () = sleep_until(look_at) => {
                    look_at = Instant::now() + pause(told, false);
                    if looks.is_empty() {
                        looks.push(self.look());
                    }
                }
            }
        };
        // Its session proves it alive.
        Ok(self.held(&grant, token, RenewalProof { sent: Moment::now(), ttl: session.ttl() }).await)
    }

    /// Its place, or what was granted, is no more.
    fn gone(&mut self) -> Attempt {
        self.is_settled = true;
        Attempt::Again("it ended while it waited")
    }

    /// Leaves the queue at the end of the caller's time, unless it was granted by then.
    async fn leave(&mut self, session: &Session, way: &mut InFlight, until: WaitUntil, begun: Instant) -> Result<Attempt, Error> {
        let left = timeout(LEAVE_WITHIN, self.ask(session, Some(LEAVE_AFTER), Some(Instant::now() + LEAVE_WITHIN))).await;
        if let Ok(Ok(reply)) = left
            && let Some(pursued) = self.answered(&reply, way, until, begun).await?
        {
            return Ok(pursued);
        }
        // What is not left is taken back in the background.
        Err(Error::WaitTimeout { lock: self.wish.lock.clone(), holder: None, waited: begun.elapsed() })
    }

    /// Asks one node after the other until one has a definite answer: to stand in the queue, or for so long at most.
    async fn ask(&mut self, session: &Session, wait: Option<Duration>, give_up_at: Option<Instant>) -> Result<Reply, LastError> {
        let (inner, mut backoff, mut trouble) = (self.client.inner(), Backoff::new(), LastError::default());
        let mut call = self.call(&self.wish.body(Some(session), wait.unwrap_or_default()));
        if wait.is_none() {
            call = call.header("prefer", "respond-async".to_owned());
            call.part = self.wish.part();
        }
        let was_answered = self.is_answered || self.posts_sent == 0;
        self.is_answered = false;
        loop {
            let mut asked = None;
            for endpoint in inner.calls.endpoints.order(Prefer::Leader) {
                let left = give_up_at.map_or(STAND_WITHIN, |at| at.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    return Err(trouble);
                }
                // Never closed while the client exists.
                let _place = if call.part.is_none() { inner.asks.acquire().await.ok() } else { None };
                self.posts_sent += 1;
                self.first_sent.get_or_insert_with(Moment::now);
                match inner.calls.try_at(&endpoint, &call, left.min(STAND_WITHIN)).await {
                    Attempted::Answered(reply) => {
                        self.is_answered = was_answered && !trouble.may_arrive();
                        return Ok(reply);
                    }
                    tried @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => asked = trouble.note(tried).max(asked),
                }
            }
            let pause = backoff.next(asked);
            sleep(give_up_at.map_or(pause, |at| pause.min(at.saturating_duration_since(Instant::now())))).await;
        }
    }

    /// Looks at the grant.
    fn look(&self) -> impl Future<Output = SessionView> + use<> {
        let (calls, id) = (self.client.inner().renewals.clone(), self.id);
        async move {
            let call = Call::new(Method::GET, format!("/v1/grants/{id}"));
            let Ok(reply) = calls.send(&call, RetryBudget::within(STAND_WITHIN)).await else { return SessionView::Nothing };
            match reply.json::<dto::Grant>() {
                Ok(dto::Grant { token: Some(token), .. }) => SessionView::Held(token),
                Ok(waits) => SessionView::Waits(QueuePlace::of(waits)),
                Err(_) if matches!(reply.problem().code, Some(Code::GrantGone | Code::GrantNotFound)) => SessionView::Ended,
                Err(_) => SessionView::Nothing,
            }
        }
    }
}

fn pause(told: &Option<OnQueue>, is_first: bool) -> Duration {
    match (told.is_some(), is_first) {
        (true, true) => FIRST_PLACE_AFTER,
        (true, false) => jitter(PLACE_EVERY, JITTER_LEAST),
        (false, _) => jitter(LOOK_EVERY, JITTER_LEAST),
    }
}

//! What is asked of a lock: a builder that is awaited.

use crate::{
    acquire::{
        acquire_request::AcquireRequest,
        acquisition::{Acquisition, Attempt},
        queue_place::{OnQueue, QueuePlace},
        wait_until::WaitUntil,
    },
    client::Client,
    error::{Error, Lost},
    hold::{
        guard::{Guard, Held},
        session::Session,
    },
    wire::backoff::Backoff,
};
use fairhold_types::{
    LockName, Mode, ParsePathError,
    dto::Meta,
    duration,
    limits::{
        LOCK_DELAY_MAX, MAX_HOLD_MAX, MAX_HOLD_MIN, OWNER_BYTES_MAX, SESSION_TIMEOUT_DEFAULT, SESSION_TIMEOUT_MAX,
        SESSION_TIMEOUT_MIN,
    },
};
use futures_util::future::BoxFuture;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

/// A lock about to be taken: `.await` it. Dropping it, or the future that it becomes, at any moment leaves nothing behind: a
/// place in the queue is given up and a lock that was just granted is given back, in the background.
#[must_use = "a lock is taken when this is awaited"]
pub struct Acquire {
    client: Client,
    session: Option<Session>,
    name: String,
    others: Vec<(String, Mode)>,
    mode: Mode,
    ttl: Duration,
    wait: Option<Duration>,
    limit: Option<u32>,
    permits: u32,
    priority: i32,
    owner: Option<String>,
    meta: Meta,
    lock_delay: Duration,
    max_hold: Option<Duration>,
    reentrant: bool,
    value: Option<String>,
    on_queue: Option<OnQueue>,
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("lock", &self.name).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Client {
    /// Takes a lock for this caller alone: `.await` it, or say more first. Without a `wait` it waits as long as it takes.
    pub fn lock(&self, name: &str) -> Acquire {
        Acquire::new(self.clone(), name, Mode::Exclusive)
    }

    /// Takes a lock together with other readers. A waiting writer holds later readers back.
    pub fn read_lock(&self, name: &str) -> Acquire {
        Acquire::new(self.clone(), name, Mode::Shared)
    }

    /// Takes a lock alone, without any reader. The same as [`lock`](Client::lock).
    pub fn write_lock(&self, name: &str) -> Acquire {
        self.lock(name)
    }

    /// Takes one permit of at most `limit`; more of them with [`Acquire::permits`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Acquire {
        self.lock(name).limit(limit)
    }
}

impl Session {
    /// Takes a lock for this caller alone, kept alive by this session.
    pub fn lock(&self, name: &str) -> Acquire {
        self.client().lock(name).of(self.clone())
    }

    /// Takes a lock together with other readers.
    pub fn read_lock(&self, name: &str) -> Acquire {
        self.client().read_lock(name).of(self.clone())
    }

    /// Takes a lock alone, without any reader.
    pub fn write_lock(&self, name: &str) -> Acquire {
        self.lock(name)
    }

    /// Takes one permit of at most `limit`.
    pub fn semaphore(&self, name: &str, limit: u32) -> Acquire {
        self.lock(name).limit(limit)
    }
}

impl Acquire {
    pub(crate) fn new(client: Client, name: &str, mode: Mode) -> Acquire {
        Acquire {
            client,
            session: None,
            name: name.to_owned(),
            others: Vec::new(),
            mode,
            ttl: SESSION_TIMEOUT_DEFAULT,
            wait: None,
            limit: None,
            permits: 1,
            priority: 0,
            owner: None,
            meta: Meta::new(),
            lock_delay: Duration::ZERO,
            max_hold: None,
            reentrant: false,
            value: None,
            on_queue: None,
        }
    }

    /// Makes it an election's, with what the candidate is known by when it leads.
    pub(crate) fn candidate(self, value: String) -> Acquire {
        Acquire { value: Some(value), ..self }
    }

    /// Has a session keep it alive, instead of renewing it by itself.
    pub(crate) fn of(self, session: Session) -> Acquire {
        Acquire { ttl: session.ttl(), session: Some(session), ..self }
    }

    /// How long it outlives this program, if this program ends without giving it back: 1 s to 1 h; 30 s if not set. It is
    /// renewed at a third of it. A grant of a session has the session's.
    pub fn ttl(self, ttl: Duration) -> Acquire {
        Acquire { ttl, ..self }
    }

    /// How long to wait for it. Then the answer is [`Error::WaitTimeout`]. Waits over the server's longest of 10 minutes keep
    /// their place too.
    pub fn wait(self, wait: Duration) -> Acquire {
        Acquire { wait: Some(wait), ..self }
    }

    /// Takes this lock too, in the same step and in the same mode, up to 64 in all: both or neither, with one token, and in one
    /// order everywhere, so that those who take several so never wait for one another in a circle. Each has one permit then.
    pub fn and(mut self, name: impl Into<String>) -> Acquire {
        self.others.push((name.into(), self.mode));
        self
    }

    /// The same for a lock that is shared with other readers, whatever the mode of the first one is.
    pub fn and_shared(mut self, name: impl Into<String>) -> Acquire {
        self.others.push((name.into(), Mode::Shared));
        self
    }

    /// Who holds or waits, for people who read the queue: up to 256 bytes.
    ///
    /// In a session it also says who waits and lets go as one: where two such would wait for one another for ever, the server
    /// refuses the one that asks last (`would_deadlock`). Do not give one name to two tasks that know nothing of one another.
    pub fn owner(self, owner: impl Into<String>) -> Acquire {
        Acquire { owner: Some(owner.into()), ..self }
    }

    /// A pair of text, for people who read the queue: up to 16 pairs and 1 KiB.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Acquire {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// How long the lock stays blocked if its holder *expires*, up to 1 h: time for what the holder began to come to an end.
    pub fn lock_delay(self, delay: Duration) -> Acquire {
        Acquire { lock_delay: delay, ..self }
    }

    /// For how long it may be held at most, 1 s to 30 days: then the cluster ends it, and [`Held::lost`] says
    /// [`Lost::Expired`]. An upgrade begins anew: `client.lock("deploy").max_hold(Duration::from_secs(3600)).await?`.
    ///
    /// The cluster counts from the grant. A guard that was granted without waiting counts by itself, from before the first
    /// request for it was sent, less [`margin`](crate::margin): so it is lost before the cluster ends it, without a network.
    /// The moment in which one that *waited* was granted is not known here. It counts from the news of the grant, which is
    /// later by what the news took, and is lost earlier where the cluster says so first, by a watch or at a renewal. Outside a
    /// session, an answer that took longer than a tenth of this counts as a wait. For what an administrator bounds, and for a
    /// further hold of a grant ([`reentrant`](Acquire::reentrant)) whose first guard is gone, the cluster's word alone counts.
    pub fn max_hold(self, max_hold: Duration) -> Acquire {
        Acquire { max_hold: Some(max_hold), ..self }
    }

    /// Where this [`owner`](Acquire::owner) of this session holds the lock already, adds a further hold of the same grant, with
    /// the same token: `session.lock("deploy").owner("ci-7").reentrant().await?`. Each guard gives its own hold back, and the
    /// lock is free after the last. What was said of the first counts: a `max_hold` of a further hold bounds nothing.
    ///
    /// Without a session or a named owner there is nobody who could hold it already: that is [`Error::Invalid`], and so it is
    /// for several locks at once and for an election.
    pub fn reentrant(self) -> Acquire {
        Acquire { reentrant: true, ..self }
    }

    /// Before waiters of lower priority; 0 if not set. A holder never loses the lock to it.
    pub fn priority(self, priority: i32) -> Acquire {
        Acquire { priority, ..self }
    }

    /// How many permits the lock has in all; the first who names it sets it.
    pub fn limit(self, limit: u32) -> Acquire {
        Acquire { limit: Some(limit), ..self }
    }

    /// How many permits to take; 1 if not set.
    pub fn permits(self, permits: u32) -> Acquire {
        Acquire { permits, ..self }
    }

    /// Is told of the place in the queue when it waits, and again when the place has changed, at most every few seconds.
    pub fn on_queue(self, told: impl FnMut(&QueuePlace) + Send + 'static) -> Acquire {
        Acquire { on_queue: Some(Box::new(told)), ..self }
    }

    /// Takes it if it is free now, and stands in no queue.
    ///
    /// # Errors
    /// [`Error::LockHeld`] where another holds it; [`Error::Unavailable`] where the cluster gave no answer in the client's
    /// time: then it is not held either.
    pub async fn try_now(self) -> Result<Guard, Error> {
        let until = WaitUntil::Now(Instant::now() + self.client.inner().timeout);
        self.take(until).await
    }

    /// Takes it, does the work, and gives it back. **When it is lost, the work is dropped** where it stands, and the answer is
    /// [`Error::Lost`]. Work that blocks its thread cannot be dropped; give its writes the token.
    ///
    /// # Errors
    /// Those of taking it; and [`Error::Lost`]. That it could not be given back is no error of the work: it is tried further
    /// in the background.
    pub async fn run<T, Work: Future<Output = T>>(self, work: impl FnOnce(Held) -> Work) -> Result<T, Error> {
        let guard = self.await?;
        let held = guard.held().clone();
        let done = {
            let work = work(held.clone());
            tokio::select! {
                biased;
                lost = held.lost() => Err(Error::Lost(lost)),
                done = work => Ok(done),
            }
        };
        // What is lost is given back in the background: the caller is to know at once.
        let done = done?;
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "the work is done, and its lock is still being given back");
        }
        Ok(done)
    }

    async fn take(mut self, until: WaitUntil) -> Result<Guard, Error> {
        let wish = self.wish()?;
        let span = tracing::debug_span!("acquire", lock = %wish.lock, mode = %wish.mode);
        let mut told = self.on_queue.take();
        pursue(&self.client, self.session.as_ref(), &wish, until, &mut told).instrument(span).await
    }

    fn wish(&self) -> Result<AcquireRequest, Error> {
        let lock = LockName::parse(&self.name).map_err(|error| Error::Invalid(format!("the lock's name: {error}")))?;
        if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&self.ttl) {
            return Err(Error::Invalid(format!("the ttl must be from {SESSION_TIMEOUT_MIN:?} to {SESSION_TIMEOUT_MAX:?}")));
        }
        if self.lock_delay > LOCK_DELAY_MAX {
            return Err(Error::Invalid(format!("the lock delay must be at most {LOCK_DELAY_MAX:?}")));
        }
        if !self.others.is_empty() && (self.limit.is_some() || self.permits != 1) {
            return Err(Error::Invalid("a request for several locks takes one permit of each, and has no limit".to_owned()));
        }
        if !self.others.is_empty() && self.value.is_some() {
            return Err(Error::Invalid("an election has one name: you cannot combine it with others".to_owned()));
        }
        if self.max_hold.is_some_and(|max_hold| !(MAX_HOLD_MIN..=MAX_HOLD_MAX).contains(&max_hold)) {
            return Err(Error::Invalid(format!("a lock is held for at most {MAX_HOLD_MIN:?} to {MAX_HOLD_MAX:?}")));
        }
        if self.reentrant && (self.session.is_none() || self.owner.is_none()) {
            return Err(Error::Invalid("a further hold needs the session and the owner: pass both for every hold".to_owned()));
        }
        if self.reentrant && (!self.others.is_empty() || self.value.is_some()) {
            return Err(Error::Invalid("a further hold is only for one lock, not for several or for an election".to_owned()));
        }
        let others = self.others.iter().map(|(name, mode)| Ok((LockName::parse(name)?, *mode))).collect::<Result<_, _>>();
        let others = others.map_err(|error: ParsePathError| Error::Invalid(format!("a lock's name: {error}")))?;
        let owner = self.owner.clone().unwrap_or_else(|| match self.session {
            Some(_) => by_itself(&self.client.inner().owner),
            None => self.client.inner().owner.clone(),
        });
        let (limit, meta, value) = (self.limit, self.meta.clone(), self.value.clone());
        let (mode, permits, priority, lock_delay) = (self.mode, self.permits, self.priority, self.lock_delay);
        let (ttl, max_hold, reentrant) = (as_it_travels(self.ttl), self.max_hold.map(as_it_travels), self.reentrant);
        Ok(AcquireRequest {
            lock,
            others,
            mode,
            limit,
            permits,
            priority,
            owner,
            meta,
            lock_delay,
            max_hold,
            reentrant,
            ttl,
            value,
        })
    }
}

/// In whole milliseconds: the server must not have less than we count with.
fn as_it_travels(time: Duration) -> Duration {
    Duration::from_millis(duration::millis(time))
}

/// The same owner as one who is alone: whoever names none may be two tasks of a session, one of which goes on while the
/// other waits.
fn by_itself(owner: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let suffix = format!("/{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let mut end = owner.len().min(OWNER_BYTES_MAX - suffix.len());
    while !owner.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &owner[..end])
}

/// Claims it under one id after the other, until it is held or surely will not be.
async fn pursue(
    client: &Client,
    session: Option<&Session>,
    wish: &AcquireRequest,
    until: WaitUntil,
    told: &mut Option<OnQueue>,
) -> Result<Guard, Error> {
    client.learn();
    let begun = Instant::now();
    let mut backoff = Backoff::new();
    loop {
        let claim = Acquisition::new(client, session, wish);
        match claim.pursue(until, begun, told).await? {
            Attempt::Held(guard) => return Ok(guard),
            Attempt::Again(why) if until.is_over() => {
                return Err(match until {
                    WaitUntil::At(_) => Error::WaitTimeout { lock: wish.lock.clone(), holder: None, waited: begun.elapsed() },
                    WaitUntil::Held | WaitUntil::Now(_) => Error::Unavailable { last: why.to_owned() },
                });
            }
            Attempt::Again(why) => tracing::info!(why, "the place in the queue is lost; the client queues again"),
        }
        if let Some(session) = session {
            session.lease().check().map_err(Error::Lost)?;
        }
        sleep(backoff.next(None)).await;
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, Error>;
    type IntoFuture = BoxFuture<'static, Result<Guard, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let until = self.wait.and_then(|wait| Instant::now().checked_add(wait)).map_or(WaitUntil::Held, WaitUntil::At);
        Box::pin(self.take(until))
    }
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Error {
        Error::Lost(lost)
    }
}

//! The builder of an acquire.

use crate::{
    acquire::{
        acquire_request::AcquireRequest,
        acquisition::acquire,
        queue_place::{OnQueue, QueuePlace},
        wait_until::WaitUntil,
    },
    client::Client,
    error::{Error, Lost},
    hold::{
        guard::{Guard, Held},
        session::Session,
    },
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
use tokio::time::Instant;
use tracing::Instrument;

/// A lock to acquire: set options, then `.await` it. You can drop it, or its future, at any moment: the background
/// gives up the place in the queue and releases a lock that was just granted.
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
    /// Acquires an exclusive lock. Without [`wait`](Acquire::wait) it waits as long as it takes.
    pub fn lock(&self, name: &str) -> Acquire {
        Acquire::new(self.clone(), name, Mode::Exclusive)
    }

    /// Acquires a lock that readers share. A waiting writer blocks later readers.
    pub fn read_lock(&self, name: &str) -> Acquire {
        Acquire::new(self.clone(), name, Mode::Shared)
    }

    /// Acquires a lock without any reader. The same as [`lock`](Client::lock).
    pub fn write_lock(&self, name: &str) -> Acquire {
        self.lock(name)
    }

    /// Acquires one of `limit` permits. For more, use [`Acquire::permits`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Acquire {
        self.lock(name).limit(limit)
    }
}

impl Session {
    /// Acquires an exclusive lock that this session keeps alive.
    pub fn lock(&self, name: &str) -> Acquire {
        self.client().lock(name).of(self.clone())
    }

    /// Acquires a lock that readers share.
    pub fn read_lock(&self, name: &str) -> Acquire {
        self.client().read_lock(name).of(self.clone())
    }

    /// Acquires a lock without any reader.
    pub fn write_lock(&self, name: &str) -> Acquire {
        self.lock(name)
    }

    /// Acquires one of `limit` permits.
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

    /// Makes it a candidacy in an election. A leader shows this value.
    pub(crate) fn candidate(self, value: String) -> Acquire {
        Acquire { value: Some(value), ..self }
    }

    /// Lets a session keep the grant alive, instead of renewing it separately.
    pub(crate) fn of(self, session: Session) -> Acquire {
        Acquire { ttl: session.ttl(), session: Some(session), ..self }
    }

    /// How long the lock stays held if this program ends without releasing it: 1 s to 1 h, 30 s by default. The client
    /// renews it after a third of this time. In a session, the session's `ttl` applies instead.
    pub fn ttl(self, ttl: Duration) -> Acquire {
        Acquire { ttl, ..self }
    }

    /// How long to wait for the lock. After that, the result is [`Error::WaitTimeout`]. A wait that is longer than the
    /// server's maximum of 10 minutes keeps its place too.
    pub fn wait(self, wait: Duration) -> Acquire {
        Acquire { wait: Some(wait), ..self }
    }

    /// Acquires this lock too, in the same step and the same mode: all or none, up to 64 locks, with one token. All
    /// requests take several locks in the same order, so such requests never deadlock. Each lock has one permit.
    pub fn and(mut self, name: impl Into<String>) -> Acquire {
        self.others.push((name.into(), self.mode));
        self
    }

    /// Like [`and`](Acquire::and), for a lock that readers share, whatever the mode of the first lock.
    pub fn and_shared(mut self, name: impl Into<String>) -> Acquire {
        self.others.push((name.into(), Mode::Shared));
        self
    }

    /// The name of the holder or waiter, for people who read the queue: up to 256 bytes.
    ///
    /// In a session, all requests with the same owner count as one task for deadlock detection: if two owners would
    /// wait for each other forever, the server refuses the later request (`would_deadlock`). Do not give the same name
    /// to two independent tasks.
    pub fn owner(self, owner: impl Into<String>) -> Acquire {
        Acquire { owner: Some(owner.into()), ..self }
    }

    /// Adds a key and a value, for people who read the queue: up to 16 pairs and 1 KiB.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Acquire {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// How long the lock stays blocked if its holder *expires*, up to 1 h. This gives the holder's unfinished work time
    /// to end.
    pub fn lock_delay(self, delay: Duration) -> Acquire {
        Acquire { lock_delay: delay, ..self }
    }

    /// The longest time that the lock may be held, 1 s to 30 days. Then the cluster ends the grant, and [`Held::lost`]
    /// returns [`Lost::Expired`]. An upgrade restarts the time.
    ///
    /// The cluster counts from the grant. If the lock was granted without waiting, the guard counts on its own, from
    /// before the first request was sent, and subtracts the [`margin`](crate::margin): it is lost before the cluster
    /// ends the grant, even without a network. If the request *waited*, the client does not know the moment of the
    /// grant. It then counts from the moment it learns of the grant, which is later. The guard is lost earlier if a
    /// watch or a renewal says so first. Outside a session, an answer that took longer than a tenth of `max_hold`
    /// counts as a wait.
    ///
    /// The client does not count a bound that an administrator set, nor for a further hold
    /// ([`reentrant`](Acquire::reentrant)) whose first guard is gone: only the cluster ends those.
    ///
    /// ```no_run
    /// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
    /// let guard = client.lock("deploy").max_hold(std::time::Duration::from_secs(3600)).await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(self, max_hold: Duration) -> Acquire {
        Acquire { max_hold: Some(max_hold), ..self }
    }

    /// If this [`owner`](Acquire::owner) of this session already holds the lock, adds a further hold of the same grant,
    /// with the same token: `session.lock("deploy").owner("ci-7").reentrant().await?`. Each guard releases its own
    /// hold, and the lock is free after the last one. The options of the first hold apply: `max_hold` of a further hold
    /// has no effect.
    ///
    /// It needs a session and an owner, and does not work for several locks at once or for an election: otherwise the
    /// result is [`Error::Invalid`].
    pub fn reentrant(self) -> Acquire {
        Acquire { reentrant: true, ..self }
    }

    /// Queues before waiters of lower priority; 0 by default. A holder never loses its lock to a waiter of higher
    /// priority.
    pub fn priority(self, priority: i32) -> Acquire {
        Acquire { priority, ..self }
    }

    /// The number of permits that the lock has. The first request that names a limit sets it.
    pub fn limit(self, limit: u32) -> Acquire {
        Acquire { limit: Some(limit), ..self }
    }

    /// How many permits to acquire; 1 by default.
    pub fn permits(self, permits: u32) -> Acquire {
        Acquire { permits, ..self }
    }

    /// Calls this function with the place in the queue while the request waits, and again when the place has changed,
    /// at most every few seconds.
    pub fn on_queue(self, on_queue: impl FnMut(&QueuePlace) + Send + 'static) -> Acquire {
        Acquire { on_queue: Some(Box::new(on_queue)), ..self }
    }

    /// Acquires the lock only if it is free now. Does not queue.
    ///
    /// # Errors
    /// [`Error::LockHeld`] if another client holds it; [`Error::Unavailable`] if the cluster did not answer within the
    /// client's timeout: then this program does not hold it either.
    pub async fn try_now(self) -> Result<Guard, Error> {
        let until = WaitUntil::Now(Instant::now() + self.client.inner().timeout);
        self.take(until).await
    }

    /// Acquires the lock, runs `work`, and releases the lock. **If the lock is lost, `work` is dropped** at its current
    /// `.await`, and the result is [`Error::Lost`]. Work that blocks its thread cannot be dropped: pass the token with
    /// its writes.
    ///
    /// # Errors
    /// The errors of acquiring the lock, and [`Error::Lost`]. A failed release is not an error: the background keeps
    /// trying.
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
        // The background releases a lost lock: the caller must know at once.
        let done = done?;
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "the work is done; a background task is still releasing its lock");
        }
        Ok(done)
    }

    async fn take(mut self, until: WaitUntil) -> Result<Guard, Error> {
        let request = self.request()?;
        let span = tracing::debug_span!("acquire", lock = %request.lock, mode = %request.mode);
        let mut on_queue = self.on_queue.take();
        acquire(&self.client, self.session.as_ref(), &request, until, &mut on_queue).instrument(span).await
    }

    /// The request, if its options are usable.
    fn request(&self) -> Result<AcquireRequest, Error> {
        self.check()?;
        let lock = LockName::parse(&self.name).map_err(|error| Error::Invalid(format!("the lock's name: {error}")))?;
        let others = self.others.iter().map(|(name, mode)| Ok((LockName::parse(name)?, *mode))).collect::<Result<_, _>>();
        let others = others.map_err(|error: ParsePathError| Error::Invalid(format!("a lock's name: {error}")))?;
        let owner = self.owner.clone().unwrap_or_else(|| match self.session {
            Some(_) => distinct_owner(&self.client.inner().owner),
            None => self.client.inner().owner.clone(),
        });
        Ok(AcquireRequest {
            lock,
            others,
            mode: self.mode,
            limit: self.limit,
            permits: self.permits,
            priority: self.priority,
            owner,
            meta: self.meta.clone(),
            lock_delay: self.lock_delay,
            max_hold: self.max_hold.map(whole_millis),
            reentrant: self.reentrant,
            ttl: whole_millis(self.ttl),
            value: self.value.clone(),
        })
    }

    fn check(&self) -> Result<(), Error> {
        if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&self.ttl) {
            return Err(Error::Invalid(format!("the ttl must be from {SESSION_TIMEOUT_MIN:?} to {SESSION_TIMEOUT_MAX:?}")));
        }
        if self.lock_delay > LOCK_DELAY_MAX {
            return Err(Error::Invalid(format!("the lock delay must be at most {LOCK_DELAY_MAX:?}")));
        }
        if !self.others.is_empty() && (self.limit.is_some() || self.permits != 1) {
            return Err(Error::Invalid(
                "a request for several locks takes one permit of each: leave out `limit` and `permits`".to_owned(),
            ));
        }
        if !self.others.is_empty() && self.value.is_some() {
            return Err(Error::Invalid("an election has one name: you cannot combine it with others".to_owned()));
        }
        if self.max_hold.is_some_and(|max_hold| !(MAX_HOLD_MIN..=MAX_HOLD_MAX).contains(&max_hold)) {
            return Err(Error::Invalid(format!("max_hold must be from {MAX_HOLD_MIN:?} to {MAX_HOLD_MAX:?}")));
        }
        if self.reentrant && (self.session.is_none() || self.owner.is_none()) {
            return Err(Error::Invalid("a further hold needs the session and the owner: pass both for every hold".to_owned()));
        }
        if self.reentrant && (!self.others.is_empty() || self.value.is_some()) {
            return Err(Error::Invalid("a further hold is only for one lock, not for several or for an election".to_owned()));
        }
        Ok(())
    }
}

/// As it is sent, in whole milliseconds: the server must not count with less than the client.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(duration::millis(time))
}

/// An owner that no other request has. Two requests of a session without an owner may come from two tasks: one may
/// continue while the other waits.
fn distinct_owner(owner: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let suffix = format!("/{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let mut end = owner.len().min(OWNER_BYTES_MAX - suffix.len());
    while !owner.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &owner[..end])
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

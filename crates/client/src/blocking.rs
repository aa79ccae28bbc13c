//! The client for programs without async code. It has a small runtime, in a separate thread.
//!
//! Every call blocks its thread, so calls in async code fail with [`Error::Invalid`]: use [`crate::Client`] there.
//! `spawn_blocking` does not count as async code.

mod nodes;
mod request;
mod runtime;

pub use nodes::Nodes;
pub use request::Request;

use self::runtime::OwnRuntime;
use crate::{Acquire, Error, Held, Lost, OpenSession, Put, Transaction, Upgrade, Watch, WatchEvent};
use fairhold_types::FencingToken;
use std::{fmt, ops::Deref, sync::Arc};

/// A client of one cluster. It is cheap to clone. Do not use it in async code: it blocks its thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<OwnRuntime>,
}

impl Client {
    /// Creates a client of the cluster with a node at this address; see [`crate::Client::new`].
    ///
    /// # Errors
    /// The errors of [`crate::ClientBuilder::build`], and [`Error::Invalid`] if no thread can be started.
    pub fn new(endpoints: impl AsRef<str>) -> Result<Client, Error> {
        Client::build(crate::Client::builder().endpoint(endpoints))
    }

    /// Creates a client with other settings.
    ///
    /// # Errors
    /// The errors of [`Client::new`].
    pub fn build(builder: crate::ClientBuilder) -> Result<Client, Error> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime
            .worker_threads(1)
            .thread_name("fairhold-client")
            .enable_all()
            .build()
            .map_err(|error| Error::Invalid(format!("the thread of the client could not be started: {error}")))?;
        let client = {
            let _within = runtime.enter();
            builder.build()?
        };
        Ok(Client { client: client.clone(), runtime: Arc::new(OwnRuntime { runtime: Some(runtime), client }) })
    }

    fn taking(&self, acquire: Acquire) -> Taking {
        Taking { acquire, runtime: Arc::clone(&self.runtime) }
    }

    /// Like [`crate::Client::lock`].
    pub fn lock(&self, name: &str) -> Taking {
        self.taking(self.client.lock(name))
    }

    /// Like [`crate::Client::read_lock`].
    pub fn read_lock(&self, name: &str) -> Taking {
        self.taking(self.client.read_lock(name))
    }

    /// Like [`crate::Client::write_lock`].
    pub fn write_lock(&self, name: &str) -> Taking {
        self.taking(self.client.write_lock(name))
    }

    /// Like [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Taking {
        self.taking(self.client.semaphore(name, limit))
    }

    fn request<B>(&self, builder: B) -> Request<B> {
        Request { builder, runtime: Arc::clone(&self.runtime) }
    }

    /// Like [`crate::Client::session`]; call [`open`](Request::open) to do it.
    pub fn session(&self) -> Request<OpenSession> {
        self.request(self.client.session())
    }

    /// Like [`crate::Client::nodes`].
    #[must_use]
    pub fn nodes(&self) -> Nodes {
        Nodes::new(self.client.nodes(), &self.runtime)
    }

    /// Like [`crate::Client::transaction`]; call [`send`](Request::send) to do it.
    pub fn transaction(&self) -> Request<Transaction> {
        self.request(self.client.transaction())
    }

    /// Like [`crate::Client::watch`]; call [`begin`](Request::begin) to do it.
    pub fn watch(&self) -> Request<Watch> {
        self.request(self.client.watch())
    }

    /// Runs anything else that the client can do: `client.with(async |client| client.locks().get("deploy").await)?`.
    ///
    /// # Errors
    /// The errors of the work.
    pub fn with<T>(&self, work: impl AsyncFnOnce(&crate::Client) -> Result<T, Error>) -> Result<T, Error> {
        self.runtime.block_on(work(&self.client))?
    }

    /// Like [`crate::Client::settled`].
    ///
    /// # Errors
    /// [`Error::Invalid`] in async code.
    pub fn settled(&self) -> Result<(), Error> {
        self.runtime.block_on(self.client.settled())
    }
}

/// A lock to acquire, like [`crate::Acquire`]: call [`take`](Taking::take) to acquire it.
#[derive(Debug)]
#[must_use = "a lock is acquired by `take` or `try_now`"]
pub struct Taking {
    acquire: Acquire,
    runtime: Arc<OwnRuntime>,
}

impl Taking {
    /// Sets options: `client.lock("deploy").with(|lock| lock.wait(second).owner("ci-7")).take()`.
    pub fn with(self, options: impl FnOnce(Acquire) -> Acquire) -> Taking {
        Taking { acquire: options(self.acquire), ..self }
    }

    /// Acquires the lock. Waits as long as it takes, or as the options say.
    ///
    /// # Errors
    /// The errors of awaiting [`crate::Acquire`].
    pub fn take(self) -> Result<Guard, Error> {
        let guard = self.runtime.block_on(self.acquire.into_future())??;
        Ok(Guard { guard: Some(guard), runtime: self.runtime })
    }

    /// Like [`crate::Acquire::try_now`].
    ///
    /// # Errors
    /// The same errors.
    pub fn try_now(self) -> Result<Guard, Error> {
        let guard = self.runtime.block_on(self.acquire.try_now())??;
        Ok(Guard { guard: Some(guard), runtime: self.runtime })
    }

    /// Acquires the lock, runs `work`, and releases the lock. Unlike [`crate::Acquire::run`], it cannot stop running
    /// work: the work must check [`Held::is_held`] or [`Held::token`] before each step.
    ///
    /// # Errors
    /// The errors of awaiting [`crate::Acquire`], and [`Error::Lost`] if the lock was lost before the work was done.
    pub fn run<T>(self, work: impl FnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.take()?;
        let done = work(&guard);
        let held = guard.left();
        if let Err(error) = guard.release() {
            tracing::warn!(%error, "the work is done; a background task is still releasing its lock");
        }
        held.map(|_| done).map_err(Error::Lost)
    }
}

/// A lock that this program holds, like [`crate::Guard`].
#[must_use = "dropping a guard releases its lock at once"]
pub struct Guard {
    /// `None` only during the release.
    guard: Option<crate::Guard>,
    runtime: Arc<OwnRuntime>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        self.guard.as_ref().unwrap_or_else(|| unreachable!("only `release` takes it, and consumes the guard"))
    }
}

impl Guard {
    /// Like [`crate::Held::token`].
    ///
    /// # Errors
    /// The same errors.
    pub fn token(&self) -> Result<FencingToken, Error> {
        Held::token(self)
    }

    /// Blocks until the lock is lost.
    ///
    /// # Errors
    /// [`Error::Invalid`] in async code.
    pub fn wait_until_lost(&self) -> Result<Lost, Error> {
        self.runtime.block_on(self.lost())
    }

    /// A fenced write, like [`crate::Held::put`]; call [`send`](Request::send) to do it.
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Request<Put> {
        Request { builder: Held::put(self, path, value), runtime: Arc::clone(&self.runtime) }
    }

    /// Like [`crate::Guard::upgrade`]; call [`send`](Request::send) to do it: `guard.upgrade().with(|up|
    /// up.wait(minute)).send()`.
    pub fn upgrade(&self) -> Request<Upgrade> {
        Request { builder: crate::Guard::upgrade(self), runtime: Arc::clone(&self.runtime) }
    }

    /// Like [`crate::Guard::downgrade`].
    ///
    /// # Errors
    /// The same errors.
    pub fn downgrade(&self) -> Result<(), Error> {
        self.runtime.block_on(crate::Guard::downgrade(self))?
    }

    /// Like [`crate::Guard::release`].
    ///
    /// # Errors
    /// The same errors.
    pub fn release(mut self) -> Result<(), Error> {
        match self.guard.take() {
            Some(guard) => self.runtime.block_on(guard.release())?,
            None => Ok(()),
        }
    }
}

impl Request<OpenSession> {
    /// Opens the session.
    ///
    /// # Errors
    /// The errors of awaiting [`OpenSession`].
    pub fn open(self) -> Result<Session, Error> {
        let runtime = Arc::clone(&self.runtime);
        Ok(Session { session: self.send()?, runtime })
    }
}

impl Request<Watch> {
    /// Starts the watch.
    ///
    /// # Errors
    /// The errors of awaiting [`Watch`].
    pub fn begin(self) -> Result<Watching, Error> {
        let runtime = Arc::clone(&self.runtime);
        Ok(Watching { watching: self.send()?, runtime })
    }
}

/// A running watch, like [`crate::Watching`]: an iterator that blocks until there is an event.
#[derive(Debug)]
pub struct Watching {
    watching: crate::Watching,
    runtime: Arc<OwnRuntime>,
}

impl Iterator for Watching {
    type Item = Result<WatchEvent, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.watching.next()).unwrap_or_else(|ended| Some(Err(ended)))
    }
}

/// A session, like [`crate::Session`].
#[derive(Debug, Clone)]
pub struct Session {
    session: crate::Session,
    runtime: Arc<OwnRuntime>,
}

impl Deref for Session {
    type Target = crate::Session;

    /// For the owner of an ephemeral node: `nodes.put(path, value).with(|put| put.ephemeral(&session))`.
    fn deref(&self) -> &crate::Session {
        &self.session
    }
}

impl Session {
    fn taking(&self, acquire: Acquire) -> Taking {
        Taking { acquire, runtime: Arc::clone(&self.runtime) }
    }

    /// Like [`crate::Session::lock`].
    pub fn lock(&self, name: &str) -> Taking {
        self.taking(self.session.lock(name))
    }

    /// Like [`crate::Session::read_lock`].
    pub fn read_lock(&self, name: &str) -> Taking {
        self.taking(self.session.read_lock(name))
    }

    /// Like [`crate::Session::write_lock`].
    pub fn write_lock(&self, name: &str) -> Taking {
        self.taking(self.session.write_lock(name))
    }

    /// Like [`crate::Session::semaphore`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Taking {
        self.taking(self.session.semaphore(name, limit))
    }

    /// Like [`crate::Session::close`].
    ///
    /// # Errors
    /// The same errors.
    pub fn close(self) -> Result<(), Error> {
        self.runtime.block_on(self.session.close())?
    }
}

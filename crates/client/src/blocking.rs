//! The same for programs without async code: a client with a small runtime of its own, in a thread beside the program's.
//!
//! Every call blocks its thread, so none may be made in async code: there it is [`Error::Invalid`], and [`crate::Client`] is the
//! one to use. `spawn_blocking` is no async code.

mod nodes;
mod request;
mod runtime;

pub use nodes::Nodes;
pub use request::Request;

use self::runtime::OwnRuntime;
use crate::{Acquire, Error, Held, Lost, OpenSession, Put, Transaction, Upgrade, Watch, WatchEvent};
use fairhold_types::FencingToken;
use std::{fmt, ops::Deref, sync::Arc};

/// A client of one cluster. Cheap to clone. Not to be used within async code: it blocks its thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<OwnRuntime>,
}

impl Client {
    /// A client of the cluster with a node at this address; see [`crate::Client::new`].
    ///
    /// # Errors
    /// As [`crate::ClientBuilder::build`], or where no thread can be started.
    pub fn new(endpoints: impl AsRef<str>) -> Result<Client, Error> {
        Client::build(crate::Client::builder().endpoint(endpoints))
    }

    /// A client with settings of its own.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn build(builder: crate::ClientBuilder) -> Result<Client, Error> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime
            .worker_threads(1)
            .thread_name("fairhold-client")
            .enable_all()
            .build()
            .map_err(|error| Error::Invalid(format!("no thread for the client: {error}")))?;
        let client = {
            let _within = runtime.enter();
            builder.build()?
        };
        Ok(Client { client: client.clone(), runtime: Arc::new(OwnRuntime { runtime: Some(runtime), client }) })
    }

    fn taking(&self, acquire: Acquire) -> Taking {
        Taking { acquire, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Client::lock`].
    pub fn lock(&self, name: &str) -> Taking {
        self.taking(self.client.lock(name))
    }

    /// As [`crate::Client::read_lock`].
    pub fn read_lock(&self, name: &str) -> Taking {
        self.taking(self.client.read_lock(name))
    }

    /// As [`crate::Client::write_lock`].
    pub fn write_lock(&self, name: &str) -> Taking {
        self.taking(self.client.write_lock(name))
    }

    /// As [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Taking {
        self.taking(self.client.semaphore(name, limit))
    }

    fn request<B>(&self, builder: B) -> Request<B> {
        Request { builder, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Client::session`]; opened by [`open`](Request::open).
    pub fn session(&self) -> Request<OpenSession> {
        self.request(self.client.session())
    }

    /// As [`crate::Client::nodes`].
    #[must_use]
    pub fn nodes(&self) -> Nodes {
        Nodes::new(self.client.nodes(), &self.runtime)
    }

    /// As [`crate::Client::transaction`]; made by [`send`](Request::send).
    pub fn transaction(&self) -> Request<Transaction> {
        self.request(self.client.transaction())
    }

    /// As [`crate::Client::watch`]; begun by [`begin`](Request::begin).
    pub fn watch(&self) -> Request<Watch> {
        self.request(self.client.watch())
    }

    /// Anything else that the client can do: `client.with(async |client| client.locks().get("deploy").await)?`.
    ///
    /// # Errors
    /// Those of the work.
    pub fn with<T>(&self, work: impl AsyncFnOnce(&crate::Client) -> Result<T, Error>) -> Result<T, Error> {
        self.runtime.block_on(work(&self.client))?
    }

    /// As [`crate::Client::settled`].
    ///
    /// # Errors
    /// [`Error::Invalid`] in async code.
    pub fn settled(&self) -> Result<(), Error> {
        self.runtime.block_on(self.client.settled())
    }
}

/// A lock about to be taken; as [`crate::Acquire`], but taken by [`take`](Taking::take).
#[derive(Debug)]
#[must_use = "a lock is taken by `take` or `try_now`"]
pub struct Taking {
    acquire: Acquire,
    runtime: Arc<OwnRuntime>,
}

impl Taking {
    /// Says more of it: `client.lock("deploy").with(|lock| lock.wait(second).owner("ci-7")).take()`.
    pub fn with(self, say: impl FnOnce(Acquire) -> Acquire) -> Taking {
        Taking { acquire: say(self.acquire), ..self }
    }

    /// Takes it; waits as long as it takes, or as was said.
    ///
    /// # Errors
    /// As awaiting [`crate::Acquire`].
    pub fn take(self) -> Result<Guard, Error> {
        let guard = self.runtime.block_on(self.acquire.into_future())??;
        Ok(Guard { guard: Some(guard), runtime: self.runtime })
    }

    /// As [`crate::Acquire::try_now`].
    ///
    /// # Errors
    /// As there.
    pub fn try_now(self) -> Result<Guard, Error> {
        let guard = self.runtime.block_on(self.acquire.try_now())??;
        Ok(Guard { guard: Some(guard), runtime: self.runtime })
    }

    /// Takes it, does the work, and gives it back. Unlike [`crate::Acquire::run`] it cannot stop work that runs: the work has to
    /// look at [`Held::is_held`] or [`Held::token`] where it goes on.
    ///
    /// # Errors
    /// As awaiting [`crate::Acquire`]; and [`Error::Lost`] where it was lost before the work was done.
    pub fn run<T>(self, work: impl FnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.take()?;
        let done = work(&guard);
        let held = guard.left();
        if let Err(error) = guard.release() {
            tracing::warn!(%error, "the work is done, and its lock is still being given back");
        }
        held.map(|_| done).map_err(Error::Lost)
    }
}

/// A lock that this program holds; as [`crate::Guard`].
#[must_use = "a guard that is dropped gives its lock back at once"]
pub struct Guard {
    /// Nothing only while it is being given back.
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
        self.guard.as_ref().unwrap_or_else(|| unreachable!("only `release` takes it, and ends with it"))
    }
}

impl Guard {
    /// As [`crate::Held::token`].
    ///
    /// # Errors
    /// As there.
    pub fn token(&self) -> Result<FencingToken, Error> {
        Held::token(self)
    }

    /// Blocks until it is lost.
    ///
    /// # Errors
    /// Where the client has ended.
    pub fn wait_until_lost(&self) -> Result<Lost, Error> {
        self.runtime.block_on(self.lost())
    }

    /// A fenced write, as [`crate::Held::put`]; made by [`send`](Request::send).
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Request<Put> {
        Request { builder: Held::put(self, path, value), runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Guard::upgrade`]; made by [`send`](Request::send): `guard.upgrade().with(|up| up.wait(minute)).send()`.
    pub fn upgrade(&self) -> Request<Upgrade> {
        Request { builder: crate::Guard::upgrade(self), runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Guard::downgrade`].
    ///
    /// # Errors
    /// As there.
    pub fn downgrade(&self) -> Result<(), Error> {
        self.runtime.block_on(crate::Guard::downgrade(self))?
    }

    /// As [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there.
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
    /// As awaiting [`OpenSession`].
    pub fn open(self) -> Result<Session, Error> {
        let runtime = Arc::clone(&self.runtime);
        Ok(Session { session: self.send()?, runtime })
    }
}

impl Request<Watch> {
    /// Begins to watch.
    ///
    /// # Errors
    /// As awaiting [`Watch`].
    pub fn begin(self) -> Result<Watching, Error> {
        let runtime = Arc::clone(&self.runtime);
        Ok(Watching { watching: self.send()?, runtime })
    }
}

/// A watch that runs; as [`crate::Watching`], but an iterator, which blocks until there is something to tell.
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

/// A session; as [`crate::Session`].
#[derive(Debug, Clone)]
pub struct Session {
    session: crate::Session,
    runtime: Arc<OwnRuntime>,
}

impl Deref for Session {
    type Target = crate::Session;

    /// For what owns an ephemeral node: `nodes.put(path, value).with(|put| put.ephemeral(&session))`.
    fn deref(&self) -> &crate::Session {
        &self.session
    }
}

impl Session {
    fn taking(&self, acquire: Acquire) -> Taking {
        Taking { acquire, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Session::lock`].
    pub fn lock(&self, name: &str) -> Taking {
        self.taking(self.session.lock(name))
    }

    /// As [`crate::Session::read_lock`].
    pub fn read_lock(&self, name: &str) -> Taking {
        self.taking(self.session.read_lock(name))
    }

    /// As [`crate::Session::write_lock`].
    pub fn write_lock(&self, name: &str) -> Taking {
        self.taking(self.session.write_lock(name))
    }

    /// As [`crate::Session::semaphore`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Taking {
        self.taking(self.session.semaphore(name, limit))
    }

    /// As [`crate::Session::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<(), Error> {
        self.runtime.block_on(self.session.close())?
    }
}

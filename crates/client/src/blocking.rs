//! The same for programs without async code: a client with a small runtime of its own, in a thread beside the program's.

use crate::{Acquire, Error, Held, Lost, OpenSession, Value};
use fairhold_types::{FencingToken, dto};
use std::{fmt, ops::Deref, sync::Arc, time::Duration};
use tokio::runtime::Runtime;

/// How long the end of a client may take, so that what was dropped last is still given back.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// A client of one cluster. Cheap to clone. Not to be used within async code: it blocks its thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Own>,
}

/// The runtime, ended with its last user.
#[derive(Debug)]
struct Own {
    runtime: Option<Runtime>,
    client: crate::Client,
}

impl Own {
    fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Error::Invalid("the client has ended".to_owned()))?;
        Ok(runtime.block_on(future))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let client = self.client.clone();
            let last = std::thread::spawn(move || {
                // What is not given back by then ends with its ttl.
                drop(runtime.block_on(async { tokio::time::timeout(SETTLE_WITHIN, client.settled()).await }));
                runtime.shutdown_background();
            });
            // A thread of its own, because the last user may be in async code; it does not panic.
            drop(last.join());
        }
    }
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
        Ok(Client { client: client.clone(), runtime: Arc::new(Own { runtime: Some(runtime), client }) })
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

    /// Opens a session; `say` says more of it.
    ///
    /// # Errors
    /// As the opening of a session.
    pub fn session(&self, say: impl FnOnce(OpenSession) -> OpenSession) -> Result<Session, Error> {
        let session = self.runtime.block_on(say(self.client.session()).into_future())??;
        Ok(Session { session, runtime: Arc::clone(&self.runtime) })
    }

    /// As [`crate::Nodes::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        self.runtime.block_on(self.client.nodes().get(path))?
    }

    /// As [`crate::Nodes::put`]; `say` says more of the write.
    ///
    /// # Errors
    /// As there.
    pub fn put(
        &self,
        path: &str,
        value: impl Into<Vec<u8>>,
        say: impl FnOnce(crate::Put) -> crate::Put,
    ) -> Result<dto::Written, Error> {
        self.runtime.block_on(say(self.client.nodes().put(path, value)).into_future())?
    }

    /// As [`crate::Client::settled`].
    pub fn settled(&self) {
        // Only a client that has ended cannot be waited for, and this one has not.
        drop(self.runtime.block_on(self.client.settled()));
    }
}

/// A lock about to be taken; as [`crate::Acquire`], but taken by [`take`](Taking::take).
#[derive(Debug)]
#[must_use = "a lock is taken by `take` or `try_now`"]
pub struct Taking {
    acquire: Acquire,
    runtime: Arc<Own>,
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
}

/// A lock that this program holds; as [`crate::Guard`].
#[must_use = "a guard that is dropped gives its lock back at once"]
pub struct Guard {
    /// Nothing only while it is being given back.
    guard: Option<crate::Guard>,
    runtime: Arc<Own>,
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

    /// A fenced write, as [`crate::Held::put`]; `say` says more of it.
    ///
    /// # Errors
    /// As there.
    pub fn put(
        &self,
        path: &str,
        value: impl Into<Vec<u8>>,
        say: impl FnOnce(crate::Put) -> crate::Put,
    ) -> Result<dto::Written, Error> {
        self.runtime.block_on(say(Held::put(self, path, value)).into_future())?
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

/// A session; as [`crate::Session`].
#[derive(Debug, Clone)]
pub struct Session {
    session: crate::Session,
    runtime: Arc<Own>,
}

impl Session {
    /// A lock that this session keeps alive; `take` says which: `session.take(|session| session.lock("deploy"))`.
    ///
    /// # Errors
    /// As awaiting [`crate::Acquire`].
    pub fn take(&self, which: impl FnOnce(&crate::Session) -> Acquire) -> Result<Guard, Error> {
        Taking { acquire: which(&self.session), runtime: Arc::clone(&self.runtime) }.take()
    }

    /// As [`crate::Session::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<(), Error> {
        self.runtime.block_on(self.session.close())?
    }
}

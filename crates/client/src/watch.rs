//! Watches: every change in the cluster, as it happens, over whichever nodes are available.
//!
//! A watch resumes by itself, at any node, so the program never sees a broken connection or node. It reports the one
//! thing that it cannot hide: [`WatchEvent::Compacted`], if no node still has the history that the watch needs.

mod event;
mod follow;
mod line;

pub use event::WatchEvent;

use crate::{
    client::Client,
    error::Error,
    wire::{
        call::Call,
        url::{encode, node_path},
    },
};
use fairhold_types::{LockName, Revision, SessionNumber};
use follow::{Follower, WatchStart};
use futures_util::{Stream, future::BoxFuture};
use reqwest::Method;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};

/// The most events that wait for the program. When it is full, the client reads nothing more from the network.
const BUFFERED_MAX: usize = 256;

impl Client {
    /// Watches changes, at whichever node is available.
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone())
    }
}

/// A watch to start: choose what to watch, then `.await` it. By default it watches all nodes, locks and sessions.
#[derive(Debug, Clone)]
#[must_use = "a watch starts when this is awaited"]
pub struct Watch {
    client: Client,
    parameters: Vec<String>,
    /// Everything below the path and the lock, too.
    below: bool,
    /// A node without its descendants is watched.
    without_below: bool,
    start: WatchStart,
    invalid: Option<String>,
}

impl Watch {
    pub(crate) fn new(client: Client) -> Watch {
        Watch { client, parameters: Vec::new(), below: false, without_below: false, start: WatchStart::Now, invalid: None }
    }

    fn path(mut self, path: &str, how: &str) -> Watch {
        match node_path(path) {
            Ok(path) => self.parameters.push(format!("path={}{how}", encode(path.as_str()))),
            Err(error) => self.invalid = Some(error.to_string()),
        }
        self
    }

    /// Watches a node of the tree, whether it exists or not. A watch has at most one of [`node`](Watch::node),
    /// [`children`](Watch::children) and [`tree`](Watch::tree).
    pub fn node(self, path: &str) -> Watch {
        Watch { without_below: true, ..self.path(path, "") }
    }

    /// Watches a node and its children.
    pub fn children(self, path: &str) -> Watch {
        Watch { without_below: true, ..self.path(path, "&children") }
    }

    /// Watches a node and all its descendants.
    pub fn tree(self, path: &str) -> Watch {
        Watch { below: true, ..self.path(path, "") }
    }

    /// Watches a lock: grants that queue, are granted, and end. With a [`tree`](Watch::tree), it also watches the locks
    /// whose names continue this one with a `/`.
    pub fn lock(mut self, name: &str) -> Watch {
        match LockName::parse(name) {
            Ok(name) => self.parameters.push(format!("lock={}", encode(name.as_str()))),
            Err(error) => self.invalid = Some(format!("the lock's name: {error}")),
        }
        self
    }

    /// Watches a lock and all locks whose names continue this one with a `/`. Not with a [`node`](Watch::node) or
    /// [`children`](Watch::children).
    pub fn locks_below(self, name: &str) -> Watch {
        Watch { below: true, ..self.lock(name) }
    }

    /// Watches every lock.
    pub fn locks(mut self) -> Watch {
        self.parameters.push("locks".to_owned());
        self
    }

    /// Watches a session and its grants.
    pub fn session(mut self, number: SessionNumber) -> Watch {
        self.parameters.push(format!("session={number}"));
        self
    }

    /// Watches every session.
    pub fn sessions(mut self) -> Watch {
        self.parameters.push("sessions".to_owned());
        self
    }

    /// Watches the cluster itself: its members, their settings, the timing profile, and the version. Such a watch watches
    /// nothing else, and cannot start with [`initial`](Watch::initial): start it, wait for its first bookmark, and then
    /// read [`Cluster::members`](crate::Cluster::members).
    pub fn cluster(mut self) -> Watch {
        self.parameters.push("cluster".to_owned());
        self
    }

    /// Starts with everything that exists, then reports every change: no gap, and nothing twice.
    pub fn initial(self) -> Watch {
        Watch { start: WatchStart::Initial, ..self }
    }

    /// Starts with the changes of this revision. Without this and [`initial`](Watch::initial), it starts with the next
    /// change.
    pub fn from(self, revision: Revision) -> Watch {
        Watch { start: WatchStart::From(revision), ..self }
    }

    async fn open(mut self) -> Result<Watching, Error> {
        if let Some(why) = self.invalid {
            return Err(Error::Invalid(why));
        }
        if self.below && self.without_below {
            let why = "use two watches for a node without its descendants and locks with theirs";
            return Err(Error::Invalid(why.to_owned()));
        }
        if self.below {
            self.parameters.push("recursive".to_owned());
        }
        let inner = self.client.inner();
        self.client.discover();
        let (events, receiver) = mpsc::channel(BUFFERED_MAX);
        let (started, start) = oneshot::channel();
        let call = Call::new(Method::GET, format!("/v1/watch?{}", self.parameters.join("&")));
        let follower = Follower::new(inner.renewals.clone(), call, self.start, events, started);
        let watching = Watching { events: receiver, task: inner.background.keep(follower.follow()) };
        match timeout(inner.timeout, start).await {
            Ok(Ok(Ok(()))) => Ok(watching),
            Ok(Ok(Err(refused))) => Err(refused),
            Ok(Err(_)) => Err(Error::Unavailable { last: "this program's runtime is shutting down".to_owned() }),
            Err(_) => Err(Error::Unavailable { last: format!("no node started the watch within {:?}", inner.timeout) }),
        }
    }
}

impl IntoFuture for Watch {
    type Output = Result<Watching, Error>;
    type IntoFuture = BoxFuture<'static, Result<Watching, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// A running watch: a [`Stream`]. It ends only after an error, if the cluster refuses to continue. While no node is
/// reachable, it is silent. Dropping it ends it.
#[derive(Debug)]
pub struct Watching {
    events: mpsc::Receiver<Result<WatchEvent, Error>>,
    task: AbortHandle,
}

impl Watching {
    /// The next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        self.events.recv().await
    }
}

impl Stream for Watching {
    type Item = Result<WatchEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

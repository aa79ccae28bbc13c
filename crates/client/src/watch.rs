//! Watching: what happens in the cluster, as it happens, over whichever nodes are there.
//!
//! A watch goes on by itself where it stopped, at any node, so that a break of a connection or of a node is never seen. What it
//! cannot hide it says: [`WatchEvent::Compacted`], where no node has the history any more that it would have to tell.

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

/// What waits to be read by the program; then nothing more is read from the network.
const WAITING_MAX: usize = 256;

impl Client {
    /// Watches what happens, wherever it is told.
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone())
    }
}

/// A watch about to begin: say what is watched, and `.await` it. Without a word it is everything.
#[derive(Debug, Clone)]
#[must_use = "a watch begins when this is awaited"]
pub struct Watch {
    client: Client,
    parameters: Vec<String>,
    /// With all below the path and the lock that are named.
    below: bool,
    /// A node without all that is below it is named.
    without_below: bool,
    begin: WatchStart,
    invalid: Option<String>,
}

impl Watch {
    pub(crate) fn new(client: Client) -> Watch {
        Watch { client, parameters: Vec::new(), below: false, without_below: false, begin: WatchStart::Now, invalid: None }
    }

    fn path(mut self, path: &str, how: &str) -> Watch {
        match node_path(path) {
            Ok(path) => self.parameters.push(format!("path={}{how}", encode(path.as_str()))),
            Err(error) => self.invalid = Some(error.to_string()),
        }
        self
    }

    /// A node of the tree, whether it is there yet or not. Of [`node`](Watch::node), [`children`](Watch::children) and
    /// [`tree`](Watch::tree) a watch has one.
    pub fn node(self, path: &str) -> Watch {
        Watch { without_below: true, ..self.path(path, "") }
    }

    /// A node and its direct children.
    pub fn children(self, path: &str) -> Watch {
        Watch { without_below: true, ..self.path(path, "&children") }
    }

    /// A node and all below it.
    pub fn tree(self, path: &str) -> Watch {
        Watch { below: true, ..self.path(path, "") }
    }

    /// A lock: who queues, who is granted, who ends. Beside a [`tree`](Watch::tree) it is also the locks whose names go on from
    /// it with a `/`.
    pub fn lock(mut self, name: &str) -> Watch {
        match LockName::parse(name) {
            Ok(name) => self.parameters.push(format!("lock={}", encode(name.as_str()))),
            Err(error) => self.invalid = Some(format!("the lock's name: {error}")),
        }
        self
    }

    /// A lock and all whose names go on from it with a `/`. Not beside a [`node`](Watch::node) or [`children`](Watch::children).
    pub fn locks_below(self, name: &str) -> Watch {
        Watch { below: true, ..self.lock(name) }
    }

    /// Every lock.
    pub fn locks(mut self) -> Watch {
        self.parameters.push("locks".to_owned());
        self
    }

    /// A session, and what becomes of its grants.
    pub fn session(mut self, number: SessionNumber) -> Watch {
        self.parameters.push(format!("session={number}"));
        self
    }

    /// Every session.
    pub fn sessions(mut self) -> Watch {
        self.parameters.push("sessions".to_owned());
        self
    }

    /// Begins with what is there, then tells every change of it: no gap, and nothing twice.
    pub fn initial(self) -> Watch {
        Watch { begin: WatchStart::Initial, ..self }
    }

    /// Begins with the changes of this revision. Without this and without [`initial`](Watch::initial): with the next change.
    pub fn from(self, revision: Revision) -> Watch {
        Watch { begin: WatchStart::From(revision), ..self }
    }

    async fn begin(mut self) -> Result<Watching, Error> {
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
        let (tell, told) = mpsc::channel(WAITING_MAX);
        let (begun, begins) = oneshot::channel();
        let call = Call::new(Method::GET, format!("/v1/watch?{}", self.parameters.join("&")));
        let follower = Follower::new(inner.renewals.clone(), call, self.begin, tell, begun);
        let watching = Watching { told, task: inner.background.keep(follower.follow()) };
        match timeout(inner.timeout, begins).await {
            Ok(Ok(Ok(()))) => Ok(watching),
            Ok(Ok(Err(refused))) => Err(refused),
            Ok(Err(_)) => Err(Error::Unavailable { last: "this program's runtime ends".to_owned() }),
            Err(_) => Err(Error::Unavailable { last: format!("no node took the watch within {:?}", inner.timeout) }),
        }
    }
}

impl IntoFuture for Watch {
    type Output = Result<Watching, Error>;
    type IntoFuture = BoxFuture<'static, Result<Watching, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

/// A watch that runs: a [`Stream`], which ends only after an error, and that only where the cluster refuses to go on. While no
/// node can be reached it is silent. Dropping it ends it.
#[derive(Debug)]
pub struct Watching {
    told: mpsc::Receiver<Result<WatchEvent, Error>>,
    task: AbortHandle,
}

impl Watching {
    /// What it tells next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        self.told.recv().await
    }
}

impl Stream for Watching {
    type Item = Result<WatchEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.told.poll_recv(context)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

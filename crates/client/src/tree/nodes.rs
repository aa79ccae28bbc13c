//! The tree of nodes: small values with versions. Reading is here, `write` has what changes it.

use crate::{
    client::Client,
    error::Error,
    tree::write::{Create, Delete, Put},
    views::{
        long_poll::LongPoll,
        read_options::{ReadOptions, freshness},
    },
    wire::{call::Call, reply::Reply, url::node_url},
};
use fairhold_types::{Revision, dto};
use reqwest::Method;
use std::time::Duration;

/// The tree of nodes, as this client reaches it.
#[derive(Debug, Clone)]
pub struct Nodes {
    client: Client,
    reading: ReadOptions,
}

/// A node's value, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeValue {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How often it was written; for [`Put::version`].
    pub version: i32,
    /// The revision of the whole tree that the answer shows.
    pub revision: Revision,
}

impl Client {
    /// The tree of nodes.
    #[must_use]
    pub fn nodes(&self) -> Nodes {
        Nodes::new(self.clone())
    }
}

freshness!(Nodes);

impl Nodes {
    pub(crate) fn new(client: Client) -> Nodes {
        Nodes { client, reading: ReadOptions::default() }
    }

    /// Reads a node, linearizably: all that was acknowledged to anybody before is seen. Nothing where it does not exist.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no answer came in the client's time.
    pub async fn get(&self, path: &str) -> Result<Option<NodeValue>, Error> {
        let reply = self.read(&node_url(path)?).await?;
        match value(reply) {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is known of a node besides its value. Nothing where it does not exist.
    ///
    /// # Errors
    /// As [`get`](Nodes::get).
    pub async fn stat(&self, path: &str) -> Result<Option<dto::Stat>, Error> {
        match self.read(&format!("{}?meta", node_url(path)?)).await?.json() {
            Ok(stat) => Ok(Some(stat)),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names of a node's children, in the order of their bytes. Over 1,000 they come in pages, each of its own revision.
    ///
    /// # Errors
    /// [`Error::NoNode`] where the node does not exist; else as [`get`](Nodes::get).
    pub async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.list(path, "children").await
    }

    /// The paths of all nodes below a node, in the order of their bytes; in pages as [`children`](Nodes::children).
    ///
    /// # Errors
    /// As [`children`](Nodes::children).
    pub async fn descendants(&self, path: &str) -> Result<Vec<String>, Error> {
        self.list(path, "recursive").await
    }

    /// The stats of a node's children, in the order of their names.
    ///
    /// # Errors
    /// As [`children`](Nodes::children).
    pub async fn child_stats(&self, path: &str) -> Result<Vec<dto::Stat>, Error> {
        self.client.pages(&format!("{}?children&meta", node_url(path)?), self.reading).await
    }

    /// A node's value once it is newer than what was read at that revision, or than it is now; nothing where that did not come in
    /// that time. It is asked again at another node where one is gone. A watch tells more: each change, not the last one only.
    ///
    /// # Errors
    /// As [`get`](Nodes::get); [`Error::NoNode`] where it was removed, or there was none in all that time.
    pub async fn get_next(&self, path: &str, after: Option<Revision>, wait: Duration) -> Result<Option<NodeValue>, Error> {
        let news = LongPoll { path: &node_url(path)?, reading: self.reading, after, wait: Some(wait) };
        self.client.news(&news).await?.map(value).transpose()
    }

    async fn list(&self, path: &str, what: &str) -> Result<Vec<String>, Error> {
        self.client.pages(&format!("{}?{what}", node_url(path)?), self.reading).await
    }

    async fn read(&self, path: &str) -> Result<Reply, Error> {
        self.client.send(&self.reading.of(Call::new(Method::GET, path.to_owned()))).await
    }

    /// Writes a node's value, and creates the node where it does not exist: say more, or `.await` it.
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Put {
        Put::new(self.client.clone(), path, value.into())
    }

    /// Creates a node that must not exist: say more, or `.await` it. [`Error::NodeExists`] where it does.
    pub fn create(&self, path: &str, value: impl Into<Vec<u8>>) -> Create {
        Create::new(self.client.clone(), path, value.into())
    }

    /// Creates a child whose name is this beginning and the next number of its parent, in ten digits: say more, or `.await` it.
    pub fn create_sequential(&self, parent: &str, name: &str, value: impl Into<Vec<u8>>) -> Create {
        self.create(parent, value).sequential(name)
    }

    /// Removes a node: say more, or `.await` it.
    pub fn delete(&self, path: &str) -> Delete {
        Delete::new(self.client.clone(), path)
    }
}

fn value(reply: Reply) -> Result<NodeValue, Error> {
    reply.done()?;
    let revision = reply.revision()?;
    let Some(version) = reply.headers.get("fairhold-version").and_then(|value| value.to_str().ok()?.parse().ok()) else {
        return Err(Error::NotUnderstood { why: "it names no version".to_owned() });
    };
    Ok(NodeValue { bytes: reply.body, version, revision })
}

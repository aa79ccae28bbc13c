//! Reads of the tree of nodes: small values with versions.

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

/// The tree of nodes.
#[derive(Debug, Clone)]
pub struct Nodes {
    client: Client,
    options: ReadOptions,
}

/// A node's value at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeValue {
    /// The bytes of the value.
    pub bytes: Vec<u8>,
    /// How often it was written, for [`Put::version`].
    pub version: i32,
    /// The revision that the answer shows.
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
        Nodes { client, options: ReadOptions::default() }
    }

    /// Reads a node's value, linearizably: the read sees every write that was acknowledged before it started. `None` if
    /// the node does not exist.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no answer came within the client's timeout.
    pub async fn get(&self, path: &str) -> Result<Option<NodeValue>, Error> {
        let reply = self.read(&node_url(path)?).await?;
        match value(reply) {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a node's metadata. `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`get`](Nodes::get).
    pub async fn stat(&self, path: &str) -> Result<Option<dto::Stat>, Error> {
        match self.read(&format!("{}?meta", node_url(path)?)).await?.json() {
            Ok(stat) => Ok(Some(stat)),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the names of a node's children, in byte order. More than 1,000 children come in pages, each with its own
    /// revision.
    ///
    /// # Errors
    /// [`Error::NoNode`] if the node does not exist; the errors of [`get`](Nodes::get).
    pub async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.list(path, "children").await
    }

    /// Reads the paths of all nodes below a node, in byte order, in pages like [`children`](Nodes::children).
    ///
    /// # Errors
    /// The errors of [`children`](Nodes::children).
    pub async fn descendants(&self, path: &str) -> Result<Vec<String>, Error> {
        self.list(path, "recursive").await
    }

    /// Reads the metadata of a node's children, in the order of their names.
    ///
    /// # Errors
    /// The errors of [`children`](Nodes::children).
    pub async fn child_stats(&self, path: &str) -> Result<Vec<dto::Stat>, Error> {
        self.client.pages(&format!("{}?children&meta", node_url(path)?), self.options).await
    }

    /// Waits until a node's value is newer than at that revision, or than now, and reads it; `None` if it did not
    /// change in that time. If a node of the cluster is gone, the client tries another one. This sees only the last
    /// change; a watch sees every change.
    ///
    /// # Errors
    /// The errors of [`get`](Nodes::get); [`Error::NoNode`] if the node was removed, or did not exist during the whole
    /// wait.
    pub async fn get_next(&self, path: &str, after: Option<Revision>, wait: Duration) -> Result<Option<NodeValue>, Error> {
        let poll = LongPoll { path: &node_url(path)?, options: self.options, after, wait: Some(wait) };
        self.client.long_poll(&poll).await?.map(value).transpose()
    }

    async fn list(&self, path: &str, what: &str) -> Result<Vec<String>, Error> {
        self.client.pages(&format!("{}?{what}", node_url(path)?), self.options).await
    }

    async fn read(&self, path: &str) -> Result<Reply, Error> {
        self.client.send(&self.options.apply(Call::new(Method::GET, path.to_owned()))).await
    }

    /// Writes a node's value, and creates the node if it does not exist: set options, then `.await` it.
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Put {
        Put::new(self.client.clone(), path, value.into())
    }

    /// Creates a node: set options, then `.await` it. [`Error::NodeExists`] if it exists.
    pub fn create(&self, path: &str, value: impl Into<Vec<u8>>) -> Create {
        Create::new(self.client.clone(), path, value.into())
    }

    /// Creates a child whose name is this prefix and the parent's next number, in ten digits: set options, then
    /// `.await` it.
    pub fn create_sequential(&self, parent: &str, name: &str, value: impl Into<Vec<u8>>) -> Create {
        self.create(parent, value).sequential(name)
    }

    /// Removes a node: set options, then `.await` it.
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

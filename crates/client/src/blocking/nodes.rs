//! The tree of nodes, without async code.

use super::{request::Request, runtime::OwnRuntime};
use crate::{Create, Delete, Error, NodeValue, Put};
use fairhold_types::dto;
use std::sync::Arc;

/// The tree of nodes; as [`crate::Nodes`].
#[derive(Debug, Clone)]
pub struct Nodes {
    nodes: crate::Nodes,
    runtime: Arc<OwnRuntime>,
}

impl Nodes {
    pub(super) fn new(nodes: crate::Nodes, runtime: &Arc<OwnRuntime>) -> Nodes {
        Nodes { nodes, runtime: Arc::clone(runtime) }
    }

    /// As [`crate::Nodes::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, path: &str) -> Result<Option<NodeValue>, Error> {
        self.runtime.block_on(self.nodes.get(path))?
    }

    /// As [`crate::Nodes::stat`].
    ///
    /// # Errors
    /// As there.
    pub fn stat(&self, path: &str) -> Result<Option<dto::Stat>, Error> {
        self.runtime.block_on(self.nodes.stat(path))?
    }

    /// As [`crate::Nodes::children`].
    ///
    /// # Errors
    /// As there.
    pub fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.runtime.block_on(self.nodes.children(path))?
    }

    /// As [`crate::Nodes::descendants`].
    ///
    /// # Errors
    /// As there.
    pub fn descendants(&self, path: &str) -> Result<Vec<String>, Error> {
        self.runtime.block_on(self.nodes.descendants(path))?
    }

    fn request<B>(&self, builder: B) -> Request<B> {
        Request { builder, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Nodes::put`]; made by [`send`](Request::send).
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Request<Put> {
        self.request(self.nodes.put(path, value))
    }

    /// As [`crate::Nodes::create`]; made by [`send`](Request::send).
    pub fn create(&self, path: &str, value: impl Into<Vec<u8>>) -> Request<Create> {
        self.request(self.nodes.create(path, value))
    }

    /// As [`crate::Nodes::create_sequential`]; made by [`send`](Request::send).
    pub fn create_sequential(&self, parent: &str, name: &str, value: impl Into<Vec<u8>>) -> Request<Create> {
        self.request(self.nodes.create_sequential(parent, name, value))
    }

    /// As [`crate::Nodes::delete`]; made by [`send`](Request::send).
    pub fn delete(&self, path: &str) -> Request<Delete> {
        self.request(self.nodes.delete(path))
    }
}

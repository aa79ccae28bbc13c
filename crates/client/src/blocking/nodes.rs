//! The tree of nodes, without async code.

use super::{request::Request, runtime::OwnRuntime};
use crate::{Create, Delete, Error, NodeValue, Put};
use fairhold_types::dto;
use std::sync::Arc;

/// The tree of nodes, like [`crate::Nodes`].
#[derive(Debug, Clone)]
pub struct Nodes {
    nodes: crate::Nodes,
    runtime: Arc<OwnRuntime>,
}

impl Nodes {
    pub(super) fn new(nodes: crate::Nodes, runtime: &Arc<OwnRuntime>) -> Nodes {
        Nodes { nodes, runtime: Arc::clone(runtime) }
    }

    /// Like [`crate::Nodes::get`].
    ///
    /// # Errors
    /// The same errors.
    pub fn get(&self, path: &str) -> Result<Option<NodeValue>, Error> {
        self.runtime.block_on(self.nodes.get(path))?
    }

    /// Like [`crate::Nodes::stat`].
    ///
    /// # Errors
    /// The same errors.
    pub fn stat(&self, path: &str) -> Result<Option<dto::Stat>, Error> {
        self.runtime.block_on(self.nodes.stat(path))?
    }

    /// Like [`crate::Nodes::children`].
    ///
    /// # Errors
    /// The same errors.
    pub fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.runtime.block_on(self.nodes.children(path))?
    }

    /// Like [`crate::Nodes::descendants`].
    ///
    /// # Errors
    /// The same errors.
    pub fn descendants(&self, path: &str) -> Result<Vec<String>, Error> {
        self.runtime.block_on(self.nodes.descendants(path))?
    }

    fn request<B>(&self, builder: B) -> Request<B> {
        Request { builder, runtime: Arc::clone(&self.runtime) }
    }

    /// Like [`crate::Nodes::put`]; call [`send`](Request::send) to do it.
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Request<Put> {
        self.request(self.nodes.put(path, value))
    }

    /// Like [`crate::Nodes::create`]; call [`send`](Request::send) to do it.
    pub fn create(&self, path: &str, value: impl Into<Vec<u8>>) -> Request<Create> {
        self.request(self.nodes.create(path, value))
    }

    /// Like [`crate::Nodes::create_sequential`]; call [`send`](Request::send) to do it.
    pub fn create_sequential(&self, parent: &str, name: &str, value: impl Into<Vec<u8>>) -> Request<Create> {
        self.request(self.nodes.create_sequential(parent, name, value))
    }

    /// Like [`crate::Nodes::delete`]; call [`send`](Request::send) to do it.
    pub fn delete(&self, path: &str) -> Request<Delete> {
        self.request(self.nodes.delete(path))
    }
}

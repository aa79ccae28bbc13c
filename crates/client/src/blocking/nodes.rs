//! The tree of nodes, without async code.

use super::{Asking, Own};
use crate::{Create, Delete, Error, Put, Value};
use fairhold_types::dto;
use std::sync::Arc;

/// The tree of nodes; as [`crate::Nodes`].
#[derive(Debug, Clone)]
pub struct Nodes {
    nodes: crate::Nodes,
    runtime: Arc<Own>,
}

impl Nodes {
    pub(super) fn new(nodes: crate::Nodes, runtime: &Arc<Own>) -> Nodes {
        Nodes { nodes, runtime: Arc::clone(runtime) }
    }

    /// As [`crate::Nodes::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, path: &str) -> Result<Option<Value>, Error> {
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

    fn asking<B>(&self, builder: B) -> Asking<B> {
        Asking { builder, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Nodes::put`]; made by [`send`](Asking::send).
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Asking<Put> {
        self.asking(self.nodes.put(path, value))
    }

    /// As [`crate::Nodes::create`]; made by [`send`](Asking::send).
    pub fn create(&self, path: &str, value: impl Into<Vec<u8>>) -> Asking<Create> {
        self.asking(self.nodes.create(path, value))
    }

    /// As [`crate::Nodes::create_sequential`]; made by [`send`](Asking::send).
    pub fn create_sequential(&self, parent: &str, name: &str, value: impl Into<Vec<u8>>) -> Asking<Create> {
        self.asking(self.nodes.create_sequential(parent, name, value))
    }

    /// As [`crate::Nodes::delete`]; made by [`send`](Asking::send).
    pub fn delete(&self, path: &str) -> Asking<Delete> {
        self.asking(self.nodes.delete(path))
    }
}

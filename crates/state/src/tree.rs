//! The tree of nodes: the only source of truth. Every path but the root has its parent in it.

use crate::{
    record::{Contender, NodeKind, NodeRole, Znode},
    value::Value,
    weighed::Weighed,
};
use fairhold_types::{Path, Revision, SessionNumber, time::WallMillis};
use std::{ops::Bound, sync::Arc};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree {
    // A record is far larger than a pointer, and half of a map's slots are empty, so records are stored outside the
    // map.
    nodes: Weighed<Path, Arc<Znode>>,
    /// The bytes of all values together.
    value_bytes: u64,
}

/// A node to be created.
#[derive(Debug)]
pub(crate) struct NewNode {
    pub(crate) kind: NodeKind,
    pub(crate) owner: SessionNumber,
    pub(crate) value: Value,
    pub(crate) role: NodeRole,
}

impl NewNode {
    pub(crate) fn lock() -> NewNode {
        let role = NodeRole::Lock(Box::default());
        NewNode { kind: NodeKind::Container, owner: SessionNumber(0), value: Value::empty(), role }
    }

    pub(crate) fn persistent() -> NewNode {
        NewNode::data(NodeKind::Persistent, SessionNumber(0), Value::empty())
    }

    pub(crate) fn data(kind: NodeKind, owner: SessionNumber, value: Value) -> NewNode {
        NewNode { kind, owner, value, role: NodeRole::Data }
    }
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let mut tree = Tree::empty();
        let at = WallMillis(0);
        let first = Revision(0);
        tree.nodes.insert(Path::root(), Arc::new(znode(NewNode::persistent(), first, at)));
        tree.create(Path::root().child("locks"), NewNode::persistent(), first, at);
        tree
    }

    pub(crate) fn empty() -> Tree {
        Tree { nodes: Weighed::default(), value_bytes: 0 }
    }

    /// Inserts a node from a snapshot, with its stat.
    pub(crate) fn restore(&mut self, path: Path, node: Znode) {
        self.value_bytes += node.value.len() as u64;
        self.nodes.insert(path, Arc::new(node));
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Znode> {
        self.nodes.get(path).map(|node| &**node)
    }

    /// A node that a clone keeps while other nodes change.
    pub(crate) fn get_shared(&self, path: &Path) -> Option<&Arc<Znode>> {
        self.nodes.get(path)
    }

    /// A node, to change fields that do not count in its weight. `write` changes its value, `change_contender` its
    /// contender.
    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Znode> {
        self.nodes.get_mut(path).map(Arc::make_mut)
    }

    /// Replaces the value of a node. Returns the node, to change fields that do not count in its weight.
    pub(crate) fn write(&mut self, path: &Path, value: Value) -> Option<&mut Znode> {
        let length = |node: &Arc<Znode>| node.value.len() as u64;
        let node = self.nodes.reweigh(path, length, value.len() as u64)?;
        self.value_bytes = self.value_bytes - length(node) + value.len() as u64;
        let node = Arc::make_mut(node);
        node.value = value;
        Some(node)
    }

    /// Changes a contender, including fields that count in its weight. `None` if the node has no contender.
    pub(crate) fn change_contender<T>(&mut self, path: &Path, change: impl FnOnce(&mut Contender) -> T) -> Option<T> {
        let weight = |node: &Arc<Znode>| match &node.role {
            NodeRole::Contender(contender) => contender.changing_weight(),
            NodeRole::Data | NodeRole::Lock(_) => 0,
        };
        self.nodes.change(path, weight, |node| match &mut Arc::make_mut(node).role {
            NodeRole::Contender(contender) => Some(change(contender)),
            NodeRole::Data | NodeRole::Lock(_) => None,
        })?
    }

    /// The total weight in bytes, including locks and contenders.
    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.bytes()
    }

    /// The same weight, recomputed by a walk over all nodes.
    pub(crate) fn recounted(&self) -> u64 {
        self.nodes.recounted()
    }

    /// The bytes of all values together.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Znode)> {
        self.nodes.iter().map(|(path, node)| (path, &**node))
    }

    /// The nodes below a path, in the order of their paths' bytes, so parents come before their children. With `after`,
    /// only those whose path comes after it.
    pub(crate) fn below<'a>(&'a self, path: &Path, after: Option<&str>) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        let first = path.prefix_below();
        self.below_from(path, Bound::Excluded(after.filter(|after| *after > first.as_str()).unwrap_or(&first)))
    }

    /// The children of a node, by name. With `after`, only those whose path comes after it.
    pub(crate) fn children<'a>(
        &'a self,
        parent: &Path,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        let parent = parent.clone();
        let level = parent.prefix_below().len();
        let first = after.map_or_else(|| parent.prefix_below(), |after| parent.prefix_below().max(after.to_owned()));
        let mut rows = self.below_from(&parent, Bound::Excluded(&first));
        std::iter::from_fn(move || {
            loop {
                let (path, node) = rows.next()?;
                let Some(slash) = path.as_str()[level..].find('/') else {
                    return Some((path, node));
                };
                // This node is below a child that was already returned. `0` follows `/` in byte order, so this skips
                // all descendants of that child.
                let next = format!("{}0", &path.as_str()[..level + slash]);
                rows = self.below_from(&parent, Bound::Included(&next));
            }
        })
    }

    fn below_from<'a>(&'a self, path: &Path, from: Bound<&str>) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        let first = path.prefix_below();
        let rows = self.nodes.range::<_, str>((from, Bound::Unbounded));
        rows.take_while(move |(path, _)| path.as_str().starts_with(&first)).map(|(path, node)| (path, &**node))
    }

    pub(crate) fn range(&self, range: (Bound<Path>, Bound<Path>)) -> impl Iterator<Item = (&Path, &Znode)> {
        self.nodes.range(range).map(|(path, node)| (path, &**node))
    }

    /// Creates a node that does not exist yet, below a parent that does. Updates the parent's `pzxid` and child
    /// counters.
    pub(crate) fn create(&mut self, path: Path, create: NewNode, revision: Revision, at: WallMillis) {
        let parent = path.parent_str().and_then(|parent| self.get_mut(parent));
        assert!(parent.is_some(), "a node was created without its parent: {path}");
        if let Some(parent) = parent {
            parent.pzxid = revision;
            parent.creates = parent.creates.wrapping_add(1);
            parent.num_children += 1;
        }
        self.value_bytes += create.value.len() as u64;
        let displaced = self.nodes.insert(path, Arc::new(znode(create, revision, at)));
        assert!(displaced.is_none(), "a node was created twice");
    }

    /// Creates the missing ancestors of a path, each by `make`.
    pub(crate) fn create_parents(
        &mut self,
        path: &Path,
        make: impl Fn() -> NewNode,
        revision: Revision,
        at: WallMillis,
    ) -> Vec<Path> {
        let mut missing = Vec::new();
        let mut level = path.parent();
        while let Some(path) = level {
            if self.nodes.contains_key(&path) {
                break;
            }
            level = path.parent();
            missing.push(path);
        }
        missing.reverse();
        for path in &missing {
            self.create(path.clone(), make(), revision, at);
        }
        missing
    }

    /// Removes a node without children. Updates the parent's `pzxid` and child counter.
    pub(crate) fn remove(&mut self, path: &Path, revision: Revision) -> Option<Znode> {
        let node = self.nodes.remove(path)?;
        self.value_bytes -= node.value.len() as u64;
        assert!(node.num_children == 0, "a node with children was removed: {path}");
        if let Some(parent) = path.parent_str().and_then(|parent| self.get_mut(parent)) {
            parent.pzxid = revision;
            parent.num_children -= 1;
        }
        Some(Arc::unwrap_or_clone(node))
    }
}

fn znode(create: NewNode, revision: Revision, at: WallMillis) -> Znode {
    Znode {
        czxid: revision,
        mzxid: revision,
        pzxid: revision,
        ctime: at,
        mtime: at,
        version: 0,
        aversion: 0,
        creates: 0,
        num_children: 0,
        ephemeral_owner: create.owner,
        kind: create.kind.into(),
        value: create.value,
        role: create.role,
        acl: None,
    }
}

//! Reads of tree nodes: children, descendants, and what can be swept.

use crate::{
    State,
    command::Sweepable,
    record::{NodeKind, Znode},
};
use fairhold_types::{Path, Revision, SessionNumber};
use std::ops::Bound;

impl State {
    /// The nodes after a path, in the order of their paths' bytes; without `after`, the nodes from `from` on.
    pub fn nodes_after<'a>(&'a self, after: Option<&Path>, from: &Path) -> impl Iterator<Item = (&'a Path, &'a Znode)> {
        let begin = after.map_or_else(|| Bound::Included(from.clone()), |after| Bound::Excluded(after.clone()));
        self.tree.range((begin, Bound::Unbounded)).filter(|(_, node)| !self.is_orphan(node))
    }

    /// How many nodes the tree has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.tree.len()
    }

    /// The children of a node, by name. With `after`, only those whose path comes after it.
    pub fn children<'a>(&'a self, parent: &Path, after: Option<&str>) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        self.tree.children(parent, after).filter(|(_, node)| !self.is_orphan(node))
    }

    /// All nodes below a path, in the order of their paths' bytes, so parents come before their children. With `after`,
    /// only those whose path comes after it.
    pub fn descendants<'a>(&'a self, path: &Path, after: Option<&str>) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        self.tree.below(path, after).filter(|(_, node)| !self.is_orphan(node))
    }

    /// How many ephemeral nodes a session owns.
    #[must_use]
    pub fn ephemeral_count(&self, session: SessionNumber) -> usize {
        self.index.ephemerals.get(&session).map_or(0, imbl::OrdSet::len)
    }

    /// Containers and TTL nodes that may be removed once they have stayed unchanged for long enough.
    pub fn sweepable(&self) -> impl Iterator<Item = Sweepable> + '_ {
        let of = |path: &Path| self.sweepable_at(path).map(|since| Sweepable { path: path.clone(), since });
        self.index.sweepable.iter().filter_map(of)
    }

    /// The revision since which a node can be swept; `None` if it cannot.
    #[must_use]
    pub fn sweepable_at(&self, path: &Path) -> Option<Revision> {
        self.tree.get(path).filter(|node| node.is_sweepable()).map(Znode::changed_at)
    }

    /// How long a TTL node lives without children and changes, in milliseconds; `None` for other kinds.
    #[must_use]
    pub fn ttl_ms(&self, path: &Path) -> Option<u64> {
        match self.tree.get(path)?.kind.get() {
            NodeKind::Ttl { ttl_ms } => Some(ttl_ms),
            NodeKind::Persistent | NodeKind::Ephemeral | NodeKind::Container => None,
        }
    }
}

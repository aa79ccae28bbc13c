//! What can be asked of the tree's nodes without changing them: children, all below, what may be swept.

use crate::{
    State,
    command::Sweepable,
    record::{NodeKind, Znode},
};
use fairhold_types::{Path, Revision, SessionNumber};
use std::ops::Bound;

impl State {
    /// A node of the tree.
    #[must_use]
    pub fn node(&self, path: &Path) -> Option<&Znode> {
        self.visible(path)
    }

    /// The nodes after a path, by path as text; without one those from `from` on.
    pub fn nodes_after<'a>(&'a self, after: Option<&Path>, from: &Path) -> impl Iterator<Item = (&'a Path, &'a Znode)> {
        let begin = after.map_or_else(|| Bound::Included(from.clone()), |after| Bound::Excluded(after.clone()));
        self.tree.range((begin, Bound::Unbounded)).filter(|(_, node)| !self.is_orphan(node))
    }

    /// How many nodes the tree has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.tree.len()
    }

    /// The children of a node, by name; only those whose path is behind `after`, where that is given.
    pub fn children<'a>(&'a self, parent: &Path, after: Option<&str>) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        self.tree.children(parent, after).filter(|(_, node)| !self.is_orphan(node))
    }

    /// All nodes below one, in the order of their paths' bytes, which has parents before their children; only those behind
    /// `after`, where that is given.
    pub fn descendants<'a>(&'a self, path: &Path, after: Option<&str>) -> impl Iterator<Item = (&'a Path, &'a Znode)> + use<'a> {
        self.tree.below(path, after).filter(|(_, node)| !self.is_orphan(node))
    }

    /// How many ephemeral nodes a session owns.
    #[must_use]
    pub fn ephemeral_count(&self, session: SessionNumber) -> usize {
        self.index.ephemerals.get(&session).map_or(0, imbl::OrdSet::len)
    }

    /// Containers and TTL nodes that may be removed once they have stayed as they are for long enough.
    pub fn sweepable(&self) -> impl Iterator<Item = Sweepable> + '_ {
        let of = |path: &Path| self.sweepable_at(path).map(|since| Sweepable { path: path.clone(), since });
        self.index.sweepable.iter().filter_map(of)
    }

    /// Since when a node is one that may be removed so; `None` where it is not.
    #[must_use]
    pub fn sweepable_at(&self, path: &Path) -> Option<Revision> {
        self.tree.get(path).filter(|node| node.is_sweepable()).map(Znode::changed_at)
    }

    /// How long a TTL node lives without children and without a change; `None` for a node of another kind.
    #[must_use]
    pub fn ttl_ms(&self, path: &Path) -> Option<u64> {
        match self.tree.get(path)?.kind.get() {
            NodeKind::Ttl { ttl_ms } => Some(ttl_ms),
            NodeKind::Persistent | NodeKind::Ephemeral | NodeKind::Container => None,
        }
    }
}

//! The tree of nodes: the only source of truth. Every path but the root has its parent in it.

use crate::{
    lock_table::LockTable,
    record::{Contender, NodeKind, NodeRole, Znode},
    tenant_uses::{TenantUse, TenantUses},
    value::Value,
    weighed::{Weigh, Weighed},
    weight::{LOCK_BYTES, NODE_BYTES, len, node_weight},
};
use fairhold_access::TenantNumber;
use fairhold_types::{GrantNumber, LockName, Path, Revision, SessionNumber, time::WallMillis};
use std::{ops::Bound, sync::Arc};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tree {
    nodes: Weighed<Path, TreeSlot>,
    /// The node of the first contender of each grant. A command looks a grant up several times, and a number is found
    /// faster than a path.
    contenders: Weighed<GrantNumber, ContenderNode>,
    /// The locks, with their nodes.
    pub(crate) locks: LockTable,
    /// The bytes of all values together.
    value_bytes: u64,
    /// What each tenant uses: a cache.
    pub(crate) uses: TenantUses,
}

/// A node in the order of the tree.
// A record is far larger than a pointer, and half of a map's slots are empty, so records are stored outside the maps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TreeSlot {
    /// The node itself.
    Node(Arc<Znode>),
    /// A lock, which `Tree::locks` has.
    Lock,
    /// The first contender of a grant, which `Tree::contenders` has.
    Contender(GrantNumber),
}

/// The node of the first contender of a grant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContenderNode {
    path: Path,
    pub(crate) node: Arc<Znode>,
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
        let mut tree = Tree::default();
        let at = WallMillis(0);
        let first = Revision(0);
        tree.put(Path::root(), znode(NewNode::persistent(), first, at));
        tree.create(Path::root().child("locks"), NewNode::persistent(), first, at);
        tree
    }

    /// Inserts a node from a snapshot, with its stat.
    pub(crate) fn restore(&mut self, path: Path, node: Znode) {
        self.value_bytes += node.value.len() as u64;
        self.put(path, node);
    }

    /// Puts a node into the tables. Returns whether it replaced one.
    fn put(&mut self, path: Path, node: Znode) -> bool {
        self.uses.add(&path, &node);
        let slot = match &node.role {
            NodeRole::Contender(contender) if !contender.secondary => {
                let number = contender.number;
                self.contenders.insert(number, ContenderNode { path: path.clone(), node: Arc::new(node) });
                TreeSlot::Contender(number)
            }
            NodeRole::Lock(_) if let Some(lock) = path.lock_name() => {
                self.locks.insert_node(lock, node);
                TreeSlot::Lock
            }
            NodeRole::Contender(_) | NodeRole::Data | NodeRole::Lock(_) => TreeSlot::Node(Arc::new(node)),
        };
        self.nodes.insert(path, slot).is_some()
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Znode> {
        self.nodes.get(path).map(|slot| self.in_slot(path, slot))
    }

    fn in_slot<'a>(&'a self, path: &Path, slot: &'a TreeSlot) -> &'a Znode {
        let node = match slot {
            TreeSlot::Node(node) => Some(&**node),
            TreeSlot::Lock => LockName::in_path(path.as_str()).and_then(|lock| self.locks.get(lock)?.node.as_ref()),
            TreeSlot::Contender(number) => self.contenders.get(number).map(|contender| &*contender.node),
        };
        node.unwrap_or_else(|| unreachable!("the tree shows {path}, which has no node"))
    }

    /// The node of a contender in a further lock, which a clone keeps while other nodes change.
    pub(crate) fn secondary(&self, path: &Path) -> Option<&Arc<Znode>> {
        if let TreeSlot::Node(node) = self.nodes.get(path)? { Some(node) } else { None }
    }

    /// The node of the first contender of a grant.
    pub(crate) fn contender(&self, number: GrantNumber) -> Option<&Arc<Znode>> {
        self.contenders.get(&number).map(|contender| &contender.node)
    }

    /// The same, to change fields that do not count in its weight.
    pub(crate) fn contender_mut(&mut self, number: GrantNumber) -> Option<&mut Znode> {
        self.contenders.get_mut(&number).map(|contender| Arc::make_mut(&mut contender.node))
    }

    /// The grants that have contenders, from this number on.
    pub(crate) fn grant_numbers_from(&self, first: GrantNumber) -> impl Iterator<Item = GrantNumber> {
        self.contenders.range(first..).map(|(number, _)| *number)
    }

    /// How many grants have contenders.
    pub(crate) fn grants(&self) -> usize {
        self.contenders.len()
    }

    /// A node that is not the first contender of a grant, to change fields that do not count in its weight. `write`
    /// changes its value, `change_contender` its contender.
    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Znode> {
        match self.nodes.get_mut(path)? {
            TreeSlot::Node(node) => Some(Arc::make_mut(node)),
            TreeSlot::Lock => self.locks.node_mut(LockName::in_path(path)?),
            TreeSlot::Contender(_) => None,
        }
    }

    /// Replaces the value of a node that is not a lock or the first contender of a grant. Returns the node, to change
    /// fields that do not count in its weight.
    pub(crate) fn write(&mut self, path: &Path, value: Value) -> Option<&mut Znode> {
        let TreeSlot::Node(_) = self.nodes.get(path)? else { return None };
        let TreeSlot::Node(node) = self.nodes.reweigh(path, value_length, value.len() as u64)? else { return None };
        self.value_bytes = self.value_bytes - node.value.len() as u64 + value.len() as u64;
        self.uses.resize(path, node.value.len(), value.len());
        let node = Arc::make_mut(node);
        node.value = value;
        Some(node)
    }

    /// Replaces the value of the first contender of a grant.
    pub(crate) fn write_contender(&mut self, number: GrantNumber, value: Value) -> Option<&mut Znode> {
        let length = |contender: &ContenderNode| contender.node.value.len() as u64;
        let contender = self.contenders.reweigh(&number, length, value.len() as u64)?;
        self.value_bytes = self.value_bytes - length(contender) + value.len() as u64;
        self.uses.resize(&contender.path, contender.node.value.len(), value.len());
        let node = Arc::make_mut(&mut contender.node);
        node.value = value;
        Some(node)
    }

    /// Changes the first contender of a grant, including fields that count in its weight.
    pub(crate) fn change_contender<T>(&mut self, number: GrantNumber, change: impl FnOnce(&mut Contender) -> T) -> Option<T> {
        let weight = |contender: &ContenderNode| changing_weight(&contender.node);
        self.contenders.change(&number, weight, |contender| changed(&mut contender.node, change))?
    }

    /// The same for a contender in a further lock.
    pub(crate) fn change_secondary<T>(&mut self, path: &Path, change: impl FnOnce(&mut Contender) -> T) -> Option<T> {
        let weight = |slot: &TreeSlot| if let TreeSlot::Node(node) = slot { changing_weight(node) } else { 0 };
        self.nodes.change(path, weight, |slot| if let TreeSlot::Node(node) = slot { changed(node, change) } else { None })?
    }

    /// The total weight in bytes, including locks with their histories, and contenders.
    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.bytes() + self.contenders.bytes() + self.locks.bytes()
    }

    /// The same weight, recomputed by a walk over all nodes.
    pub(crate) fn recounted(&self) -> u64 {
        self.nodes.recounted() + self.contenders.recounted() + self.locks.recounted()
    }

    /// Whether the nodes show each grant once, at its path, and each lock.
    pub(crate) fn is_consistent(&self) -> bool {
        let shown = || {
            self.nodes.iter().filter_map(|(path, slot)| match slot {
                TreeSlot::Contender(number) => Some((path, number)),
                TreeSlot::Node(_) | TreeSlot::Lock => None,
            })
        };
        let at_its_path = |(path, number): (&Path, &GrantNumber)| self.contenders.get(number).is_some_and(|it| it.path == *path);
        let locks = self.nodes.values().filter(|slot| **slot == TreeSlot::Lock).count();
        let with_node = self.locks.records.values().filter(|record| record.node.is_some()).count();
        shown().count() == self.contenders.len() && shown().all(at_its_path) && locks == with_node
    }

    /// The bytes of all values together.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Znode)> {
        self.nodes.iter().map(|(path, slot)| (path, self.in_slot(path, slot)))
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
        rows.take_while(move |(path, _)| path.as_str().starts_with(&first)).map(|(path, slot)| (path, self.in_slot(path, slot)))
    }

    pub(crate) fn range(&self, range: (Bound<Path>, Bound<Path>)) -> impl Iterator<Item = (&Path, &Znode)> {
        self.nodes.range(range).map(|(path, slot)| (path, self.in_slot(path, slot)))
    }

    /// Creates a node that does not exist yet, below a parent that does. Updates the parent's `pzxid` and child
    /// counters.
    pub(crate) fn create(&mut self, path: Path, create: NewNode, revision: Revision, at: WallMillis) {
        let parent = path.parent_str().and_then(|parent| self.get_mut(parent));
        assert!(parent.is_some(), "a node was created without its parent: {path}");
        if let Some(parent) = parent {
            parent.add_child(revision);
        }
        self.insert_new(path, create, revision, at);
    }

    /// Creates the node of a contender. The caller has counted it in the node of its lock.
    pub(crate) fn insert_contender(&mut self, path: Path, contender: Box<Contender>, value: Value, revision: Revision) {
        let (owner, at) = (contender.session, contender.queued_at);
        let role = NodeRole::Contender(contender);
        self.insert_new(path, NewNode { kind: NodeKind::Ephemeral, owner, value, role }, revision, at);
    }

    fn insert_new(&mut self, path: Path, create: NewNode, revision: Revision, at: WallMillis) {
        self.value_bytes += create.value.len() as u64;
        let displaced = self.put(path, znode(create, revision, at));
        assert!(!displaced, "a node was created twice");
    }

    /// Creates the node of a lock and its missing ancestors, from the top.
    pub(crate) fn create_lock(&mut self, path: Path, revision: Revision, at: WallMillis) {
        let above = std::iter::successors(path.parent(), Path::parent);
        let missing: Vec<Path> = above.take_while(|path| !self.nodes.contains_key(path)).collect();
        for path in missing.into_iter().rev().chain([path]) {
            self.create(path, NewNode::lock(), revision, at);
        }
    }

    /// Counts the next node below the prefix of a tenant that is being counted, or ends the count of this prefix.
    pub(crate) fn count_next(&mut self, tenant: TenantNumber, base: &Path) {
        let after = self.uses.cursor(tenant).and_then(|cursor| cursor.after.as_ref());
        // The root and the folder of locks belong to nobody.
        let is_shared = base.parent().is_none() || *base == Path::locks();
        let first = self.nodes.get_key_value(base).filter(|_| after.is_none() && !is_shared);
        let next = first.map(|(path, slot)| (path, self.in_slot(path, slot))).or_else(|| {
            // `nodes:**` does not cover the nodes of locks. `0` follows `/` in byte order, so this skips all of them.
            let is_of_lock = |path: &Path| base.parent().is_none() && LockName::in_path(path.as_str()).is_some();
            let mut rows = self.below(base, after.map(Path::as_str)).filter(|(path, _)| !is_shared || **path != Path::locks());
            let next = rows.next();
            if next.is_some_and(|(path, _)| is_of_lock(path)) {
                return self.below_from(base, Bound::Included("/locks0")).next();
            }
            next
        });
        let next = next.map(|(path, node)| (path.clone(), TenantUse::of(node)));
        self.uses.advance(tenant, next);
    }

    /// Removes a node without children. Updates the parent's `pzxid` and child counter.
    pub(crate) fn remove(&mut self, path: &Path, revision: Revision) -> Option<Znode> {
        let node = match self.nodes.remove(path)? {
            TreeSlot::Node(node) => Arc::unwrap_or_clone(node),
            TreeSlot::Lock => self.locks.remove_node(&path.lock_name()?)?,
            TreeSlot::Contender(number) => unreachable!("{path} is the contender of grant #{number}"),
        };
        self.value_bytes -= node.value.len() as u64;
        self.uses.remove(path, &node);
        assert!(node.num_children == 0, "a node with children was removed: {path}");
        if let Some(parent) = path.parent_str().and_then(|parent| self.get_mut(parent)) {
            parent.remove_child(revision);
        }
        Some(node)
    }

    /// Removes the first contender of a grant, with its node. The caller subtracts it from
    /// the children of the lock's node.
    pub(crate) fn remove_contender(&mut self, number: GrantNumber) -> Option<Box<Contender>> {
        let ContenderNode { path, node } = self.contenders.remove(&number)?;
        self.nodes.remove(&path);
        self.value_bytes -= node.value.len() as u64;
        self.uses.remove(&path, &node);
        if let NodeRole::Contender(contender) = Arc::unwrap_or_clone(node).role { Some(contender) } else { None }
    }
}

impl Weigh<Path> for TreeSlot {
    /// A node below `/locks` stores the name of its lock a second time.
    fn key_weight(path: &Path) -> u64 {
        len(path.as_str()) * if path.is_under_locks() { 2 } else { 1 }
    }

    fn weight(&self) -> u64 {
        match self {
            TreeSlot::Node(node) => node_weight(node),
            TreeSlot::Lock => NODE_BYTES + LOCK_BYTES,
            // Its own table counts it.
            TreeSlot::Contender(_) => 0,
        }
    }
}

impl Weigh<GrantNumber> for ContenderNode {
    /// `TreeSlot` counts its path.
    fn weight(&self) -> u64 {
        node_weight(&self.node)
    }
}

fn value_length(slot: &TreeSlot) -> u64 {
    if let TreeSlot::Node(node) = slot { node.value.len() as u64 } else { 0 }
}

/// The part of a node's weight that changes with its contender.
fn changing_weight(node: &Znode) -> u64 {
    node.contender().map_or(0, Contender::changing_weight)
}

fn changed<T>(node: &mut Arc<Znode>, change: impl FnOnce(&mut Contender) -> T) -> Option<T> {
    Arc::make_mut(node).contender_mut().map(change)
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

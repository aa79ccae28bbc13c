//! Applies operations to the tree. ZooKeeper's rules define which stat fields change, and the order of checks and of
//! events.
//!
//! An operation checks everything that could refuse it before it changes anything.

use crate::{
    State,
    change::{Change, Effect},
    command::{Event, Lifetime, Operation, OperationResult, Outcome, Rejection, Sweepable},
    record::{NodeKind, Znode},
    tenant_uses::TenantUse,
    tree::NewNode,
    value::Value,
};
use fairhold_types::{
    Path, SessionNumber,
    limits::{NODES_CREATED_MAX, NODES_REMOVED_MAX},
    planted::{self, Bug},
};

/// The cost of creating or removing a node, in steps.
const NODE_STEPS: u64 = 2;

type OperationOutcome = Result<OperationResult, Rejection>;

impl Change<'_> {
    pub(crate) fn operate(&mut self, operation: Operation) -> OperationOutcome {
        match operation {
            Operation::Put { path, value, parents, lifetime } => self.put(path, value, parents, lifetime),
            Operation::Create { path, value, parents, lifetime } => {
                let create = self.new_node(value, lifetime)?;
                self.create(path, create, parents)
            }
            Operation::CreateSequential { parent, prefix, value, parents, lifetime } => {
                let create = self.new_node(value, lifetime)?;
                refuse_locks(&parent)?;
                let sequence = self.state.node(&parent).map_or(0, |node| node.creates);
                self.create(sequential(&parent, &prefix, sequence)?, create, parents)
            }
            Operation::Set { path, value, version } => {
                refuse_locks(&path)?;
                self.state.require_node(&path, version)?;
                Ok(OperationResult::Set { version: self.set(path, value)? })
            }
            Operation::Delete { path, version, recursive } => self.delete(&path, version, recursive),
            Operation::Check { path, version } => {
                Ok(OperationResult::Checked { version: self.state.require_node(&path, version)?.version })
            }
        }
    }

    /// Removes the nodes that are unchanged since the leader's verdict.
    pub(crate) fn sweep(&mut self, nodes: &[Sweepable]) -> Effect {
        self.add_uncounted_steps(NODE_STEPS * nodes.len() as u64);
        for swept in nodes {
            if self.state.sweepable_at(&swept.path) == Some(swept.since) {
                self.remove_node(&swept.path);
            }
        }
        if self.events.is_empty() { Effect::Unchanged(Outcome::Nothing) } else { Effect::Changed(Outcome::Done) }
    }

    /// Removes ephemeral nodes of an ending session in path order, as many as one command may. Returns whether none is
    /// left.
    pub(crate) fn remove_ephemerals(&mut self, session: SessionNumber) -> bool {
        if ephemerals_stay() {
            return true;
        }
        while let Some(path) = self.state.index.ephemerals.get(&session).and_then(|owned| owned.get_min()).cloned() {
            if !self.has_steps_left_to_end() {
                return false;
            }
            self.count_steps(NODE_STEPS);
            self.remove_node(&path);
        }
        true
    }

    fn put(&mut self, path: Path, value: Value, parents: bool, lifetime: Lifetime) -> OperationOutcome {
        let create = self.new_node(value, lifetime)?;
        let Some(node) = self.state.node(&path) else {
            self.create(path, create, parents)?;
            return Ok(OperationResult::Put { created: true, version: 0 });
        };
        refuse_locks(&path)?;
        let same = lifetime == Lifetime::Persistent || (node.kind.get(), node.ephemeral_owner) == (create.kind, create.owner);
        if !same {
            return Err(Rejection::OtherKind { kind: kind_in_words(node), path });
        }
        Ok(OperationResult::Put { created: false, version: self.set(path, create.value)? })
    }

    fn new_node(&self, value: Value, lifetime: Lifetime) -> Result<NewNode, Rejection> {
        let (kind, owner) = match lifetime {
            Lifetime::Persistent => (NodeKind::Persistent, SessionNumber(0)),
            Lifetime::Ephemeral { session } => {
                (NodeKind::Ephemeral, *self.state.index.session_ids.get(&session).ok_or(Rejection::NoSession)?)
            }
            Lifetime::Container => (NodeKind::Container, SessionNumber(0)),
            Lifetime::Ttl { ttl_ms } => (NodeKind::Ttl { ttl_ms }, SessionNumber(0)),
        };
        Ok(NewNode::data(kind, owner, value))
    }

    /// Checks in ZooKeeper's order: the path, the parent, the node itself, and only then whether the parent may have
    /// children.
    fn create(&mut self, path: Path, create: NewNode, parents: bool) -> OperationOutcome {
        refuse_locks(&path)?;
        let missing = self.state.missing_above(&path);
        if let (Some(path), false) = (missing.last(), parents) {
            return Err(Rejection::NoNode { path: path.clone() });
        }
        if self.state.node(&path).is_some() {
            return Err(Rejection::NodeExists { path });
        }
        let is_ephemeral = |path: &Path| self.state.node(path).is_some_and(|node| node.kind == NodeKind::Ephemeral);
        let existing_parent = missing.first().unwrap_or(&path).parent();
        if let Some(path) = existing_parent.filter(is_ephemeral) {
            return Err(Rejection::EphemeralParent { path });
        }
        if self.created + missing.len() >= NODES_CREATED_MAX {
            return Err(Rejection::TooManyCreated { max: NODES_CREATED_MAX as u64 });
        }
        let parents = missing.iter().map(|path| (path, TenantUse::node(0)));
        self.state.require_quota(parents.chain([(&path, TenantUse::node(create.value.len()))]))?;
        for path in missing {
            self.create_node(path, NewNode::persistent());
        }
        self.create_node(path.clone(), create);
        Ok(OperationResult::Created { path })
    }

    fn set(&mut self, path: Path, value: Value) -> Result<i32, Rejection> {
        self.state.require_quota_of_value(&path, value.len(), |state| Some(state.tree.get(&path)?.value.len()))?;
        let revision = self.revision;
        let at = self.at;
        let Some(node) = self.state.tree.write(&path, value) else {
            unreachable!("{path} was found before it was written");
        };
        node.version = node.version.wrapping_add(1);
        node.mzxid = revision;
        node.mtime = at;
        let version = node.version;
        self.events.push(Event::NodeChanged { path, version });
        Ok(version)
    }

    fn delete(&mut self, path: &Path, version: Option<i32>, recursive: bool) -> OperationOutcome {
        refuse_locks(path)?;
        if path.parent().is_none() {
            return Err(Rejection::ReadOnly { path: path.clone() });
        }
        let children = self.state.require_node(path, version)?.num_children;
        if children > 0 && !recursive {
            return Err(Rejection::NotEmpty { path: path.clone(), children });
        }
        let mut removed_paths: Vec<Path> = vec![path.clone()];
        if recursive {
            let room = NODES_REMOVED_MAX - self.removed;
            removed_paths.extend(self.state.tree.below(path, None).map(|(path, _)| path.clone()).take(room));
            if removed_paths.len() > room {
                return Err(Rejection::TooManyNodes { max: NODES_REMOVED_MAX as u64 });
            }
            self.removed += removed_paths.len();
        }
        self.add_uncounted_steps(NODE_STEPS * removed_paths.len() as u64);
        // Children first.
        for path in removed_paths.iter().rev() {
            self.remove_node(path);
        }
        Ok(OperationResult::Deleted { count: u32::try_from(removed_paths.len()).unwrap_or(u32::MAX) })
    }

    /// Creates a node below an existing one, and emits events for both. It replaces an orphan of an ended session.
    fn create_node(&mut self, path: Path, create: NewNode) {
        if self.state.tree.get(&path).is_some() {
            self.remove_node(&path);
        }
        self.created += 1;
        self.add_uncounted_steps(NODE_STEPS);
        self.state.tree.create(path.clone(), create, self.revision, self.at);
        if let Some(node) = self.state.tree.get(&path) {
            self.state.index.update_node(&path, node);
        }
        self.events.push(Event::NodeCreated { path: path.clone() });
        self.emit_children_changed(&path);
    }

    /// Removes a node without children, and emits events for it and its parent.
    fn remove_node(&mut self, path: &Path) {
        let Some(node) = self.state.tree.remove(path, self.revision) else {
            unreachable!("{path} was found before it was removed");
        };
        self.state.index.remove_node(path, &node);
        self.events.push(Event::NodeDeleted { path: path.clone(), version: node.version });
        self.emit_children_changed(path);
    }

    fn emit_children_changed(&mut self, path: &Path) {
        let Some(parent) = path.parent() else { return };
        if let Some(node) = self.state.tree.get(&parent) {
            self.state.index.update_node(&parent, node);
            self.events.push(Event::ChildrenChanged { cversion: node.cversion(), path: parent });
        }
    }
}

impl State {
    /// A node, checked first for existence and then, if `version` is given, for its version.
    fn require_node(&self, path: &Path, version: Option<i32>) -> Result<&Znode, Rejection> {
        let node = self.node(path).ok_or_else(|| Rejection::NoNode { path: path.clone() })?;
        match version {
            Some(version) if version != node.version => Err(Rejection::VersionMismatch { current: Some(node.version) }),
            Some(_) | None => Ok(node),
        }
    }

    /// The missing ancestors of a path, from the top.
    fn missing_above(&self, path: &Path) -> Vec<Path> {
        let above = std::iter::successors(path.parent(), Path::parent);
        let mut missing: Vec<Path> = above.take_while(|path| self.node(path).is_none()).collect();
        missing.reverse();
        missing
    }
}

/// Only the lock calls write nodes under `/locks`.
fn refuse_locks(path: &Path) -> Result<(), Rejection> {
    if path.is_under_locks() { Err(Rejection::ReadOnly { path: path.clone() }) } else { Ok(()) }
}

/// The path of a sequential node. The counter is printed as a signed number of at least ten characters: -2147483648
/// follows 2147483647.
fn sequential(parent: &Path, prefix: &str, sequence: u32) -> Result<Path, Rejection> {
    let text = format!("{}{prefix}{:010}", parent.prefix_below(), sequence.cast_signed());
    Path::parse(&text).map_err(|_| Rejection::NoRoomForName { parent: parent.clone() })
}

fn kind_in_words(node: &Znode) -> String {
    match node.kind.get() {
        NodeKind::Persistent => "persistent".to_owned(),
        NodeKind::Ephemeral => format!("ephemeral, of session {}", node.ephemeral_owner),
        NodeKind::Container => "a container".to_owned(),
        NodeKind::Ttl { ttl_ms } => format!("a TTL node of {ttl_ms}ms"),
    }
}

/// Always false, except with the planted bug.
fn ephemerals_stay() -> bool {
    planted::has(Bug::EphemeralsStay)
}

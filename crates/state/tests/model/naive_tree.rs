//! A second implementation of the tree: a list of nodes that is searched from end to end; nothing is derived,
//! everything is counted.

use fairhold_state::command::{Event, Lifetime, Operation, OperationResult, Rejection, Sweepable};
use fairhold_types::{Path, Revision, limits::NODES_REMOVED_MAX};

/// Mistakes that concern the tree alone.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TreeMistakes {
    pub(crate) removal_leaves_pzxid: bool,
    pub(crate) sequence_is_the_number_of_children: bool,
    pub(crate) sweep_takes_what_changed: bool,
    pub(crate) parent_first: bool,
}

/// A node of the model: its content and its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) path: Path,
    pub(crate) czxid: u64,
    pub(crate) mzxid: u64,
    pub(crate) pzxid: u64,
    pub(crate) ctime: u64,
    pub(crate) mtime: u64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) creates: u64,
    pub(crate) owner: u64,
    /// `persistent`, `ephemeral`, `container`, or a TTL in milliseconds.
    pub(crate) kind: String,
    pub(crate) value: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct NaiveTree {
    pub(crate) nodes: Vec<Plain>,
    pub(crate) events: Vec<Event>,
    pub(crate) mistakes: TreeMistakes,
    removed: usize,
}

impl Default for NaiveTree {
    fn default() -> NaiveTree {
        let mut tree = NaiveTree { nodes: Vec::new(), events: Vec::new(), mistakes: TreeMistakes::default(), removed: 0 };
        let root = Path::root();
        tree.nodes.push(Plain { cversion: 1, creates: 1, ..plain(&root, 0, 0, "persistent", 0, b"") });
        tree.nodes.push(plain(&root.child("locks"), 0, 0, "persistent", 0, b""));
        tree
    }
}

fn plain(path: &Path, now: u64, at: u64, kind: &str, owner: u64, value: &[u8]) -> Plain {
    Plain {
        path: path.clone(),
        czxid: now,
        mzxid: now,
        pzxid: now,
        ctime: at,
        mtime: at,
        version: 0,
        cversion: 0,
        creates: 0,
        owner,
        kind: kind.to_owned(),
        value: value.to_vec(),
    }
}

fn read_only<T>(path: &Path) -> Result<T, Rejection> {
    Err(Rejection::ReadOnly { path: path.clone() })
}

/// The context of a change: the revision, the wall clock, and the number of the session that a lifetime names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) revision: u64,
    pub(crate) at: u64,
    pub(crate) session: Option<u64>,
}

impl NaiveTree {
    pub(crate) fn begin(&mut self) {
        self.events.clear();
        self.removed = 0;
    }

    pub(crate) fn find(&self, path: &Path) -> Option<&Plain> {
        self.nodes.iter().find(|node| node.path == *path)
    }

    fn find_mut(&mut self, path: &Path) -> &mut Plain {
        self.nodes.iter_mut().find(|node| node.path == *path).expect("it was found before")
    }

    pub(crate) fn children(&self, path: &Path) -> Vec<&Plain> {
        self.nodes.iter().filter(|node| node.path.parent().as_ref() == Some(path)).collect()
    }

    fn require(&self, path: &Path, version: Option<i32>) -> Result<&Plain, Rejection> {
        let node = self.find(path).ok_or_else(|| Rejection::NoNode { path: path.clone() })?;
        if version.is_some_and(|version| version != node.version) {
            return Err(Rejection::VersionMismatch { current: Some(node.version) });
        }
        Ok(node)
    }

    pub(crate) fn operate(&mut self, operation: &Operation, now: Now) -> Result<OperationResult, Rejection> {
        match operation {
            Operation::Put { path, value, parents, lifetime } => {
                let (kind, owner) = kind(*lifetime, now)?;
                let Some(node) = self.find(path) else {
                    self.create(path, value, *parents, &kind, owner, now)?;
                    return Ok(OperationResult::Put { created: true, version: 0 });
                };
                if path.is_under_locks() {
                    return read_only(path);
                }
                let any = *lifetime == Lifetime::Persistent;
                if !any && (node.kind != kind || node.owner != owner) {
                    return Err(Rejection::OtherKind { path: path.clone(), kind: in_words(node) });
                }
                Ok(OperationResult::Put { created: false, version: self.set(path, value, now) })
            }
            Operation::Create { path, value, parents, lifetime } => {
                let (kind, owner) = kind(*lifetime, now)?;
                self.create(path, value, *parents, &kind, owner, now)
            }
            Operation::CreateSequential { parent, prefix, value, parents, lifetime } => {
                let (kind, owner) = kind(*lifetime, now)?;
                if parent.is_under_locks() {
                    return read_only(parent);
                }
                let reused = self.mistakes.sequence_is_the_number_of_children;
                let count =
                    if reused { self.children(parent).len() as u64 } else { self.find(parent).map_or(0, |node| node.creates) };
                self.create(&parent.child(&format!("{prefix}{count:010}")), value, *parents, &kind, owner, now)
            }
            Operation::Set { path, value, version } => {
                if path.is_under_locks() {
                    return read_only(path);
                }
                self.require(path, *version)?;
                Ok(OperationResult::Set { version: self.set(path, value, now) })
            }
            Operation::Delete { path, version, recursive } => self.delete(path, *version, *recursive, now),
            Operation::Check { path, version } => Ok(OperationResult::Checked { version: self.require(path, *version)?.version }),
        }
    }

    fn set(&mut self, path: &Path, value: &[u8], now: Now) -> i32 {
        let node = self.find_mut(path);
        node.version += 1;
        (node.mzxid, node.mtime, node.value) = (now.revision, now.at, value.to_vec());
        let version = node.version;
        self.events.push(Event::NodeChanged { path: path.clone(), version });
        version
    }

    fn create(
        &mut self,
        path: &Path,
        value: &[u8],
        parents: bool,
        kind: &str,
        owner: u64,
        now: Now,
    ) -> Result<OperationResult, Rejection> {
        if path.is_under_locks() {
            return read_only(path);
        }
        let above: Vec<Path> = std::iter::successors(path.parent(), Path::parent).collect();
        if let Some(parent) = above.first().filter(|parent| !parents && self.find(parent).is_none()) {
            return Err(Rejection::NoNode { path: parent.clone() });
        }
        if self.find(path).is_some() {
            return Err(Rejection::NodeExists { path: path.clone() });
        }
        let ground = above.iter().find_map(|path| self.find(path)).expect("the root exists");
        if ground.kind == "ephemeral" {
            return Err(Rejection::EphemeralParent { path: ground.path.clone() });
        }
        for path in above.iter().rev() {
            if self.find(path).is_none() {
                self.add(plain(path, now.revision, now.at, "persistent", 0, b""), now);
            }
        }
        self.add(plain(path, now.revision, now.at, kind, owner, value), now);
        Ok(OperationResult::Created { path: path.clone() })
    }

    fn add(&mut self, node: Plain, now: Now) {
        let path = node.path.clone();
        self.nodes.push(node);
        self.find_mut(&path.parent().expect("it is not the root")).creates += 1;
        self.child_changed(&path, Event::NodeCreated { path: path.clone() }, now.revision);
    }

    fn child_changed(&mut self, path: &Path, event: Event, revision: u64) {
        let leaves = self.mistakes.removal_leaves_pzxid && matches!(event, Event::NodeDeleted { .. });
        let parent = self.find_mut(&path.parent().expect("it is not the root"));
        parent.cversion += 1;
        if !leaves {
            parent.pzxid = revision;
        }
        let parent_event = Event::ChildrenChanged { path: parent.path.clone(), cversion: parent.cversion };
        self.events.extend(if self.mistakes.parent_first { [parent_event, event] } else { [event, parent_event] });
    }

    fn delete(&mut self, path: &Path, version: Option<i32>, recursive: bool, now: Now) -> Result<OperationResult, Rejection> {
        if path.is_under_locks() || path.as_str() == "/" {
            return read_only(path);
        }
        self.require(path, version)?;
        let children = u32::try_from(self.children(path).len()).expect("few");
        if children > 0 && !recursive {
            return Err(Rejection::NotEmpty { path: path.clone(), children });
        }
        let mut doomed: Vec<Path> = self.nodes.iter().map(|node| node.path.clone()).collect();
        doomed.retain(|other| other == path || other.as_str().starts_with(&format!("{path}/")));
        if recursive {
            self.removed += doomed.len();
            if self.removed > NODES_REMOVED_MAX {
                return Err(Rejection::TooManyNodes { max: NODES_REMOVED_MAX as u64 });
            }
        }
        // In descending order of their bytes.
        doomed.sort_by(|a, b| b.cmp(a));
        for path in &doomed {
            self.remove(path, now.revision);
        }
        Ok(OperationResult::Deleted { count: u32::try_from(doomed.len()).expect("few") })
    }

    fn remove(&mut self, path: &Path, revision: u64) {
        let version = self.find(path).expect("it was found before").version;
        self.nodes.retain(|node| node.path != *path);
        self.child_changed(path, Event::NodeDeleted { path: path.clone(), version }, revision);
    }

    /// Removes everything that a session owns.
    pub(crate) fn end_session(&mut self, session: u64, revision: u64) {
        let mut owned: Vec<Path> = self.nodes.iter().filter(|node| node.owner == session).map(|node| node.path.clone()).collect();
        owned.sort();
        owned.iter().for_each(|path| self.remove(path, revision));
    }

    pub(crate) fn sweep(&mut self, swept: &[Sweepable], revision: u64) {
        for Sweepable { path, since } in swept {
            let Some(node) = self.find(path) else { continue };
            let may_go = match node.kind.as_str() {
                "persistent" | "ephemeral" => false,
                "container" => node.creates > 0,
                _ => true,
            };
            let same = Revision(node.mzxid.max(node.pzxid)) == *since || self.mistakes.sweep_takes_what_changed;
            if may_go && same && self.children(path).is_empty() {
                self.remove(path, revision);
            }
        }
    }
}

fn kind(lifetime: Lifetime, now: Now) -> Result<(String, u64), Rejection> {
    Ok(match lifetime {
        Lifetime::Persistent => ("persistent".to_owned(), 0),
        Lifetime::Ephemeral { .. } => ("ephemeral".to_owned(), now.session.ok_or(Rejection::NoSession)?),
        Lifetime::Container => ("container".to_owned(), 0),
        Lifetime::Ttl { ttl_ms } => (ttl_ms.to_string(), 0),
    })
}

fn in_words(node: &Plain) -> String {
    match node.kind.as_str() {
        "persistent" => "persistent".to_owned(),
        "ephemeral" => format!("ephemeral, of session {}", node.owner),
        "container" => "a container".to_owned(),
        millis => format!("a TTL node of {millis}ms"),
    }
}

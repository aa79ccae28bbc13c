//! Writes to the tree: conditions first, then operations, all or nothing, one revision.

use crate::{
    State,
    apply::{Change, Effect},
    command::{Condition, Event, Operation, OperationResult, Outcome, Rejection, Transact, WriteKey},
    memory::Remembered,
    session::other_request,
    tree::Create,
};
use fairhold_types::Path;
use std::sync::Arc;

impl Change<'_> {
    pub(crate) fn transact(&mut self, transact: Transact) -> Result<Effect, Rejection> {
        if let Some(key) = transact.key {
            if let Some(outcome) = self.written_before(key)? {
                return Ok(Effect::Unchanged(outcome));
            }
            self.require_memory()?;
        }
        let failed = transact.conditions.iter().find_map(|condition| self.state.verify(condition).err());
        let (succeeded, operations) = match (failed, transact.otherwise) {
            (None, _) => (true, transact.then),
            (Some(_), Some(otherwise)) => (false, otherwise),
            (Some(rejection), None) => return Err(rejection),
        };
        // Operations see the changes of those before them, so they are tried on a copy, which is kept only if all succeed.
        let before = self.state.clone();
        let results = operations.into_iter().map(|operation| self.operate(operation)).collect::<Result<Vec<_>, _>>();
        let results = match results {
            Ok(results) => results,
            Err(rejection) => {
                *self.state = before;
                self.events.clear();
                return Err(rejection);
            }
        };
        if let Some(WriteKey { key, fingerprint }) = transact.key {
            let remembered = Remembered::Write { fingerprint, succeeded, results: results.clone() };
            self.state.memory.remember(key, self.revision, remembered);
        } else if results.is_empty() {
            return Ok(Effect::Unchanged(Outcome::Written { succeeded, results }));
        }
        Ok(Effect::Changed(Outcome::Written { succeeded, results }))
    }

    pub(crate) fn written_before(&self, key: WriteKey) -> Result<Option<Outcome>, Rejection> {
        let index = &self.state.index;
        if index.grants.contains_key(&key.key) || index.session_keys.contains_key(&key.key) {
            return Err(other_request());
        }
        match self.state.memory.get(&key.key) {
            None if self.state.memory.in_session.contains_key(&key.key) => Err(other_request()),
            None => Ok(None),
            Some(Remembered::Write { fingerprint, succeeded, results }) if *fingerprint == key.fingerprint => {
                Ok(Some(Outcome::Written { succeeded: *succeeded, results: results.clone() }))
            }
            Some(Remembered::Write { .. } | Remembered::Grant(_) | Remembered::Broken { .. } | Remembered::Session) => {
                Err(other_request())
            }
        }
    }

    fn operate(&mut self, operation: Operation) -> Result<OperationResult, Rejection> {
        match operation {
            Operation::Put { path, value, parents } => self.put(path, value, parents),
        }
    }

    fn put(&mut self, path: Path, value: Vec<u8>, parents: bool) -> Result<OperationResult, Rejection> {
        let Some(parent) = path.parent().filter(|_| !path.is_under_locks()) else {
            return Err(Rejection::ReadOnly { path });
        };
        let (revision, at) = (self.revision, self.at);
        if let Some(node) = self.state.tree.get_to_write(&path, value.len()) {
            node.value = Arc::from(value);
            node.version = node.version.wrapping_add(1);
            node.mzxid = revision;
            node.mtime = at;
            let version = node.version;
            self.events.push(Event::NodeChanged { path, version });
            return Ok(OperationResult::Put { created: false, version });
        }
        if self.state.tree.get(&parent).is_none() {
            if !parents {
                return Err(Rejection::NoNode { path: parent });
            }
            for path in self.state.tree.create_parents(&path, || Create::persistent(Vec::new()), revision, at) {
                self.tell_created(path);
            }
        }
        self.state.tree.create(path.clone(), Create::persistent(value), revision, at);
        self.tell_created(path);
        Ok(OperationResult::Put { created: true, version: 0 })
    }

    /// The node's own event, then its parent's, as ZooKeeper fires its watches.
    fn tell_created(&mut self, path: Path) {
        let parent = path.parent();
        self.events.push(Event::NodeCreated { path });
        if let Some((path, node)) = parent.and_then(|path| self.state.tree.get(&path).map(|node| (path.clone(), node))) {
            self.events.push(Event::ChildrenChanged { cversion: node.cversion(), path });
        }
    }
}

impl State {
    fn verify(&self, condition: &Condition) -> Result<(), Rejection> {
        match condition {
            Condition::Fence { lock, token, grant } => self.verify_fence(lock, *token, grant.as_ref()),
            Condition::Version { path, version } => {
                let current = self.tree.get(path).map(|node| node.version);
                if current == *version { Ok(()) } else { Err(Rejection::VersionMismatch { current }) }
            }
        }
    }
}

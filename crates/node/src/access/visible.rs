//! What a caller may see in a list.

use crate::feed::change::{Change, Subject};
use fairhold_access::{Need, Pattern, Rights, Verb};
use fairhold_types::{LockName, Path};
use std::sync::Arc;

/// What a list may show to its caller.
#[derive(Debug, Clone)]
pub(crate) enum Visible {
    /// Everything: rights are not enforced, or the handle is the node's own.
    Everything,
    /// What these rights cover.
    Covered(Arc<Rights>),
}

impl Visible {
    /// Whether it shows the lock.
    pub(crate) fn has_lock(&self, lock: &LockName) -> bool {
        self.allows(|| Need::on_lock(Verb::Inspect, lock))
    }

    /// Whether it may show any lock.
    pub(crate) fn has_some_locks(&self) -> bool {
        match self {
            Visible::Everything => true,
            Visible::Covered(rights) => rights.has(Verb::Inspect),
        }
    }

    /// Whether it shows the node.
    pub(crate) fn has_node(&self, path: &Path) -> bool {
        self.allows(|| Need::read(path))
    }

    /// Whether it shows a change: whether its caller may watch the subject.
    pub(crate) fn has_change(&self, change: &Change) -> bool {
        match change.subject() {
            Subject::Node(path) => self.has_node(path),
            Subject::Lock(lock) | Subject::Grant(lock, _) | Subject::Leader(lock) => self.has_lock(lock),
            Subject::Session(_) | Subject::Cluster => self.has_status(),
        }
    }

    /// Whether it may show any change.
    pub(crate) fn has_some_changes(&self) -> bool {
        match self {
            Visible::Everything => true,
            Visible::Covered(rights) => [Verb::Read, Verb::Inspect, Verb::Status].into_iter().any(|verb| rights.has(verb)),
        }
    }

    /// Whether it shows all changes.
    pub(crate) fn has_all_changes(&self) -> bool {
        self.has_status() && self.has_all_locks() && self.has_all_nodes()
    }

    fn has_status(&self) -> bool {
        self.allows(|| Need::unnamed(Verb::Status))
    }

    /// Whether it shows all locks.
    pub(crate) fn has_all_locks(&self) -> bool {
        self.allows(|| Need::on_every(Verb::Inspect, Pattern::everything()))
    }

    /// Whether it shows all nodes, except those of locks.
    pub(crate) fn has_all_nodes(&self) -> bool {
        self.allows(|| Need::on_every(Verb::Read, Pattern::everything()))
    }

    fn allows<'n>(&self, need: impl FnOnce() -> Need<'n>) -> bool {
        match self {
            Visible::Everything => true,
            Visible::Covered(rights) => rights.decide(&need()).is_ok(),
        }
    }
}

//! Verbs: what a rule allows, and on what kind of thing.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a verb acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// Locks and elections, by name. `locks:orders/42` is the node `/locks/orders/42`.
    Locks,
    /// Nodes of the tree, by path without the first `/`.
    Nodes,
    /// Sessions of others.
    Sessions,
    /// The cluster itself.
    Cluster,
}

impl ResourceKind {
    /// Every kind.
    pub const ALL: [ResourceKind; 4] = [ResourceKind::Locks, ResourceKind::Nodes, ResourceKind::Sessions, ResourceKind::Cluster];

    /// Its name, as in rules.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ResourceKind::Locks => "locks",
            ResourceKind::Nodes => "nodes",
            ResourceKind::Sessions => "sessions",
            ResourceKind::Cluster => "cluster",
        }
    }

    /// Whether its things have names, so that a rule needs a pattern.
    #[must_use]
    pub fn has_names(self) -> bool {
        matches!(self, ResourceKind::Locks | ResourceKind::Nodes)
    }
}

/// What a rule allows. The audit encodes verbs by position: add at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Verb {
    /// To take a lock in any mode, to upgrade it, to stand in an election and to proclaim its value.
    Acquire,
    /// To take a lock in shared mode.
    Share,
    /// To see a lock: its holders, its queue, its history, in lists and watches, and its nodes in the tree.
    Inspect,
    /// To check a fencing token.
    Fence,
    /// To ask the holders of a lock to release it.
    Revoke,
    /// To take a lock from its holders.
    Break,
    /// To change the settings of a lock.
    Set,
    /// To read nodes.
    Read,
    /// To create, change and remove nodes.
    Write,
    /// To end sessions of others.
    End,
    /// To see the state of the cluster and its members.
    Status,
    /// To change the leader, members, join tokens, settings and the version, and to take snapshots.
    Operate,
    /// To read everything at once.
    Backup,
    /// To read the audit log.
    Audit,
    /// To change the access data.
    Admin,
}

impl Verb {
    /// Every verb, in the order in which a rule prints them.
    pub const ALL: [Verb; 15] = [
        Verb::Acquire,
        Verb::Share,
        Verb::Inspect,
        Verb::Fence,
        Verb::Revoke,
        Verb::Break,
        Verb::Set,
        Verb::Read,
        Verb::Write,
        Verb::End,
        Verb::Status,
        Verb::Operate,
        Verb::Backup,
        Verb::Audit,
        Verb::Admin,
    ];

    /// Its name, as in rules.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Acquire => "acquire",
            Verb::Share => "share",
            Verb::Inspect => "inspect",
            Verb::Fence => "fence",
            Verb::Revoke => "revoke",
            Verb::Break => "break",
            Verb::Set => "set",
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::End => "end",
            Verb::Status => "status",
            Verb::Operate => "operate",
            Verb::Backup => "backup",
            Verb::Audit => "audit",
            Verb::Admin => "admin",
        }
    }

    /// The verb with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.as_str() == name)
    }

    /// What it acts on.
    #[must_use]
    pub fn resource(self) -> ResourceKind {
        match self {
            Verb::Acquire | Verb::Share | Verb::Inspect | Verb::Fence | Verb::Revoke | Verb::Break | Verb::Set => {
                ResourceKind::Locks
            }
            Verb::Read | Verb::Write => ResourceKind::Nodes,
            Verb::End => ResourceKind::Sessions,
            Verb::Status | Verb::Operate | Verb::Backup | Verb::Audit | Verb::Admin => ResourceKind::Cluster,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Several verbs.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerbSet(u16);

impl VerbSet {
    /// These verbs.
    #[must_use]
    pub fn of(verbs: &[Verb]) -> VerbSet {
        verbs.iter().fold(VerbSet::default(), |set, verb| set.with(*verb))
    }

    /// The set with one more verb.
    #[must_use]
    pub fn with(self, verb: Verb) -> VerbSet {
        VerbSet(self.0 | 1 << verb as u8)
    }

    /// Whether it has the verb itself.
    #[must_use]
    pub fn has(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u8) != 0
    }

    /// Whether it allows the verb: `acquire` includes `share`.
    #[must_use]
    pub fn allows(self, verb: Verb) -> bool {
        self.has(verb) || (verb == Verb::Share && self.has(Verb::Acquire))
    }

    /// Its verbs, in the order of `Verb::ALL`.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.has(*verb))
    }
}

impl fmt::Debug for VerbSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_verb_once_in_order() {
        for (index, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(verb as usize, index);
            assert_eq!(Verb::named(verb.as_str()), Some(verb));
        }
        assert_eq!(Verb::named("Acquire"), None);
    }

    #[test]
    fn acquire_includes_share_and_nothing_else() {
        let included: Vec<Verb> = Verb::ALL.into_iter().filter(|verb| VerbSet::of(&[Verb::Acquire]).allows(*verb)).collect();
        assert_eq!(included, [Verb::Acquire, Verb::Share]);
        assert!(!VerbSet::of(&[Verb::Share]).allows(Verb::Acquire));
    }
}

//! What a caller may see in a list.

use crate::feed::change::{Change, Subject};
use fairhold_access::{Need, Pattern, Rights, Verb};
use fairhold_types::{LockName, Path};
use std::{collections::BTreeSet, sync::Arc};

/// What a list may show to its caller.
#[derive(Debug, Clone)]
pub(crate) enum Visible {
    /// Everything: rights are not enforced, or the handle is the node's own.
    Everything,
    /// What these rights cover.
    Covered(Arc<Rights>),
}

/// The locks that a caller may see. Equal values show the same locks, whoever the callers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeenLocks {
    /// All of them.
    All,
    /// Those whose names match one of these patterns.
    Matching(BTreeSet<Pattern>),
}

impl Visible {
    /// The locks that it shows.
    pub(crate) fn seen_locks(&self) -> SeenLocks {
        match self {
            Visible::Covered(rights) if !self.has_all_locks() => SeenLocks::Matching(rights.lock_patterns(Verb::Inspect)),
            Visible::Covered(_) | Visible::Everything => SeenLocks::All,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_access::{Attributes, Principal, RoleName, Rule};

    /// What a user with one role sees.
    fn seen_by(user: &str, role: &str, rules: &[&str]) -> SeenLocks {
        let (principal, role) = (Principal::parse(user).unwrap(), RoleName::parse(role).unwrap());
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let attributes = Attributes::of(&principal, []);
        let rights = Rights::compile(&principal, &attributes, |_| vec![role.clone()], |_| Some(rules.as_slice()));
        Visible::Covered(Arc::new(rights)).seen_locks()
    }

    #[test]
    fn callers_see_the_same_locks_if_they_may_inspect_the_same_patterns() {
        let deploy = seen_by("user:one", "watchers", &["inspect locks:deploy/**", "inspect locks:stock/*"]);
        let same = ["status cluster", "acquire,inspect locks:stock/*", "inspect locks:deploy/**", "acquire locks:other"];
        assert_eq!(deploy, seen_by("user:two", "guests", &same));
        for rules in [
            &["inspect locks:deploy/**"][..],
            &["inspect locks:deploy/*", "inspect locks:stock/*"],
            &["inspect locks:deploy/**", "inspect locks:stock/*", "inspect locks:other"],
            &["inspect locks:deploy/**", "acquire locks:stock/*"],
            &["inspect locks:**"],
            &[],
        ] {
            assert_ne!(deploy, seen_by("user:one", "watchers", rules), "{rules:?}");
        }
        let own = |user: &str| seen_by(user, "watchers", &["inspect locks:app/{user}/**"]);
        assert_ne!(own("user:one"), own("user:two"), "the patterns have the values of the attributes");
        assert_eq!(own("user:one"), seen_by("user:two", "guests", &["inspect locks:app/one/**"]));
    }

    #[test]
    fn a_caller_that_may_see_all_locks_sees_as_much_as_the_node() {
        let all = Visible::Everything.seen_locks();
        assert_eq!(seen_by("user:one", "watchers", &["inspect locks:deploy/**", "inspect locks:**"]), all);
        assert_eq!(seen_by("user:two", "guests", &["inspect locks:**"]), all);
        assert_eq!(seen_by("user:two", "guests", &["acquire locks:**"]), SeenLocks::Matching(BTreeSet::new()));
    }
}

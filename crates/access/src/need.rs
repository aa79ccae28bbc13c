//! What a request needs: a verb on a name, or on everything that a pattern covers.

use crate::{
    pattern::Pattern,
    verb::{ResourceKind, Verb},
};
use fairhold_types::{LockName, Path, is_contender_name};
use std::{borrow::Cow, fmt};

/// What a verb is needed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names<'a> {
    /// One name: of a lock, or the path of a node without the first `/`.
    One(Cow<'a, str>),
    /// Every name that the pattern covers, as for a watch.
    Every(Pattern),
    /// The verb acts on sessions or on the cluster, which have no names.
    Unnamed,
}

/// A right that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need<'a> {
    verb: Verb,
    priority: i32,
    names: Names<'a>,
}

impl<'a> Need<'a> {
    /// A verb of locks, on one lock.
    #[must_use]
    pub fn on_lock(verb: Verb, lock: &'a LockName) -> Need<'a> {
        Need { verb, priority: 0, names: Names::One(lock.as_str().into()) }
    }

    /// An acquire of one lock with a priority above that of others.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Need<'a> {
        Need { priority: priority.max(0), ..self }
    }

    /// A read of one node. The nodes of locks need `inspect` on the lock.
    #[must_use]
    pub fn read(path: &'a Path) -> Need<'a> {
        let (verb, name) = place_of(path, Verb::Read);
        Need { verb, priority: 0, names: Names::One(name.into()) }
    }

    /// A read of a node and everything below it. If that includes the nodes of locks, the request needs `inspect` on all
    /// locks too.
    #[must_use]
    pub fn read_below(path: &Path) -> Vec<Need<'static>> {
        let (verb, name) = place_of(path, Verb::Read);
        let mut needs = vec![Need::on_every(verb, Pattern::from_name(name))];
        if name.is_empty() && verb == Verb::Read {
            needs.push(Need::on_every(Verb::Inspect, Pattern::everything()));
        }
        needs
    }

    /// A change of one node. No such change is allowed below the folder of locks, whatever the rights are.
    #[must_use]
    pub fn write(path: &'a Path) -> Need<'a> {
        Need { verb: Verb::Write, priority: 0, names: Names::One(name_of(path).into()) }
    }

    /// A change of one node and everything below it.
    #[must_use]
    pub fn write_below(path: &Path) -> Need<'static> {
        Need::on_every(Verb::Write, Pattern::from_name(name_of(path)))
    }

    /// The creation of a child whose name is not known yet.
    #[must_use]
    pub fn write_child(parent: &Path) -> Need<'static> {
        Need::on_every(Verb::Write, Pattern::children_of(name_of(parent)))
    }

    /// A read of a node and its children.
    #[must_use]
    pub fn read_children(path: &Path) -> Vec<Need<'static>> {
        let (verb, name) = place_of(path, Verb::Read);
        vec![Need::read(path).into_owned(), Need::on_every(verb, Pattern::children_of(name))]
    }

    /// The same need, with a copy of the name.
    #[must_use]
    pub fn into_owned(self) -> Need<'static> {
        let names = match self.names {
            Names::One(name) => Names::One(name.into_owned().into()),
            Names::Every(pattern) => Names::Every(pattern),
            Names::Unnamed => Names::Unnamed,
        };
        Need { verb: self.verb, priority: self.priority, names }
    }

    /// A verb on every name that a pattern covers.
    #[must_use]
    pub fn on_every(verb: Verb, pattern: Pattern) -> Need<'static> {
        Need { verb, priority: 0, names: Names::Every(pattern) }
    }

    /// A verb of sessions or of the cluster.
    #[must_use]
    pub fn unnamed(verb: Verb) -> Need<'static> {
        Need { verb, priority: 0, names: Names::Unnamed }
    }

    /// The verb.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The priority of an acquire, if it is above 0.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// What the verb is needed on.
    #[must_use]
    pub fn names(&self) -> &Names<'a> {
        &self.names
    }

    /// The verb as in a rule: `acquire`, or `acquire,priority<=7`.
    #[must_use]
    pub fn needs(&self) -> String {
        if self.priority > 0 { format!("{},priority<={}", self.verb, self.priority) } else { self.verb.to_string() }
    }

    /// The target as in a rule: `locks:orders/42`, `nodes:/` for the root, or `cluster`.
    #[must_use]
    pub fn on(&self) -> String {
        let resource = self.verb.resource().as_str();
        match &self.names {
            Names::One(name) if name.is_empty() && self.verb.resource().has_names() => format!("{resource}:/"),
            Names::One(name) => format!("{resource}:{name}"),
            Names::Every(pattern) => format!("{resource}:{pattern}"),
            Names::Unnamed => resource.to_owned(),
        }
    }
}

/// Where a path belongs: below the folder of locks it is the name of a lock, or of a node of one.
fn place_of(path: &Path, verb: Verb) -> (Verb, &str) {
    debug_assert_eq!(verb.resource(), ResourceKind::Nodes, "a path is the place of a node");
    if path.is_under_locks() {
        let below = path.as_str().strip_prefix("/locks").unwrap_or_default();
        let name = below.strip_prefix('/').unwrap_or(below);
        // A contender's node belongs to its lock.
        let of_contender = name.rsplit_once('/').filter(|(_, last)| is_contender_name(last.as_bytes()));
        return (Verb::Inspect, of_contender.map_or(name, |(lock, _)| lock));
    }
    (verb, name_of(path))
}

/// The name of a node: its path without the first `/`.
fn name_of(path: &Path) -> &str {
    path.as_str().trim_start_matches('/')
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.needs(), self.on())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_locks_are_named_by_their_locks() {
        for (path, needs) in [
            ("/", "read on nodes:/"),
            ("/app/x", "read on nodes:app/x"),
            ("/locks", "inspect on locks:/"),
            ("/locks/orders/42", "inspect on locks:orders/42"),
            ("/locks/locks/a", "inspect on locks:locks/a"),
            ("/locks/orders/7-lock-0000000000", "inspect on locks:orders"),
            ("/locks/orders/7-lock-000000000", "inspect on locks:orders/7-lock-000000000"),
            ("/locksmith", "read on nodes:locksmith"),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!(Need::read(&path).to_string(), needs);
        }
        let below =
            |path: &str| -> Vec<String> { Need::read_below(&Path::parse(path).unwrap()).iter().map(Need::to_string).collect() };
        assert_eq!(below("/"), ["read on nodes:**", "inspect on locks:**"]);
        assert_eq!(below("/app"), ["read on nodes:app/**"]);
        assert_eq!(below("/locks"), ["inspect on locks:**"]);
        assert_eq!(below("/locks/a"), ["inspect on locks:a/**"]);
        let children = |path: &str| -> Vec<String> {
            Need::read_children(&Path::parse(path).unwrap()).iter().map(Need::to_string).collect()
        };
        assert_eq!(children("/app"), ["read on nodes:app", "read on nodes:app/*"]);
        assert_eq!(children("/"), ["read on nodes:/", "read on nodes:*"]);
        assert_eq!(children("/locks"), ["inspect on locks:/", "inspect on locks:*"]);
    }
}

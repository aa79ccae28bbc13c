//! What somebody watches.

use crate::feed::change::Subject;
use fairhold_types::{LockName, Path, SessionNumber};

/// Something that can be watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchFilter {
    /// A node of the tree, whether it is there or not.
    Node(Path),
    /// A node and its direct children.
    Children(Path),
    /// A node and all below it.
    Subtree(Path),
    /// A lock, whether it was ever used or not.
    Lock(LockName),
    /// Who leads an election, and nothing else of it.
    Leader(LockName),
    /// A lock and all those whose names go on from it with a `/`.
    LocksBelow(LockName),
    /// Every lock.
    Locks,
    /// A session, and what becomes of its grants.
    Session(SessionNumber),
    /// Every session.
    Sessions,
}

impl WatchFilter {
    /// Whether what happens to that is watched.
    pub(crate) fn covers(&self, subject: Subject<'_>) -> bool {
        match (self, subject) {
            (WatchFilter::Node(path), Subject::Node(other)) => path == other,
            (WatchFilter::Children(path), Subject::Node(other)) => {
                path == other || (is_below(path.as_str(), other.as_str()) && other.parent().as_ref() == Some(path))
            }
            (WatchFilter::Subtree(path), Subject::Node(other)) => path == other || is_below(path.as_str(), other.as_str()),
            (WatchFilter::Lock(lock), Subject::Lock(other) | Subject::Grant(other, _) | Subject::Leader(other))
            | (WatchFilter::Leader(lock), Subject::Leader(other)) => lock == other,
            (WatchFilter::LocksBelow(lock), Subject::Lock(other) | Subject::Grant(other, _) | Subject::Leader(other)) => {
                lock == other || is_below(lock.as_str(), other.as_str())
            }
            (WatchFilter::Locks, Subject::Lock(_) | Subject::Grant(..) | Subject::Leader(_))
            | (WatchFilter::Sessions, Subject::Session(_)) => true,
            (WatchFilter::Session(session), Subject::Session(other) | Subject::Grant(_, other)) => *session == other,
            (
                WatchFilter::Node(_) | WatchFilter::Children(_) | WatchFilter::Subtree(_),
                Subject::Lock(_) | Subject::Grant(..) | Subject::Leader(_) | Subject::Session(_),
            )
            | (
                WatchFilter::Lock(_) | WatchFilter::LocksBelow(_) | WatchFilter::Locks | WatchFilter::Leader(_),
                Subject::Node(_) | Subject::Session(_),
            )
            | (WatchFilter::Leader(_), Subject::Lock(_) | Subject::Grant(..))
            | (WatchFilter::Session(_) | WatchFilter::Sessions, Subject::Node(_) | Subject::Lock(_) | Subject::Leader(_))
            | (WatchFilter::Sessions, Subject::Grant(..)) => false,
        }
    }

    /// All scopes that cover it: as many as it has levels, and a few. So its watchers are found without asking everybody.
    pub(crate) fn of(subject: Subject<'_>) -> Vec<WatchFilter> {
        match subject {
            Subject::Node(path) => {
                let mut scopes = vec![WatchFilter::Node(path.clone()), WatchFilter::Children(path.clone())];
                scopes.extend(path.parent().map(WatchFilter::Children));
                let mut level = Some(path.clone());
                while let Some(path) = level {
                    level = path.parent();
                    scopes.push(WatchFilter::Subtree(path));
                }
                scopes
            }
            Subject::Lock(lock) => {
                let mut scopes = vec![WatchFilter::Lock(lock.clone()), WatchFilter::LocksBelow(lock.clone()), WatchFilter::Locks];
                // A name's beginning, up to a slash, is a name too.
                let above = lock.as_str().match_indices('/').filter_map(|(at, _)| LockName::parse(&lock.as_str()[..at]).ok());
                scopes.extend(above.map(WatchFilter::LocksBelow));
                scopes
            }
            Subject::Grant(lock, session) => {
                let mut scopes = WatchFilter::of(Subject::Lock(lock));
                scopes.push(WatchFilter::Session(session));
                scopes
            }
            Subject::Leader(lock) => {
                let mut scopes = WatchFilter::of(Subject::Lock(lock));
                scopes.push(WatchFilter::Leader(lock.clone()));
                scopes
            }
            Subject::Session(session) => vec![WatchFilter::Session(session), WatchFilter::Sessions],
        }
    }
}

/// Whether `other` goes on from `above` with a slash; the root ends with one.
fn is_below(above: &str, other: &str) -> bool {
    let rest = other.strip_prefix(above);
    rest.is_some_and(|rest| !rest.is_empty() && (above.ends_with('/') || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_finds_exactly_the_watchers_whose_scope_covers_it() {
        let paths: Vec<Path> = ["/", "/a", "/ab", "/a/b", "/a/b/c", "/a-b"].map(|path| Path::parse(path).unwrap()).into();
        let locks: Vec<LockName> = ["a", "ab", "a/b", "a/b/c", "a-b"].map(|lock| LockName::parse(lock).unwrap()).into();
        let sessions = [SessionNumber(1), SessionNumber(2)];
        let mut scopes = vec![WatchFilter::Locks, WatchFilter::Sessions];
        scopes.extend(paths.iter().flat_map(|path| {
            [WatchFilter::Node(path.clone()), WatchFilter::Children(path.clone()), WatchFilter::Subtree(path.clone())]
        }));
        scopes.extend(locks.iter().flat_map(|lock| {
            [WatchFilter::Lock(lock.clone()), WatchFilter::LocksBelow(lock.clone()), WatchFilter::Leader(lock.clone())]
        }));
        scopes.extend(sessions.map(WatchFilter::Session));
        let subjects =
            paths.iter().map(Subject::Node).chain(locks.iter().flat_map(|lock| [Subject::Lock(lock), Subject::Leader(lock)]));
        let grants = locks.iter().flat_map(|lock| sessions.map(|session| Subject::Grant(lock, session)));
        let subjects = subjects.chain(grants);
        let mut covered = 0;
        for subject in subjects.chain(sessions.map(Subject::Session)) {
            let found = WatchFilter::of(subject);
            for scope in &scopes {
                assert_eq!(scope.covers(subject), found.contains(scope), "{scope:?} and {subject:?}");
                covered += usize::from(scope.covers(subject));
            }
        }
        assert!(covered > 30, "{covered}");
    }

    #[test]
    fn a_subtree_is_what_is_below_a_slash() {
        let covers = |scope: &str, other: &str| {
            let (scope, other) = (Path::parse(scope).unwrap(), Path::parse(other).unwrap());
            (
                WatchFilter::Subtree(scope.clone()).covers(Subject::Node(&other)),
                WatchFilter::Children(scope).covers(Subject::Node(&other)),
            )
        };
        assert_eq!(covers("/a", "/a/b"), (true, true));
        assert_eq!(covers("/a", "/a/b/c"), (true, false));
        assert_eq!(covers("/a", "/ab"), (false, false));
        assert_eq!(covers("/", "/a"), (true, true));
        assert_eq!(covers("/", "/a/b"), (true, false));
        assert_eq!(covers("/a/b", "/a"), (false, false));
    }
}

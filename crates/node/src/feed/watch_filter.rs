//! What a watch selects.

use crate::feed::change::Subject;
use fairhold_access::{Need, Pattern, Verb};
use fairhold_types::{LockName, Path, SessionNumber};

/// Selects the changes that a watch reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchFilter {
    /// A node of the tree, whether it exists or not.
    Node(Path),
    /// A node and its children.
    Children(Path),
    /// A node and everything below it.
    Subtree(Path),
    /// A lock, whether it was ever used or not.
    Lock(LockName),
    /// Only the leader of an election.
    Leader(LockName),
    /// A lock, and every lock whose name continues its name with a `/`.
    LocksBelow(LockName),
    /// Every lock.
    Locks,
    /// A session and its grants.
    Session(SessionNumber),
    /// Every session.
    Sessions,
    /// The members of the cluster, their settings, and its version.
    Cluster,
}

impl WatchFilter {
    /// The rights that a watch of it needs: they cover everything that it selects.
    pub(crate) fn needs(&self) -> Vec<Need<'static>> {
        let inspect = |lock: &LockName| Need::on_lock(Verb::Inspect, lock).into_owned();
        let inspect_all = || Need::on_every(Verb::Inspect, Pattern::everything());
        match self {
            WatchFilter::Node(path) => vec![Need::read(path).into_owned()],
            WatchFilter::Children(path) => Need::read_children(path),
            WatchFilter::Subtree(path) => Need::read_below(path),
            WatchFilter::Lock(lock) | WatchFilter::Leader(lock) => vec![inspect(lock)],
            WatchFilter::LocksBelow(lock) => vec![Need::on_every(Verb::Inspect, Pattern::from_name(lock.as_str()))],
            WatchFilter::Locks => vec![inspect_all()],
            // The grants of a session name their locks.
            WatchFilter::Session(_) => vec![Need::unnamed(Verb::Status), inspect_all()],
            WatchFilter::Sessions | WatchFilter::Cluster => vec![Need::unnamed(Verb::Status)],
        }
    }

    /// Whether the filter selects changes of this object.
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
            | (WatchFilter::Sessions, Subject::Session(_))
            | (WatchFilter::Cluster, Subject::Cluster) => true,
            (WatchFilter::Session(session), Subject::Session(other) | Subject::Grant(_, other)) => *session == other,
            (
                WatchFilter::Node(_) | WatchFilter::Children(_) | WatchFilter::Subtree(_),
                Subject::Lock(_) | Subject::Grant(..) | Subject::Leader(_) | Subject::Session(_) | Subject::Cluster,
            )
            | (
                WatchFilter::Lock(_) | WatchFilter::LocksBelow(_) | WatchFilter::Locks | WatchFilter::Leader(_),
                Subject::Node(_) | Subject::Session(_) | Subject::Cluster,
            )
            | (WatchFilter::Leader(_), Subject::Lock(_) | Subject::Grant(..))
            | (
                WatchFilter::Session(_) | WatchFilter::Sessions,
                Subject::Node(_) | Subject::Lock(_) | Subject::Leader(_) | Subject::Cluster,
            )
            | (WatchFilter::Sessions, Subject::Grant(..))
            | (
                WatchFilter::Cluster,
                Subject::Node(_) | Subject::Lock(_) | Subject::Grant(..) | Subject::Leader(_) | Subject::Session(_),
            ) => false,
        }
    }

    /// All filters that select changes of this object: a few, and one for each level of its path. So finding the
    /// watchers of a change does not require a scan of all watchers.
    pub(crate) fn of(subject: Subject<'_>) -> Vec<WatchFilter> {
        match subject {
            Subject::Node(path) => {
                let mut filters = vec![WatchFilter::Node(path.clone()), WatchFilter::Children(path.clone())];
                filters.extend(path.parent().map(WatchFilter::Children));
                let mut level = Some(path.clone());
                while let Some(path) = level {
                    level = path.parent();
                    filters.push(WatchFilter::Subtree(path));
                }
                filters
            }
            Subject::Lock(lock) => {
                let mut filters =
                    vec![WatchFilter::Lock(lock.clone()), WatchFilter::LocksBelow(lock.clone()), WatchFilter::Locks];
                // The part of a name before a slash is a name too.
                let above = lock.as_str().match_indices('/').filter_map(|(at, _)| LockName::parse(&lock.as_str()[..at]).ok());
                filters.extend(above.map(WatchFilter::LocksBelow));
                filters
            }
            Subject::Grant(lock, session) => {
                let mut filters = WatchFilter::of(Subject::Lock(lock));
                filters.push(WatchFilter::Session(session));
                filters
            }
            Subject::Leader(lock) => {
                let mut filters = WatchFilter::of(Subject::Lock(lock));
                filters.push(WatchFilter::Leader(lock.clone()));
                filters
            }
            Subject::Session(session) => vec![WatchFilter::Session(session), WatchFilter::Sessions],
            Subject::Cluster => vec![WatchFilter::Cluster],
        }
    }
}

/// Whether `other` continues `above` after a slash. The root ends with a slash itself.
fn is_below(above: &str, other: &str) -> bool {
    let rest = other.strip_prefix(above);
    rest.is_some_and(|rest| !rest.is_empty() && (above.ends_with('/') || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_of_a_subject_are_exactly_those_that_cover_it() {
        let paths: Vec<Path> = ["/", "/a", "/ab", "/a/b", "/a/b/c", "/a-b"].map(|path| Path::parse(path).unwrap()).into();
        let locks: Vec<LockName> = ["a", "ab", "a/b", "a/b/c", "a-b"].map(|lock| LockName::parse(lock).unwrap()).into();
        let sessions = [SessionNumber(1), SessionNumber(2)];
        let mut filters = vec![WatchFilter::Locks, WatchFilter::Sessions, WatchFilter::Cluster];
        filters.extend(paths.iter().flat_map(|path| {
            [WatchFilter::Node(path.clone()), WatchFilter::Children(path.clone()), WatchFilter::Subtree(path.clone())]
        }));
        filters.extend(locks.iter().flat_map(|lock| {
            [WatchFilter::Lock(lock.clone()), WatchFilter::LocksBelow(lock.clone()), WatchFilter::Leader(lock.clone())]
        }));
        filters.extend(sessions.map(WatchFilter::Session));
        let subjects =
            paths.iter().map(Subject::Node).chain(locks.iter().flat_map(|lock| [Subject::Lock(lock), Subject::Leader(lock)]));
        let grants = locks.iter().flat_map(|lock| sessions.map(|session| Subject::Grant(lock, session)));
        let subjects = subjects.chain(grants);
        let mut covered = 0;
        for subject in subjects.chain(sessions.map(Subject::Session)).chain([Subject::Cluster]) {
            let found = WatchFilter::of(subject);
            for filter in &filters {
                assert_eq!(filter.covers(subject), found.contains(filter), "{filter:?} and {subject:?}");
                covered += usize::from(filter.covers(subject));
            }
        }
        assert!(covered > 30, "{covered}");
    }

    #[test]
    fn a_subtree_begins_after_a_slash() {
        let covers = |filter: &str, other: &str| {
            let (filter, other) = (Path::parse(filter).unwrap(), Path::parse(other).unwrap());
            (
                WatchFilter::Subtree(filter.clone()).covers(Subject::Node(&other)),
                WatchFilter::Children(filter).covers(Subject::Node(&other)),
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

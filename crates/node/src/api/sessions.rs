//! The calls for sessions, and views of sessions.

use super::OwnedAfter;
use crate::access::Visible;
use fairhold_state::command::Meta;
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Path, SessionId, SessionNumber, time::WallMillis};
use std::time::Duration;

/// Opens a named session.
#[derive(Debug, Clone)]
pub struct OpenSessionCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// Whether the caller chose the key: then an earlier request may have opened the session.
    pub key_given: bool,
    /// Its timeout.
    pub timeout: Duration,
    /// Its name, for people to read.
    pub name: String,
    /// Its metadata, for people to read.
    pub meta: Meta,
    /// How long the server may work on the call.
    pub work_timeout: Duration,
}

/// A session that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// Its secret id.
    pub id: SessionId,
    /// Its public number.
    pub number: SessionNumber,
    /// Its timeout.
    pub timeout: Duration,
}

/// The object of a keepalive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Renewal {
    /// A named session.
    Session(SessionId),
    /// A grant with an anonymous session.
    Grant(GrantId),
    /// A session by its public number, for requests that wait at a node.
    Number(SessionNumber),
}

/// The public view of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its public number.
    pub number: SessionNumber,
    /// Its name, for people to read.
    pub name: String,
    /// Its metadata, for people to read.
    pub meta: Meta,
    /// Its timeout.
    pub timeout: Duration,
    /// Whether it was created only for one grant.
    pub anonymous: bool,
    /// When it was opened.
    pub opened_at: WallMillis,
    /// The time since the leader last heard from it, if this node asked the leader and the leader knows.
    pub heard_ago: Option<Duration>,
    /// A page of its grants, by number, with an entry for each lock: number, lock, and the token while held.
    pub grants: Vec<(GrantNumber, LockName, Option<FencingToken>)>,
    /// The number of its grants; `None` if they are hidden.
    pub grant_count: Option<usize>,
    /// A page of its ephemeral nodes, by path.
    pub ephemeral_nodes: Vec<Path>,
    /// The number of its ephemeral nodes; `None` if they are hidden.
    pub ephemeral_count: Option<usize>,
    /// The position after which the next page begins; `None` if no page follows.
    pub next: Option<OwnedAfter>,
}

impl SessionView {
    /// The same without the names of grants and of nodes, unless the reader may see all locks, or all nodes.
    pub(crate) fn for_reader(mut self, visible: &Visible) -> SessionView {
        let (locks, nodes) = (visible.has_all_locks(), visible.has_all_nodes());
        if !locks {
            (self.grants, self.grant_count) = (Vec::new(), None);
        }
        if !nodes {
            (self.ephemeral_nodes, self.ephemeral_count) = (Vec::new(), None);
        }
        let shown = |next: OwnedAfter| OwnedAfter { grant: next.grant.filter(|_| locks), node: next.node.filter(|_| nodes) };
        self.next = self.next.map(shown).filter(|next| next.grant.is_some() || next.node.is_some());
        self
    }
}

/// A session by its id or its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRef {
    /// By its secret id.
    Id(SessionId),
    /// By its public number.
    Number(SessionNumber),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_reader_without_rights_learns_no_number_of_what_is_hidden() {
        let view = SessionView {
            number: SessionNumber(41),
            name: String::new(),
            meta: Meta::new(),
            timeout: Duration::from_secs(1),
            anonymous: false,
            opened_at: WallMillis(1),
            heard_ago: None,
            grants: vec![(GrantNumber(1), LockName::parse("deploy").unwrap(), None)],
            grant_count: Some(1),
            ephemeral_nodes: vec![Path::parse("/a").unwrap()],
            ephemeral_count: Some(1),
            next: None,
        };
        let whole = view.clone().for_reader(&Visible::Everything);
        assert_eq!((whole.grants.len(), whole.grant_count), (1, Some(1)));
        assert_eq!((whole.ephemeral_nodes.len(), whole.ephemeral_count), (1, Some(1)));
        let hidden = view.for_reader(&Visible::Covered(Arc::default()));
        assert_eq!((hidden.grants.len(), hidden.grant_count), (0, None));
        assert_eq!((hidden.ephemeral_nodes.len(), hidden.ephemeral_count), (0, None));
    }
}

//! Changes as they are kept for those who watch: what happened to what, with numbers and versions, without ids and, but for what
//! elections proclaim, without values.

use fairhold_state::{State, command::Event, record::Contender, value::Value};
use fairhold_types::{EndReason, FencingToken, GrantNumber, LockName, Path, Revision, SessionNumber, watch::SessionEnd};
use std::sync::Arc;

/// A change that watches tell of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A node of the tree was created.
    NodeCreated(Path),
    /// A node's value was written.
    NodeChanged {
        /// The node.
        path: Path,
        /// Its version now.
        version: i32,
    },
    /// A node was removed.
    NodeDeleted(Path),
    /// A contender took its place in a queue.
    Queued(ChangedContender),
    /// A contender became a holder.
    Granted(ChangedContender, FencingToken),
    /// A grant ended.
    GrantEnded {
        /// The lock.
        lock: LockName,
        /// The grant.
        number: GrantNumber,
        /// The session that owned it.
        session: SessionNumber,
        /// How.
        reason: EndReason,
    },
    /// A grant expired, and its lock stays blocked.
    Cooling {
        /// The lock.
        lock: LockName,
        /// The grant that expired.
        number: GrantNumber,
        /// For how long.
        delay_ms: u64,
    },
    /// An exclusive holder shares from now on.
    Downgraded {
        /// The lock.
        lock: LockName,
        /// The grant.
        number: GrantNumber,
    },
    /// An administrator set what a lock allows.
    LockSet {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: Arc<str>,
    },
    /// An administrator asks a holder to give the lock back.
    Revoked {
        /// The lock.
        lock: LockName,
        /// The grant.
        number: GrantNumber,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: Arc<str>,
        /// The reason; may be empty.
        reason: Arc<str>,
    },
    /// A lock delay has ended.
    Cooled {
        /// The lock.
        lock: LockName,
        /// The grant that had expired.
        number: GrantNumber,
    },
    /// An administrator took the lock from those who held it; each of their grants ends with a change of its own.
    Broken {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: Arc<str>,
        /// The reason; may be empty.
        reason: Arc<str>,
    },
    /// An election has a leader with that value: a new one where the version is 0.
    Proclaimed {
        /// The leader.
        leader: ChangedContender,
        /// Its token.
        token: FencingToken,
        /// How often it has proclaimed.
        version: i32,
        /// The value, which the state and all who are told of it share.
        value: Value,
    },
    /// The leader of an election no longer leads it.
    Vacated {
        /// The election.
        lock: LockName,
        /// The grant that led it.
        number: GrantNumber,
    },
    /// A lock that nobody used was forgotten.
    LockForgotten(LockName),
    /// A session began.
    SessionOpened {
        /// The session.
        session: SessionNumber,
        /// Its timeout.
        timeout_ms: u64,
    },
    /// A session has another timeout.
    SessionChanged {
        /// The session.
        session: SessionNumber,
        /// Its timeout now.
        timeout_ms: u64,
    },
    /// A session ended.
    SessionEnded {
        /// The session.
        session: SessionNumber,
        /// How.
        reason: SessionEnd,
    },
}

/// A grant as those who watch its lock know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedContender {
    /// The lock.
    pub lock: LockName,
    /// The grant.
    pub number: GrantNumber,
    /// Its session.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: Arc<str>,
}

/// What a change happened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Node(&'a Path),
    Lock(&'a LockName),
    /// A grant: its lock, and the session that owns it.
    Grant(&'a LockName, SessionNumber),
    Leader(&'a LockName),
    Session(SessionNumber),
}

impl Change {
    /// What watches tell of an event; `state` is the one right after it. Attempts are the affair of those who attach.
    pub(crate) fn of(state: &State, event: &Event) -> Option<Change> {
        let claim = |lock: &LockName, number: GrantNumber| ChangedContender::of(state.contender(number), lock, number);
        Some(match event {
            Event::NodeCreated { path } => Change::NodeCreated(path.clone()),
            Event::NodeChanged { path, version } => Change::NodeChanged { path: path.clone(), version: *version },
            Event::Queued { lock, grant } => Change::Queued(claim(lock, *grant)),
            Event::Granted { lock, grant, token } => Change::Granted(claim(lock, *grant), *token),
            Event::Ended { lock, grant, session, reason } => {
                Change::GrantEnded { lock: lock.clone(), number: *grant, session: *session, reason: *reason }
            }
            Event::Cooling { lock, grant, delay_ms } => {
                Change::Cooling { lock: lock.clone(), number: *grant, delay_ms: *delay_ms }
            }
            Event::Downgraded { lock, grant } => Change::Downgraded { lock: lock.clone(), number: *grant },
            Event::Cooled { lock, grant } => Change::Cooled { lock: lock.clone(), number: *grant },
            Event::Broken { lock, by, reason } => {
                Change::Broken { lock: lock.clone(), by: by.as_str().into(), reason: reason.as_str().into() }
            }
            Event::Proclaimed { lock, grant, token, version, value } => {
                Change::Proclaimed { leader: claim(lock, *grant), token: *token, version: *version, value: value.clone() }
            }
            Event::Vacated { lock, grant } => Change::Vacated { lock: lock.clone(), number: *grant },
            Event::LockSet { lock, by } => Change::LockSet { lock: lock.clone(), by: by.as_str().into() },
            Event::Revoked { lock, grant, by, reason } => {
                Change::Revoked { lock: lock.clone(), number: *grant, by: by.as_str().into(), reason: reason.as_str().into() }
            }
            Event::LockForgotten { lock } => Change::LockForgotten(lock.clone()),
            Event::SessionOpened { session, timeout_ms } => Change::SessionOpened { session: *session, timeout_ms: *timeout_ms },
            Event::SessionRetimed { session, timeout_ms } => {
                Change::SessionChanged { session: *session, timeout_ms: *timeout_ms }
            }
            Event::SessionClosed { session } => Change::SessionEnded { session: *session, reason: SessionEnd::Closed },
            Event::SessionExpired { session } => Change::SessionEnded { session: *session, reason: SessionEnd::Expired },
            Event::NodeDeleted { path, .. } => Change::NodeDeleted(path.clone()),
            // The child's own event tells it; a wish to be the only holder is told when it comes true.
            Event::Upgrading { .. }
            | Event::UpgradeEnded { .. }
            | Event::Holds { .. }
            | Event::Attached { .. }
            | Event::ChildrenChanged { .. } => return None,
        })
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        match self {
            Change::NodeCreated(path) | Change::NodeChanged { path, .. } | Change::NodeDeleted(path) => Subject::Node(path),
            Change::Queued(claim) | Change::Granted(claim, _) => Subject::Grant(&claim.lock, claim.session),
            Change::GrantEnded { lock, session, .. } => Subject::Grant(lock, *session),
            Change::Cooling { lock, .. }
            | Change::Cooled { lock, .. }
            | Change::Downgraded { lock, .. }
            | Change::Broken { lock, .. }
            | Change::LockSet { lock, .. }
            | Change::Revoked { lock, .. }
            | Change::LockForgotten(lock) => Subject::Lock(lock),
            Change::Proclaimed { leader: ChangedContender { lock, .. }, .. } | Change::Vacated { lock, .. } => {
                Subject::Leader(lock)
            }
            Change::SessionOpened { session, .. }
            | Change::SessionChanged { session, .. }
            | Change::SessionEnded { session, .. } => Subject::Session(*session),
        }
    }

    /// About how many bytes it occupies.
    fn bytes(&self) -> usize {
        let text = match self {
            Change::Queued(claim) | Change::Granted(claim, _) => claim.lock.as_str().len() + claim.owner.len(),
            Change::LockSet { lock, by } => lock.as_str().len() + by.len(),
            Change::Broken { lock, by, reason } | Change::Revoked { lock, by, reason, .. } => {
                lock.as_str().len() + by.len() + reason.len()
            }
            Change::Proclaimed { leader, value, .. } => leader.lock.as_str().len() + leader.owner.len() + value.len(),
            Change::NodeCreated(_)
            | Change::NodeChanged { .. }
            | Change::NodeDeleted(_)
            | Change::GrantEnded { .. }
            | Change::Cooling { .. }
            | Change::Cooled { .. }
            | Change::Downgraded { .. }
            | Change::Vacated { .. }
            | Change::LockForgotten(_)
            | Change::SessionOpened { .. }
            | Change::SessionChanged { .. }
            | Change::SessionEnded { .. } => match self.subject() {
                Subject::Node(path) => path.as_str().len(),
                Subject::Lock(lock) | Subject::Grant(lock, _) | Subject::Leader(lock) => lock.as_str().len(),
                Subject::Session(_) => 0,
            },
        };
        size_of::<Change>() + TEXT_OVERHEAD + text
    }
}

/// What a text costs besides its bytes: two counters, and what the allocator rounds up.
const TEXT_OVERHEAD: usize = 32;
/// What the changes of one revision cost besides themselves: two allocations and the place in the queue.
const REVISION_OVERHEAD: usize = 80;

impl ChangedContender {
    /// A contender that was granted or queued is there right after it, but for one whose own revision ended it again.
    fn of(contender: Option<&Contender>, lock: &LockName, number: GrantNumber) -> ChangedContender {
        ChangedContender {
            lock: lock.clone(),
            number,
            session: contender.map(|contender| contender.session).unwrap_or_default(),
            owner: contender.map_or_else(|| Arc::from(""), |contender| Arc::from(contender.owner.text.as_str())),
        }
    }
}

/// The changes of one revision, in order: they are told together or not at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) revision: Revision,
    pub(crate) list: Box<[Change]>,
}

impl Changes {
    pub(crate) fn of(state: &State, revision: Revision, events: &[Event]) -> Changes {
        Changes { revision, list: events.iter().filter_map(|event| Change::of(state, event)).collect() }
    }

    /// About how many bytes they occupy.
    pub(crate) fn bytes(&self) -> usize {
        REVISION_OVERHEAD + self.list.iter().map(Change::bytes).sum::<usize>()
    }
}

//! Changes as the ring keeps them for watches: numbers and versions, but no secret ids, and no values except those that
//! leaders proclaim.

use fairhold_state::{
    State,
    command::{ClusterEvent, Event},
    record::Contender,
    value::Value,
};
use fairhold_types::{
    EndReason, FencingToken, GrantNumber, LockName, Path, Revision, SessionNumber, call::EventType, watch::SessionEnd,
};
use std::sync::Arc;

/// A change that watches report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A node of the tree was created.
    NodeCreated(Path),
    /// The value of a node of the tree was written.
    NodeChanged {
        /// Its path.
        path: Path,
        /// The new version.
        version: i32,
    },
    /// A node of the tree was deleted.
    NodeDeleted(Path),
    /// A contender entered a queue.
    Queued(ChangedContender),
    /// A contender became a holder.
    Granted(ChangedContender, FencingToken),
    /// A grant ended.
    GrantEnded {
        /// Its lock.
        lock: LockName,
        /// Its public number.
        number: GrantNumber,
        /// The session that owned it.
        session: SessionNumber,
        /// How it ended.
        reason: EndReason,
    },
    /// A holder expired, and its lock delay starts.
    Cooling {
        /// The lock, which stays blocked.
        lock: LockName,
        /// The grant that expired.
        number: GrantNumber,
        /// The lock delay in milliseconds.
        delay_ms: u64,
    },
    /// An exclusive holder became a shared one.
    Downgraded {
        /// Its lock.
        lock: LockName,
        /// Its grant.
        number: GrantNumber,
    },
    /// An administrator changed the limits of a lock.
    LockSet {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: Arc<str>,
    },
    /// An administrator asks a holder to release the lock.
    Revoked {
        /// The lock.
        lock: LockName,
        /// The holder's grant.
        number: GrantNumber,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: Arc<str>,
        /// The reason; may be empty.
        reason: Arc<str>,
    },
    /// A lock delay ended.
    Cooled {
        /// The lock.
        lock: LockName,
        /// The grant that had expired.
        number: GrantNumber,
    },
    /// An administrator took the lock from its holders. Each of their grants ends with a change of its own.
    Broken {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: Arc<str>,
        /// The reason; may be empty.
        reason: Arc<str>,
    },
    /// The leader of an election proclaimed a value: a new leader if the version is 0.
    Proclaimed {
        /// The leader.
        leader: ChangedContender,
        /// The leader's fencing token.
        token: FencingToken,
        /// How many values the leader has proclaimed since it was elected, not counting the first.
        version: i32,
        /// The value, shared with the state and all watchers.
        value: Value,
    },
    /// An election lost its leader.
    Vacated {
        /// The election.
        lock: LockName,
        /// The grant of the former leader.
        number: GrantNumber,
    },
    /// The cluster forgot an unused lock.
    LockForgotten(LockName),
    /// A session was opened.
    SessionOpened {
        /// Its public number.
        session: SessionNumber,
        /// Its timeout in milliseconds.
        timeout_ms: u64,
    },
    /// A session has a new timeout.
    SessionChanged {
        /// Its public number.
        session: SessionNumber,
        /// The new timeout in milliseconds.
        timeout_ms: u64,
    },
    /// A session ended.
    SessionEnded {
        /// Its public number.
        session: SessionNumber,
        /// How it ended.
        reason: SessionEnd,
    },
    /// The members of the cluster, their settings, or its version changed. Rare, so it is boxed.
    Cluster(Box<ClusterEvent>),
}

/// A contender, as watchers of its lock see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedContender {
    /// The lock.
    pub lock: LockName,
    /// The public number of its grant.
    pub number: GrantNumber,
    /// The public number of its session.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: Arc<str>,
}

/// The object of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Node(&'a Path),
    Lock(&'a LockName),
    /// A grant: its lock, and the session that owns it.
    Grant(&'a LockName, SessionNumber),
    Leader(&'a LockName),
    Session(SessionNumber),
    Cluster,
}

impl<'a> Subject<'a> {
    /// The lock, if the subject is a lock, a grant or the leader of an election.
    pub(crate) fn lock(self) -> Option<&'a LockName> {
        match self {
            Subject::Lock(lock) | Subject::Grant(lock, _) | Subject::Leader(lock) => Some(lock),
            Subject::Node(_) | Subject::Session(_) | Subject::Cluster => None,
        }
    }
}

impl Change {
    /// The change that watches report for an event, if any. `state` is the state right after the command, and `previous` the
    /// change before it in the same command.
    fn of(state: &State, event: &Event, previous: Option<&Change>) -> Option<Change> {
        let contender = |lock: &LockName, number: GrantNumber| {
            // Most grants are queued and granted by the same command.
            if let Some(Change::Queued(queued)) = previous
                && queued.number == number
                && queued.lock == *lock
            {
                return queued.clone();
            }
            ChangedContender::of(state.contender(number), lock, number)
        };
        Some(match event {
            Event::NodeCreated { path } => Change::NodeCreated(path.clone()),
            Event::NodeChanged { path, version } => Change::NodeChanged { path: path.clone(), version: *version },
            Event::Queued { lock, grant } => Change::Queued(contender(lock, *grant)),
            Event::Granted { lock, grant, token } => Change::Granted(contender(lock, *grant), *token),
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
                Change::Proclaimed { leader: contender(lock, *grant), token: *token, version: *version, value: value.clone() }
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
            Event::Cluster(event) => Change::Cluster(Box::new(event.clone())),
            // The child's own event reports it; an upgrade is reported when it is granted; attempts concern only their
            // callers.
            Event::Upgrading { .. }
            | Event::UpgradeEnded { .. }
            | Event::Holds { .. }
            | Event::Attached { .. }
            | Event::ChildrenChanged { .. } => return None,
        })
    }

    /// Its type, as the API names it.
    #[must_use]
    pub fn event_type(&self) -> EventType {
        match self {
            Change::NodeCreated(_) => EventType::Created,
            Change::NodeChanged { .. } | Change::SessionChanged { .. } => EventType::Changed,
            Change::NodeDeleted(_) => EventType::Deleted,
            Change::Queued(_) => EventType::Queued,
            Change::Granted(..) => EventType::Granted,
            Change::GrantEnded { .. } | Change::SessionEnded { .. } => EventType::Ended,
            Change::Cooling { .. } => EventType::Cooling,
            Change::Cooled { .. } => EventType::Cooled,
            Change::Downgraded { .. } => EventType::Downgraded,
            Change::Broken { .. } => EventType::Broken,
            Change::Proclaimed { .. } => EventType::Proclaimed,
            Change::Vacated { .. } => EventType::Vacated,
            Change::LockSet { .. } => EventType::Set,
            Change::Revoked { .. } => EventType::Revoke,
            Change::LockForgotten(_) => EventType::Forgotten,
            Change::SessionOpened { .. } => EventType::Opened,
            Change::Cluster(event) => match **event {
                ClusterEvent::Joining { .. } => EventType::Joining,
                ClusterEvent::Joined { .. } => EventType::Joined,
                ClusterEvent::Removing { .. } => EventType::Removing,
                ClusterEvent::Removed { .. } => EventType::Removed,
                ClusterEvent::MemberSet { .. } | ClusterEvent::TimingSet { .. } => EventType::Set,
                ClusterEvent::Finalized { .. } => EventType::Finalized,
            },
        }
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        match self {
            Change::NodeCreated(path) | Change::NodeChanged { path, .. } | Change::NodeDeleted(path) => Subject::Node(path),
            Change::Queued(contender) | Change::Granted(contender, _) => Subject::Grant(&contender.lock, contender.session),
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
            Change::Cluster(_) => Subject::Cluster,
        }
    }

    /// Its approximate size in memory.
    fn bytes(&self) -> usize {
        let text = match self {
            Change::Queued(contender) | Change::Granted(contender, _) => contender.lock.as_str().len() + contender.owner.len(),
            Change::LockSet { lock, by } => lock.as_str().len() + by.len(),
            Change::Broken { lock, by, reason } | Change::Revoked { lock, by, reason, .. } => {
                lock.as_str().len() + by.len() + reason.len()
            }
            Change::Proclaimed { leader, value, .. } => leader.lock.as_str().len() + leader.owner.len() + value.len(),
            Change::Cluster(event) => size_of::<ClusterEvent>() + text_of(event).len(),
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
                Subject::Session(_) | Subject::Cluster => 0,
            },
        };
        size_of::<Change>() + TEXT_OVERHEAD + text
    }
}

/// The text of an event of the cluster, if it has one.
fn text_of(event: &ClusterEvent) -> &str {
    match event {
        ClusterEvent::Removing { by, .. }
        | ClusterEvent::Removed { by, .. }
        | ClusterEvent::MemberSet { by, .. }
        | ClusterEvent::TimingSet { by, .. } => by,
        ClusterEvent::Joining { .. } | ClusterEvent::Joined { .. } | ClusterEvent::Finalized { .. } => "",
    }
}

/// The overhead of a text: two counters, and the allocator's rounding.
const TEXT_OVERHEAD: usize = 32;
/// The overhead of a revision: two allocations and the entry in the queue.
const REVISION_OVERHEAD: usize = 80;

impl ChangedContender {
    /// A contender that was queued or granted exists in the state right after the event, unless the same revision also
    /// ended it.
    fn of(contender: Option<&Contender>, lock: &LockName, number: GrantNumber) -> ChangedContender {
        ChangedContender {
            lock: lock.clone(),
            number,
            session: contender.map(|contender| contender.session).unwrap_or_default(),
            owner: contender.map_or_else(|| Arc::from(""), |contender| Arc::from(contender.owner.text.as_str())),
        }
    }
}

/// The changes of one revision, in order. The ring keeps them together or not at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) revision: Revision,
    pub(crate) list: Box<[Change]>,
}

impl Changes {
    pub(crate) fn of(state: &State, revision: Revision, events: &[Event]) -> Changes {
        // Most commands have a change for each event: then the list has its exact size at once.
        let mut list = Vec::with_capacity(events.len());
        for event in events {
            let change = Change::of(state, event, list.last());
            list.extend(change);
        }
        Changes { revision, list: list.into_boxed_slice() }
    }

    /// Their approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        REVISION_OVERHEAD + self.list.iter().map(Change::bytes).sum::<usize>()
    }
}

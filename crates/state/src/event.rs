//! What a change did, for those who watch and wait: the same on every node.
//!
//! No frame and no log has them: each node makes its own.

use crate::value::Value;
use fairhold_types::{EndReason, FencingToken, GrantNumber, LockName, Path, SessionNumber};
use serde::{Deserialize, Serialize};

/// A fact about a change, for those who watch and wait. Facts name numbers, never ids.
///
/// Lock nodes and their contenders are told of by the events of locks alone; the `Node…` and `ChildrenChanged` events are of
/// all other nodes, in ZooKeeper's order: first the node's own, then its parent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A session began.
    SessionOpened {
        /// Its number.
        session: SessionNumber,
        /// Its timeout.
        timeout_ms: u64,
    },
    /// A session's timeout is another now.
    SessionRetimed {
        /// Its number.
        session: SessionNumber,
        /// Its timeout.
        timeout_ms: u64,
    },
    /// A session was ended by its owner, or with its only grant.
    SessionClosed {
        /// Its number.
        session: SessionNumber,
    },
    /// A session was ended by the leader's verdict.
    SessionExpired {
        /// Its number.
        session: SessionNumber,
    },
    /// A contender took its place in a queue.
    Queued {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A caller attached to a grant; earlier attempts on it are over.
    Attached {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// The attempt that counts from now on.
        attempt: u64,
    },
    /// A contender became a holder.
    Granted {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// Its token.
        token: FencingToken,
    },
    /// A grant ended.
    Ended {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// The session that owned it.
        session: SessionNumber,
        /// How.
        reason: EndReason,
    },
    /// A grant expired, and its lock stays blocked for the lock delay.
    Cooling {
        /// The lock.
        lock: LockName,
        /// The grant that expired.
        grant: GrantNumber,
        /// The delay.
        delay_ms: u64,
    },
    /// A lock delay has ended.
    Cooled {
        /// The lock.
        lock: LockName,
        /// The grant that had expired.
        grant: GrantNumber,
    },
    /// An administrator took a lock from those who held it, or ended a session that held it; each grant has an event of its own.
    Broken {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
        reason: String,
    },
    /// A lock without contenders was forgotten.
    LockForgotten {
        /// The lock.
        lock: LockName,
    },
    /// A node was created.
    NodeCreated {
        /// Its path.
        path: Path,
    },
    /// A node's value was written.
    NodeChanged {
        /// Its path.
        path: Path,
        /// Its version now.
        version: i32,
    },
    /// A node was removed.
    NodeDeleted {
        /// Its path.
        path: Path,
        /// The version that it had.
        version: i32,
    },
    /// A child of a node was created or removed; it follows the child's own event.
    ChildrenChanged {
        /// The parent's path.
        path: Path,
        /// How often that has happened to it: its `cversion` now.
        cversion: i32,
    },
    /// An exclusive holder shares from now on.
    Downgraded {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A shared holder waits until it is the only one.
    Upgrading {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A shared holder gave up waiting to be the only one, and goes on as before.
    UpgradeEnded {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// An election has a leader with that value: a new one, right after its grant, or one that proclaims another value.
    Proclaimed {
        /// The election.
        lock: LockName,
        /// The leader's grant.
        grant: GrantNumber,
        /// Its token.
        token: FencingToken,
        /// How often it has proclaimed: 0 for a new leader.
        version: i32,
        /// The value.
        value: Value,
    },
    /// The leader of an election no longer leads it.
    Vacated {
        /// The election.
        lock: LockName,
        /// The grant that led it.
        grant: GrantNumber,
    },
    /// Its owner holds a grant once more, or once less.
    Holds {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// How many holds it has now.
        holds: u64,
    },
    /// An administrator set what a lock allows.
    LockSet {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
    },
    /// An administrator asks a holder to give the lock back.
    Revoked {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
        reason: String,
    },
}

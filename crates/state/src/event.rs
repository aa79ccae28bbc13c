//! Facts about changes, for watchers and waiters: the same on every node.
//!
//! Events are neither logged nor sent between nodes: each node derives them from the commands.

use crate::value::Value;
use fairhold_types::{EndReason, FencingToken, GrantNumber, LockName, Path, SessionNumber};
use serde::{Deserialize, Serialize};

/// A fact about a change, for watchers and waiters. Events carry public numbers, never secret ids.
///
/// Lock nodes and contenders only have lock events. The `Node…` and `ChildrenChanged` events describe all other nodes,
/// in ZooKeeper's order: the node's own event first, then its parent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A session was opened.
    SessionOpened {
        /// Its number.
        session: SessionNumber,
        /// Its timeout in milliseconds.
        timeout_ms: u64,
    },
    /// The timeout of a session changed.
    SessionRetimed {
        /// Its number.
        session: SessionNumber,
        /// The new timeout in milliseconds.
        timeout_ms: u64,
    },
    /// A session was closed by its owner, or together with its only grant.
    SessionClosed {
        /// Its number.
        session: SessionNumber,
    },
    /// A session expired by the leader's verdict.
    SessionExpired {
        /// Its number.
        session: SessionNumber,
    },
    /// A contender entered a queue.
    Queued {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A caller attached to a grant. Its earlier attempts are over.
    Attached {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// The newest attempt, which now counts.
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
        /// How it ended.
        reason: EndReason,
    },
    /// A grant expired, and its lock stays blocked for the lock delay.
    Cooling {
        /// The lock.
        lock: LockName,
        /// The grant that expired.
        grant: GrantNumber,
        /// The delay in milliseconds.
        delay_ms: u64,
    },
    /// A lock delay has ended.
    Cooled {
        /// The lock.
        lock: LockName,
        /// The grant that had expired.
        grant: GrantNumber,
    },
    /// An administrator took a lock from its holders, or ended a session that held it. Each grant has its own event as
    /// well.
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
        /// Its last version.
        version: i32,
    },
    /// A child of a node was created or removed. This event follows the child's own.
    ChildrenChanged {
        /// The parent's path.
        path: Path,
        /// How often children have been created or removed: its `cversion` now.
        cversion: i32,
    },
    /// An exclusive holder became shared.
    Downgraded {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A shared holder waits to become the only holder.
    Upgrading {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A shared holder stopped waiting for its upgrade, and keeps its shared hold.
    UpgradeEnded {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// An election has a leader with this value: a new leader, right after its grant, or a proclamation.
    Proclaimed {
        /// The election.
        lock: LockName,
        /// The leader's grant.
        grant: GrantNumber,
        /// Its token.
        token: FencingToken,
        /// How often the leader has proclaimed: 0 for a new one.
        version: i32,
        /// The value.
        value: Value,
    },
    /// An election lost its leader.
    Vacated {
        /// The election.
        lock: LockName,
        /// The grant that led it.
        grant: GrantNumber,
    },
    /// The number of holds of a grant changed.
    Holds {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// How many it has now.
        holds: u64,
    },
    /// An administrator changed the settings of a lock.
    LockSet {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
    },
    /// An administrator asks a holder to release the lock.
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

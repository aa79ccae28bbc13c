//! Facts about changes, for watchers and waiters: the same on every node.
//!
//! Events are neither logged nor sent between nodes: each node derives them from the commands.

use crate::value::Value;
use fairhold_types::{
    ClusterVersion, EndReason, FencingToken, GrantNumber, LockName, MemberRole, NodeId, Path, SessionNumber, Timing,
};
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
    /// The members of the cluster, their settings, or its version changed.
    Cluster(ClusterEvent),
}

/// A fact about a change of the cluster. A membership entry of Raft is none: it takes no revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterEvent {
    /// A node was admitted, and is about to become a member.
    Joining {
        /// Its id.
        node: NodeId,
        /// The role that it will have.
        role: MemberRole,
        /// The member that it replaces.
        replaces: Option<NodeId>,
    },
    /// The join of a node is done: it is a member.
    Joined {
        /// Its id.
        node: NodeId,
        /// Its role.
        role: MemberRole,
    },
    /// An administrator requested the removal of a node.
    Removing {
        /// Its id.
        node: NodeId,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
    },
    /// A node is no longer a member, and never will be again.
    Removed {
        /// Its id.
        node: NodeId,
        /// The administrator's client, or the node that replaced it; may be empty.
        by: String,
    },
    /// An administrator changed the priority, the zone or the addresses of a member.
    MemberSet {
        /// Its id.
        node: NodeId,
        /// The administrator's client.
        by: String,
    },
    /// An administrator changed the timing profile.
    TimingSet {
        /// The profile. Each node uses it from its next start on.
        timing: Timing,
        /// The administrator's client, or `formation`.
        by: String,
    },
    /// An upgrade was finalized.
    Finalized {
        /// The version of the cluster from now on.
        version: ClusterVersion,
    },
}

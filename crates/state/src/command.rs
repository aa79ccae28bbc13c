//! The commands of the state machine. Outcomes, rejections and events are exported from here too.
//!
//! The log and the frames encode variants and fields by position. Add variants at the end of an enum, and change a
//! struct only together with `LOG_FORMAT`. `proto/golden/` holds the bytes of each.

pub use crate::write::{Condition, Lifetime, Operation, OperationResult, Part, SessionKey, Sweepable, Transact, WriteKey};
pub use crate::{
    access::{AccessChange, AccessFault, AccessGuard, AccessRequester, ChangeAccess, ForTenant, Guarded},
    admin_request::{Break, Revoke, SetLock},
    audit::{ActOrigin, Attributed, NoteAct, NotedAct, NotedEnd},
    event::{ClusterEvent, Event},
    membership::{AdmitNode, CreateJoinToken, JoinTokenFault, RequestRemoval, SetMember},
    outcome::{Answer, Applied, HeldGrant, Outcome, Queued},
    rejection::{Blocked, HolderFacts, Rejection},
    request::{Acquire, Claimant, IfBusy, Meta, OpenSession, Owner, Proclaim, Want},
};
use fairhold_access::token::AccessTokenNumber;
use fairhold_types::{
    ClusterId, ClusterVersion, FencingToken, GrantId, GrantNumber, Incarnation, JoinTokenNumber, LockName, NodeId, Revision,
    SessionId, SessionNumber, Timing, time::WallMillis,
};
use serde::{Deserialize, Serialize};

/// The version byte of commands in the log.
pub const LOG_FORMAT: u8 = 2;

/// One requested change. Ids and times are fields, because the machine reads no clock and draws no random numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Gives the cluster its identity. This is the first change of a cluster, and happens once.
    FormCluster {
        /// The cluster's random identity.
        cluster: ClusterId,
    },
    /// Opens a named session.
    OpenSession(OpenSession),
    /// Ends a session at its owner's request, with everything it owns.
    CloseSession {
        /// The session's secret id.
        session: SessionId,
        /// When the request was received, or the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// The leader's verdict: the session received no keepalive for its full timeout.
    ExpireSession {
        /// The session's public number.
        session: SessionNumber,
        /// When the request was received, or the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// Grants, queues or refuses. A repeated request attaches to the grant of the first request with its id.
    Acquire(Acquire),
    /// The caller stops waiting, and still expects an answer.
    Withdraw {
        /// The grant to take out of the queue.
        grant: GrantId,
        /// The attempt that stops waiting. If a newer one exists, the command does nothing.
        attempt: u64,
        /// When the request was received, or the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// The caller disconnected without an answer.
    Abandon {
        /// The grant to end, held or queued.
        grant: GrantId,
        /// The attempt whose caller disconnected. If a newer one exists, the command does nothing.
        attempt: u64,
        /// When the request was received, or the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// Releases a held grant, or takes a queued one out of the queue. The machine remembers an unknown id as ended.
    Release {
        /// The grant to end.
        grant: GrantId,
        /// The session of the grant, if the caller names it. If the id is unknown, this session remembers it as ended
        /// for as long as the session lives.
        session: Option<SessionId>,
        /// When the request was received, or the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// Sets the timeout of a grant's own session.
    SetGrantTimeout {
        /// A grant without a named session.
        grant: GrantId,
        /// The new timeout.
        timeout_ms: u64,
        /// The caller's key. With a key, a repeated or late request does not set the timeout again.
        key: Option<WriteKey>,
        /// When the request was received.
        at: WallMillis,
    },
    /// The leader's verdict: the lock delays of these grants are over. At most `VERDICT_OBJECTS_MAX`.
    EndCooling {
        /// The cooling grants.
        grants: Vec<GrantNumber>,
        /// When the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// The leader's verdict: the ids that were remembered outside sessions up to this revision are old enough to
    /// forget.
    Forget {
        /// The last revision to forget.
        through: Revision,
    },
    /// The leader's verdict: these locks have had no contenders for long enough. Their nodes are removed, with their
    /// settings. At most `VERDICT_OBJECTS_MAX`.
    ForgetLocks {
        /// Each lock with the revision since which it has had no contenders. A lock that has been used since then is
        /// skipped.
        locks: Vec<(LockName, Revision)>,
    },
    /// Checks conditions and changes the tree, in one step.
    Transact(Transact),
    /// An administrator takes a lock from its holders.
    Break(Break),
    /// An administrator ends a session, with everything it owns.
    EndSession {
        /// The session's public number.
        session: SessionNumber,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
        reason: String,
        /// When the request was received, or the verdict was reached. The command grants locks as of this time.
        at: WallMillis,
    },
    /// The leader's verdict: these container and TTL nodes have had no children and no change for long enough.
    Sweep {
        /// The nodes. A node that has changed since then is skipped.
        nodes: Vec<Sweepable>,
        /// When the verdict was reached.
        at: WallMillis,
    },
    /// The leader's verdict: the history entries that ended at or before this revision are old enough to drop.
    ForgetHistory {
        /// The last revision to forget.
        through: Revision,
    },
    /// Makes an exclusive holder a shared one, in place. Readers behind it are granted at once.
    Downgrade {
        /// The grant.
        grant: GrantId,
        /// The caller's key. With a key, a repeated or late request does not change the mode again.
        key: Option<WriteKey>,
        /// When the request was received.
        at: WallMillis,
    },
    /// Makes a shared holder the only holder, once the others have released. Until then it keeps its shared hold.
    Upgrade {
        /// The grant.
        grant: GrantId,
        /// What to do if there are other holders.
        if_busy: IfBusy,
        /// The caller's key. With a key, a repeated or late request does not change the mode again.
        key: Option<WriteKey>,
        /// When the request was received.
        at: WallMillis,
    },
    /// Gives up a waiting upgrade. The grant stays a shared holder.
    EndUpgrade {
        /// The grant.
        grant: GrantId,
        /// The attempt that gives up. If a newer one waits, the command does nothing.
        attempt: u64,
        /// When the request was received.
        at: WallMillis,
    },
    /// The leader of an election proclaims a new value.
    Proclaim(Proclaim),
    /// An administrator changes the settings of a lock.
    SetLock(SetLock),
    /// An administrator asks the holders of a lock to release it.
    Revoke(Revoke),
    /// The leader's verdict: these grants have reached their maximum hold time. At most `VERDICT_OBJECTS_MAX`.
    EndHolds {
        /// Each grant with its token. A grant whose token has changed is skipped.
        holds: Vec<(GrantNumber, FencingToken)>,
        /// When the verdict was reached.
        at: WallMillis,
    },
    /// Does the next piece of the pending work.
    ContinuePendingWork {
        /// When the piece was proposed. The command grants locks as of this time.
        at: WallMillis,
    },
    /// Remembers the key of a request whose effect is outside the state, so that it takes effect once.
    RecordKey {
        /// The caller's key.
        key: WriteKey,
        /// When the request was received.
        at: WallMillis,
    },
    /// A node reports how large a state it can hold. The smallest capacity of all nodes is the state's budget.
    RecordCapacity {
        /// The node.
        node: NodeId,
        /// Its capacity in bytes, as the state counts them.
        bytes: u64,
    },
    /// Raises the cluster's version by one, at an operator's request. The leader has verified that every member supports
    /// it.
    RaiseClusterVersion {
        /// The next version. For any other version the command does nothing.
        to: ClusterVersion,
    },
    /// Gives the cluster its identity and a later version than the first. The leader has verified that every member
    /// supports it.
    FormClusterAt {
        /// The cluster's random identity.
        cluster: ClusterId,
        /// The cluster's version.
        version: ClusterVersion,
    },
    /// Creates a join token.
    CreateJoinToken(CreateJoinToken),
    /// Revokes a join token.
    RevokeJoinToken {
        /// Its number.
        number: JoinTokenNumber,
        /// When the request was received.
        at: WallMillis,
    },
    /// The leader admits a node by its join token.
    AdmitNode(AdmitNode),
    /// The leader ends a join that is done: the node has the role of its join token.
    SettleJoin {
        /// The node.
        node: NodeId,
        /// When it was done.
        at: WallMillis,
    },
    /// An administrator requests that a node be removed. The leader has verified that it is a member, or is joining.
    RequestRemoval(RequestRemoval),
    /// The leader records that a node is no longer a member. It never is one again.
    RecordRemoval {
        /// The node.
        node: NodeId,
        /// The identity of its data directory, if the leader knows it.
        incarnation: Option<Incarnation>,
        /// The highest id among the members, as the leader knows.
        ids_through: NodeId,
        /// When it was removed.
        at: WallMillis,
    },
    /// An administrator changes the settings of a member. The leader has verified that it is one.
    SetMember(SetMember),
    /// Sets the timing profile of the cluster. Each node uses it from its next start on.
    SetTiming {
        /// The caller's key, if it gave one: a late repetition must not undo a newer request.
        key: Option<WriteKey>,
        /// The profile.
        timing: Timing,
        /// The administrator's client, such as `curl@127.0.0.1`; empty when the cluster is formed.
        by: String,
        /// When the request was received.
        at: WallMillis,
    },
    /// A command, and by which access data it was decided.
    Guarded(Guarded<Command>),
    /// Changes roles, bindings, users or tokens, or whether rights are enforced.
    ChangeAccess(ChangeAccess),
    /// The leader's verdict: these tokens expired long enough ago. At most `VERDICT_OBJECTS_MAX`.
    ExpireTokens {
        /// The tokens.
        tokens: Vec<AccessTokenNumber>,
        /// When the verdict was reached.
        at: WallMillis,
    },
    /// An administrative act with its origin, for the audit.
    Attributed(Attributed<Command>),
    /// Notes an act outside the state, for the audit.
    NoteAct(NoteAct),
    /// A command that opens a session, by which access data it was decided, and the tenant of its principal.
    ForTenant(ForTenant<Command>),
}

impl Command {
    /// The wall-clock time in the command, for people to read; 0 if it has none.
    #[must_use]
    pub fn at(&self) -> WallMillis {
        match self {
            Command::OpenSession(open) => open.at,
            Command::Acquire(acquire) => acquire.at,
            Command::Transact(transact) => transact.at,
            Command::Break(request) => request.at,
            Command::Proclaim(request) => request.at,
            Command::SetLock(request) => request.at,
            Command::Revoke(request) => request.at,
            Command::CreateJoinToken(request) => request.at,
            Command::AdmitNode(request) => request.at,
            Command::RequestRemoval(request) => request.at,
            Command::SetMember(request) => request.at,
            Command::ChangeAccess(request) => request.at,
            Command::Guarded(guarded) => guarded.command().at(),
            Command::Attributed(attributed) => attributed.command().at(),
            Command::NoteAct(note) => note.at,
            Command::ForTenant(of) => of.command().at(),
            Command::EndSession { at, .. }
            | Command::CloseSession { at, .. }
            | Command::ExpireSession { at, .. }
            | Command::Withdraw { at, .. }
            | Command::Abandon { at, .. }
            | Command::Release { at, .. }
            | Command::EndCooling { at, .. }
            | Command::Sweep { at, .. }
            | Command::Downgrade { at, .. }
            | Command::Upgrade { at, .. }
            | Command::EndUpgrade { at, .. }
            | Command::EndHolds { at, .. }
            | Command::SetGrantTimeout { at, .. }
            | Command::RevokeJoinToken { at, .. }
            | Command::SettleJoin { at, .. }
            | Command::RecordRemoval { at, .. }
            | Command::SetTiming { at, .. }
            | Command::ExpireTokens { at, .. }
            | Command::ContinuePendingWork { at }
            | Command::RecordKey { at, .. } => *at,
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::Forget { .. }
            | Command::ForgetHistory { .. }
            | Command::RecordCapacity { .. }
            | Command::ForgetLocks { .. } => WallMillis(0),
        }
    }

    /// Whether it gives the cluster its identity.
    #[must_use]
    pub fn forms_cluster(&self) -> bool {
        matches!(self.unguarded(), Command::FormCluster { .. } | Command::FormClusterAt { .. })
    }

    /// The command with its time set to 0, so that repeated requests compare equal.
    #[must_use]
    pub fn without_time(mut self) -> Command {
        let time = match &mut self {
            Command::OpenSession(open) => &mut open.at,
            Command::Acquire(acquire) => &mut acquire.at,
            Command::Transact(transact) => &mut transact.at,
            Command::Break(request) => &mut request.at,
            Command::Proclaim(request) => &mut request.at,
            Command::SetLock(request) => &mut request.at,
            Command::Revoke(request) => &mut request.at,
            Command::CreateJoinToken(request) => &mut request.at,
            Command::AdmitNode(request) => &mut request.at,
            Command::RequestRemoval(request) => &mut request.at,
            Command::SetMember(request) => &mut request.at,
            Command::ChangeAccess(request) => &mut request.at,
            Command::NoteAct(note) => &mut note.at,
            Command::EndSession { at, .. }
            | Command::CloseSession { at, .. }
            | Command::ExpireSession { at, .. }
            | Command::Withdraw { at, .. }
            | Command::Abandon { at, .. }
            | Command::Release { at, .. }
            | Command::EndCooling { at, .. }
            | Command::Sweep { at, .. }
            | Command::Downgrade { at, .. }
            | Command::Upgrade { at, .. }
            | Command::EndUpgrade { at, .. }
            | Command::EndHolds { at, .. }
            | Command::SetGrantTimeout { at, .. }
            | Command::RevokeJoinToken { at, .. }
            | Command::SettleJoin { at, .. }
            | Command::RecordRemoval { at, .. }
            | Command::SetTiming { at, .. }
            | Command::ExpireTokens { at, .. }
            | Command::ContinuePendingWork { at }
            | Command::RecordKey { at, .. } => at,
            Command::Guarded(_) | Command::ForTenant(_) => return self.map_guarded(Command::without_time),
            Command::Attributed(_) => return self.map_attributed(Command::without_time),
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::Forget { .. }
            | Command::ForgetHistory { .. }
            | Command::RecordCapacity { .. }
            | Command::ForgetLocks { .. } => return self,
        };
        *time = WallMillis(0);
        self
    }
}

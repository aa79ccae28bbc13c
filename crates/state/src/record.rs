//! The records of the state: sessions, tree nodes, contenders and lock settings.

use crate::{
    command::{Meta, Owner, Want},
    keys::ChangeKeys,
    value::Value,
};
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, Revision, SessionId, SessionNumber,
    limits::{OVERTAKEN_MAX, SESSION_TOMBSTONES_MAX},
    time::WallMillis,
};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};

pub use crate::acl::AclEntry;
pub use crate::kind::{NodeKind, PackedKind};
pub use crate::moment::Moment;
pub use crate::revocation::Revocation;

/// A client's liveness. It has no deadline: deadlines belong to the leader's clock and are not replicated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its public number: the revision that opened it.
    pub number: SessionNumber,
    /// Its secret id. A session that was made for one grant has none: the grant's id serves instead.
    pub id: Option<SessionId>,
    /// The idempotency key that opened it, if one was given.
    pub key: Option<GrantId>,
    /// How long it lives without a keepalive, in milliseconds.
    pub timeout_ms: u64,
    /// Its name, for people to read.
    pub name: Box<str>,
    /// Pairs of text, for people to read.
    pub meta: Meta,
    /// When it was opened, by the clock of the node that received the request.
    pub opened_at: WallMillis,
    /// Its ended grants.
    pub ended: Ended,
}

/// The ended grants that a session remembers. Most sessions have none, and then this is one word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ended(#[serde(with = "crate::sparse")] Option<Box<EndedGrants>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct EndedGrants {
    /// The newest `SESSION_TOMBSTONES_MAX` by id, sorted. New ids are nearly always the newest, so this is a queue. It is
    /// copied when the session changes for the first time after a snapshot.
    ids: VecDeque<(GrantId, EndReason)>,
    /// The newest id that was dropped from `ids`.
    floor: Option<GrantId>,
}

impl Ended {
    /// How a grant ended, if that is remembered.
    #[must_use]
    pub fn get(&self, grant: &GrantId) -> Option<EndReason> {
        let ids = &self.0.as_ref()?.ids;
        let at = ids.binary_search_by_key(grant, |(id, _)| *id).ok()?;
        ids.get(at).map(|(_, reason)| *reason)
    }

    /// The number of remembered grants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ended| ended.ids.len())
    }

    /// Whether no grant is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The remembered ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &GrantId> {
        self.0.iter().flat_map(|ended| ended.ids.iter().map(|(id, _)| id))
    }

    /// The newest id that was dropped. An unknown id up to this one may have ended and been forgotten.
    #[must_use]
    pub fn floor(&self) -> Option<GrantId> {
        self.0.as_ref()?.floor
    }

    /// Remembers one more grant. Returns the id that was dropped for it.
    pub(crate) fn remember(&mut self, grant: GrantId, reason: EndReason) -> Option<GrantId> {
        let ended = self.0.get_or_insert_default();
        if ended.ids.back().is_none_or(|(newest, _)| *newest < grant) {
            ended.ids.push_back((grant, reason));
        } else {
            match ended.ids.binary_search_by_key(&grant, |(id, _)| *id) {
                Ok(at) => ended.ids[at].1 = reason,
                Err(at) => ended.ids.insert(at, (grant, reason)),
            }
        }
        if ended.ids.len() <= SESSION_TOMBSTONES_MAX {
            return None;
        }
        let (oldest, _) = ended.ids.pop_front()?;
        ended.floor = ended.floor.max(Some(oldest));
        Some(oldest)
    }
}

/// A node of the tree, with ZooKeeper's stat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Znode {
    /// The revision that created it.
    pub czxid: Revision,
    /// The revision that last wrote its value.
    pub mzxid: Revision,
    /// The revision that last added or removed a child.
    pub pzxid: Revision,
    /// When it was created.
    pub ctime: WallMillis,
    /// When its value was last written.
    pub mtime: WallMillis,
    /// How often its value was written.
    pub version: i32,
    /// How often its access list was written.
    pub aversion: i32,
    /// How many children were ever created: ZooKeeper's counter for sequential names.
    pub creates: u32,
    /// How many children it has.
    pub num_children: u32,
    /// The session that owns it, if it is ephemeral; otherwise 0.
    pub ephemeral_owner: SessionNumber,
    /// How long it lives.
    pub kind: PackedKind,
    /// Its value.
    pub value: Value,
    /// Its role in the lock recipe.
    pub role: NodeRole,
    /// Its access list; `None` is the empty one. This version stores it but does not enforce it.
    pub acl: Option<Arc<Vec<AclEntry>>>,
}

impl Znode {
    /// ZooKeeper's count of created and removed children: twice the creates, minus the current children.
    #[must_use]
    pub fn cversion(&self) -> i32 {
        self.creates.wrapping_mul(2).wrapping_sub(self.num_children).cast_signed()
    }

    /// Whether the leader may sweep it once it has stayed unchanged for long enough: a container that has had children
    /// and has none now, or a TTL node without children.
    #[must_use]
    pub fn is_sweepable(&self) -> bool {
        let is_sweepable_kind = match self.kind.get() {
            NodeKind::Persistent | NodeKind::Ephemeral => false,
            NodeKind::Container => self.creates > 0,
            NodeKind::Ttl { .. } => true,
        };
        is_sweepable_kind && self.num_children == 0 && self.role == NodeRole::Data
    }

    pub(crate) fn contender(&self) -> Option<&Contender> {
        if let NodeRole::Contender(contender) = &self.role { Some(contender) } else { None }
    }

    pub(crate) fn contender_mut(&mut self) -> Option<&mut Contender> {
        if let NodeRole::Contender(contender) = &mut self.role { Some(contender) } else { None }
    }

    pub(crate) fn settings(&self) -> Option<&LockSettings> {
        if let NodeRole::Lock(settings) = &self.role { Some(settings) } else { None }
    }

    /// Counts a child that is created.
    pub(crate) fn add_child(&mut self, revision: Revision) {
        self.pzxid = revision;
        self.creates = self.creates.wrapping_add(1);
        self.num_children += 1;
    }

    /// Counts a child that is removed.
    pub(crate) fn remove_child(&mut self, revision: Revision) {
        self.pzxid = revision;
        self.num_children -= 1;
    }

    /// The last change of its value or its children.
    #[must_use]
    pub fn changed_at(&self) -> Revision {
        self.mzxid.max(self.pzxid)
    }
}

/// The role of a node in the lock recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeRole {
    /// None: plain data.
    Data,
    /// A lock.
    Lock(Box<LockSettings>),
    /// A contender of a lock: a holder or a waiter.
    Contender(Box<Contender>),
}

/// The settings of a lock. They outlive its contenders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockSettings {
    /// How many permits it has, once a grant or an administrator has named a limit.
    pub limit: Option<u32>,
    /// The last token issued.
    pub last_token: Option<FencingToken>,
    /// Whether it is an election; `None` until its first contender.
    pub election: Option<bool>,
    /// Whether it ever had a contender. Otherwise it is only a level above another lock.
    pub used: bool,
    /// How many grants may wait, if an administrator set a limit.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, in milliseconds, if an administrator set a limit.
    pub max_hold_ms: Option<u64>,
    /// Whether an administrator set a value other than the default. Such a lock is not forgotten.
    pub kept: bool,
    /// The revision at which an administrator set the limit. Holders from before it may exceed it together.
    pub limited_at: Option<Revision>,
}

/// A further hold of a grant, as its request named it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its secret id.
    pub grant: GrantId,
    /// The newest attempt: how often a caller attached.
    pub attempt: u64,
    /// The lock and the mode.
    pub want: Want,
    /// The requested limit.
    pub limit: Option<u32>,
    /// The requested permits.
    pub permits: u32,
    /// The requested priority.
    pub priority: i32,
    /// Pairs of text, for people to read.
    pub meta: Meta,
    /// The requested lock delay. Only the first hold's applies.
    pub lock_delay_ms: u64,
    /// The requested maximum hold time. Only the first hold's applies.
    pub max_hold_ms: Option<u64>,
}

impl Hold {
    /// The first hold of a grant.
    pub(crate) fn first_of(contender: &Contender) -> Hold {
        Hold {
            grant: contender.grant,
            attempt: contender.attempt,
            want: Want { lock: contender.lock.clone(), mode: contender.requested_mode },
            limit: contender.limit,
            permits: contender.permits,
            priority: contender.priority,
            meta: contender.meta.clone(),
            lock_delay_ms: contender.lock_delay_ms,
            max_hold_ms: contender.max_hold_ms,
        }
    }
}

/// A contender of a lock: a holder or a waiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contender {
    /// The grant's public number: the revision at which it queued, which is its node's `czxid`.
    pub number: GrantNumber,
    /// The grant's secret id.
    pub grant: GrantId,
    /// The lock.
    pub lock: LockName,
    /// The other locks of its request, in order. Each has a contender with the same number.
    pub others: Vec<Want>,
    /// Whether its lock is not the first one of the grant.
    pub secondary: bool,
    /// The session that owns it. It stays set after the session expired, while the grant cools.
    pub session: SessionNumber,
    /// Whether that session was made for this grant alone.
    pub anonymous: bool,
    /// The current mode.
    pub mode: Mode,
    /// The mode of its request.
    pub requested_mode: Mode,
    /// Whether it is a shared holder that waits to become the only holder.
    pub upgrading: bool,
    /// The limit of its request.
    pub limit: Option<u32>,
    /// How many permits it holds or waits for.
    pub permits: u32,
    /// The priority of its request.
    pub priority: i32,
    /// The priority that orders the queue, higher first: its own, or a lower one that keeps it behind a waiter that
    /// cannot be overtaken.
    pub effective_priority: i32,
    /// How many newcomers were placed before it while it was the longest waiter.
    pub overtaken: u32,
    /// Its owner, for people to read.
    pub owner: Owner,
    /// Pairs of text, for people to read.
    pub meta: Meta,
    /// The newest attempt, which is the one that counts: how often a caller attached.
    pub attempt: u64,
    /// Further holds of the same owner, in the order in which they were taken.
    pub further_holds: Vec<Hold>,
    /// Whether its first hold was released while further holds keep the grant.
    pub first_released: bool,
    /// The newest attempt to upgrade, which is the one that counts.
    pub upgrade_attempt: u64,
    /// The key of that attempt, if it had one.
    pub upgrade_key: Option<GrantId>,
    /// The keys of the requests that changed its mode or its timeout.
    pub keys: ChangeKeys,
    /// Whether the deadlock check was complete. A search that would visit too many contenders is given up.
    pub deadlock_checked: bool,
    /// The revision at which it was granted, which is its token. Only an upgrade changes it.
    pub granted_at: Option<Revision>,
    /// How long the lock stays blocked if the session expires while the grant is held, in milliseconds.
    pub lock_delay_ms: u64,
    /// The maximum hold time of its request, in milliseconds.
    pub max_hold_ms: Option<u64>,
    /// The maximum hold time that applies since it was granted: the smallest of its request and its locks.
    pub hold_ms: Option<u64>,
    /// The newest request of an administrator to release the lock.
    pub revoked: Option<Revocation>,
    /// Whether its session expired while it was held. It blocks the lock until the lock delay is over, and its token is
    /// no longer valid.
    pub cooling: bool,
    /// When it queued, by the clock of the node that received the request.
    pub queued_at: WallMillis,
    /// When it was granted, by the clock of the node that received the request that caused the grant.
    pub held_since: Option<WallMillis>,
    /// When it changed to its current mode, if it was granted in another.
    pub mode_since: Option<Moment>,
}

impl Contender {
    /// Its token, while it holds and does not cool.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        if self.cooling { None } else { self.granted_at.map(|revision| FencingToken(revision.0)) }
    }

    /// How many holds it has.
    #[must_use]
    pub fn holds(&self) -> usize {
        self.ids().count()
    }

    /// The ids of its holds.
    pub fn ids(&self) -> impl Iterator<Item = GrantId> + '_ {
        let first = (!self.first_released).then_some(self.grant);
        first.into_iter().chain(self.further_holds.iter().map(|hold| hold.grant))
    }

    /// The newest attempt on one of its holds.
    #[must_use]
    pub fn attempt_of(&self, id: &GrantId) -> u64 {
        self.further_holds.iter().find(|hold| hold.grant == *id).map_or(self.attempt, |hold| hold.attempt)
    }

    /// Whether a lock with this limit can never grant it.
    pub(crate) fn can_never_fit(&self, limit: u32) -> bool {
        self.permits > limit || (limit > 1 && self.mode == Mode::Shared)
    }

    /// Whether its grant has more than one lock.
    #[must_use]
    pub fn is_multi_lock(&self) -> bool {
        self.secondary || !self.others.is_empty()
    }

    /// Whether no newcomer may be placed before it: it waits in several queues, which must agree on the order, or it
    /// was overtaken often enough.
    #[must_use]
    pub fn cannot_be_overtaken(&self) -> bool {
        self.is_multi_lock() || self.overtaken >= OVERTAKEN_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Callers choose the ids, so they may end in any order.
    #[test]
    fn the_newest_ended_ids_are_remembered_however_their_ids_are_ordered() {
        let count = 3 * SESSION_TOMBSTONES_MAX as u128;
        let orders: [&dyn Fn(u128) -> u128; 4] =
            [&|turn| turn, &|turn| count - turn, &|turn| (turn * 7_919) % count, &|turn| turn / 2];
        for (order, id_of) in orders.iter().enumerate() {
            let mut ended = Ended::default();
            let mut expected: BTreeMap<GrantId, EndReason> = BTreeMap::new();
            let mut floor = None;
            for turn in 0..count {
                let id = GrantId::from_ulid(id_of(turn));
                let reason = if turn % 3 == 0 { EndReason::Released } else { EndReason::Expired };
                expected.insert(id, reason);
                let dropped = if expected.len() > SESSION_TOMBSTONES_MAX { expected.pop_first() } else { None };
                floor = floor.max(dropped.map(|(id, _)| id));
                assert_eq!(ended.remember(id, reason), dropped.map(|(id, _)| id), "order {order}, turn {turn}");
            }
            assert!(ended.ids().eq(expected.keys()), "order {order}");
            assert_eq!((ended.len(), ended.floor()), (expected.len(), floor), "order {order}");
            assert!(expected.iter().all(|(id, reason)| ended.get(id) == Some(*reason)), "order {order}");
            assert_eq!(ended.get(&GrantId::from_ulid(count + 1)), None);
        }
    }
}

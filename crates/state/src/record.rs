//! What the state stores: sessions, nodes of the tree, contenders and a lock's settings.

use crate::{
    command::{Meta, Owner, Want},
    keys::ChangeKeys,
    persistent,
    value::Value,
};
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, Revision, SessionId, SessionNumber,
    limits::{OVERTAKEN_MAX, SESSION_ENDED_IDS_MAX},
    time::WallMillis,
};
use imbl::OrdMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

pub use crate::kind::{NodeKind, PackedKind};

/// A client's liveness. It has no deadline: only the leader's clock knows one, and deadlines are not replicated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its public number: the revision that opened it.
    pub number: SessionNumber,
    /// Its secret id; a session that was made for one grant has none, the grant's id stands for it.
    pub id: Option<SessionId>,
    /// The idempotency key with which it was opened, where one was given.
    pub key: Option<GrantId>,
    /// How long it lives without a keepalive.
    pub timeout_ms: u64,
    /// Its name, for people.
    pub name: Box<str>,
    /// Its pairs of text, for people.
    pub meta: Meta,
    /// When it was opened, by the clock of the node that took the request.
    pub opened_at: WallMillis,
    /// Its ended grants.
    pub ended: Ended,
}

/// The ended grants that a session remembers. Most sessions had none, and then it is one word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended(Option<Box<EndedGrants>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct EndedGrants {
    /// The newest `SESSION_ENDED_IDS_MAX` by id.
    #[serde(deserialize_with = "persistent::map")]
    ids: OrdMap<GrantId, EndReason>,
    /// The newest id that was dropped from them.
    floor: Option<GrantId>,
}

impl Ended {
    /// How a grant ended, where it is remembered.
    #[must_use]
    pub fn get(&self, grant: &GrantId) -> Option<EndReason> {
        self.0.as_ref()?.ids.get(grant).copied()
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ended| ended.ids.len())
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &GrantId> {
        self.0.iter().flat_map(|ended| ended.ids.keys())
    }

    /// The newest id that was dropped: an unknown id up to here may have ended and been forgotten.
    #[must_use]
    pub fn floor(&self) -> Option<GrantId> {
        self.0.as_ref()?.floor
    }

    /// Remembers one more; the id that was dropped for it.
    pub(crate) fn remember(&mut self, grant: GrantId, reason: EndReason) -> Option<GrantId> {
        let ended = self.0.get_or_insert_default();
        ended.ids.insert(grant, reason);
        if ended.ids.len() <= SESSION_ENDED_IDS_MAX {
            return None;
        }
        let (oldest, _) = ended.ids.get_min().copied()?;
        ended.ids.remove(&oldest);
        ended.floor = ended.floor.max(Some(oldest));
        Some(oldest)
    }
}

// One that remembers none is written as an empty list without a floor: readers cannot tell how it is kept.
impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(ended) => ended.serialize(serializer),
            None => EndedGrants::default().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ended, D::Error> {
        let ended = EndedGrants::deserialize(deserializer)?;
        Ok(Ended((ended != EndedGrants::default()).then(|| Box::new(ended))))
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
    /// The session that owns it, if it is ephemeral; 0 for none.
    pub ephemeral_owner: SessionNumber,
    /// What kind of node it is.
    pub kind: PackedKind,
    /// Its value.
    pub value: Value,
    /// What it is to the lock recipe.
    pub role: NodeRole,
    /// Its access list, empty by default. It is kept and not enforced in this version.
    pub acl: Option<Arc<Vec<AclEntry>>>,
}

/// Who may do what with a node, in ZooKeeper's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    /// What is allowed: read 1, write 2, create 4, delete 8, administer 16.
    pub permissions: u32,
    /// How an identity is proved, like `world` or `digest`.
    pub scheme: String,
    /// Who, in the scheme's own words.
    pub id: String,
}

impl Znode {
    /// How often a child was created or removed, as ZooKeeper counts: twice the creates, less those still there.
    #[must_use]
    pub fn cversion(&self) -> i32 {
        self.creates.wrapping_mul(2).wrapping_sub(self.num_children).cast_signed()
    }

    /// Whether the leader's clock may have it removed, once it has stayed so for long enough: a container that had children
    /// and has none, or a TTL node without children.
    #[must_use]
    pub fn is_sweepable(&self) -> bool {
        let may_go = match self.kind.get() {
            NodeKind::Persistent | NodeKind::Ephemeral => false,
            NodeKind::Container => self.creates > 0,
            NodeKind::Ttl { .. } => true,
        };
        may_go && self.num_children == 0 && self.role == NodeRole::Data
    }

    /// The last change of its value or of its children.
    #[must_use]
    pub fn changed_at(&self) -> Revision {
        self.mzxid.max(self.pzxid)
    }
}

/// What a node is to the lock recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeRole {
    /// Nothing: plain data.
    Data,
    /// A lock.
    Lock(Box<LockSettings>),
    /// A contender of a lock: it holds the lock or waits for it.
    Contender(Box<Contender>),
}

/// What a lock keeps while nobody may stand in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockSettings {
    /// How many permits it has, once a grant has named a number.
    pub limit: Option<u32>,
    /// The last token issued.
    pub last_token: Option<FencingToken>,
    /// Whether it is an election, once somebody has stood in it.
    pub election: Option<bool>,
    /// Whether somebody ever stood in it; else it is only a level above another lock.
    pub used: bool,
    /// How many may wait, where an administrator said so.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, if an administrator set a limit.
    pub max_hold_ms: Option<u64>,
    /// An administrator set something that is not so by itself: it is not forgotten.
    pub kept: bool,
    /// When an administrator set the limit: those who were granted before may have more permits together.
    pub limited_at: Option<Revision>,
}

/// A further hold of a grant, as its request named it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its secret id.
    pub grant: GrantId,
    /// How often a caller attached to it.
    pub attempt: u64,
    /// The lock and the mode.
    pub want: Want,
    /// The limit.
    pub limit: Option<u32>,
    /// The permits.
    pub permits: u32,
    /// The priority.
    pub priority: i32,
    /// Pairs of text, for people.
    pub meta: Meta,
    /// The lock delay; that of the first hold is the one that counts.
    pub lock_delay_ms: u64,
    /// The longest time of holding; that of the first hold is the one that counts.
    pub max_hold_ms: Option<u64>,
}

impl Hold {
    /// The hold that a grant was taken with.
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

/// An administrator's request to a holder to release the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The revision at which it was said.
    pub revision: Revision,
    /// The client that asks for it, as text.
    pub by: String,
    /// The reason; may be empty.
    pub reason: String,
}

/// A contender of a lock: it holds the lock or waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contender {
    /// The grant's public number: the revision at which it queued, its node's `czxid`.
    pub number: GrantNumber,
    /// The grant's secret id.
    pub grant: GrantId,
    /// The lock.
    pub lock: LockName,
    /// The other locks that its request named, in order. They have contenders of the same number, to which all of this applies.
    pub others: Vec<Want>,
    /// It stands here for a grant whose first lock is another one.
    pub secondary: bool,
    /// The session that owns it; also after the session expired, while it cools.
    pub session: SessionNumber,
    /// Whether that session was made for this grant alone.
    pub anonymous: bool,
    /// Alone or shared, as it stands now.
    pub mode: Mode,
    /// The mode that its request named.
    pub requested_mode: Mode,
    /// It holds shared, and waits until it is the only one.
    pub upgrading: bool,
    /// The limit that its request named.
    pub limit: Option<u32>,
    /// How many permits it holds or wants.
    pub permits: u32,
    /// The priority that its request named.
    pub priority: i32,
    /// The priority by which it stands, higher before lower: its own, or that of one who stood there and may not be overtaken.
    pub effective_priority: i32,
    /// How often one who came later was placed before it, while it waited longest.
    pub overtaken: u32,
    /// Its owner, for people to read.
    pub owner: Owner,
    /// Pairs of text, for people.
    pub meta: Meta,
    /// How often a caller attached to it; the newest attempt is the one that counts.
    pub attempt: u64,
    /// Further holds by the same owner, in the order in which they were taken.
    pub further_holds: Vec<Hold>,
    /// The hold that it was taken with was given back, and further ones keep it.
    pub first_released: bool,
    /// How often a request waited to make it the only holder: the newest attempt is the one that counts.
    pub upgrade_attempt: u64,
    /// The key of the newest of these requests, where it had one.
    pub upgrade_key: Option<GrantId>,
    /// The keys of the requests that changed its mode or its timeout.
    pub keys: ChangeKeys,
    /// Whether it was checked that its waiting ends. It was not where the search would have looked at too much.
    pub deadlock_checked: bool,
    /// The revision at which it was granted, which is its token; set once, and anew by an upgrade.
    pub granted_at: Option<Revision>,
    /// How long the lock stays blocked when its session expires while it holds.
    pub lock_delay_ms: u64,
    /// The longest time of holding that its request named.
    pub max_hold_ms: Option<u64>,
    /// How long it may hold since it was granted, by its request and its lock.
    pub hold_ms: Option<u64>,
    /// An administrator asks it to give the lock back.
    pub revoked: Option<Revocation>,
    /// Its session expired while it held: it blocks until the lock delay is over, and its token is dead.
    pub cooling: bool,
    /// When it queued, by the clock of the node that took the request.
    pub queued_at: WallMillis,
    /// When it was granted, by the clock of the node that took the request which led to it.
    pub held_since: Option<WallMillis>,
    /// Since when it holds in this mode, where it has another one than the one in which it was granted.
    pub mode_since: Option<Moment>,
}

impl Contender {
    /// Its token, while it holds: neither before nor while it cools.
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

    /// The attempt that counts of one of its holds.
    #[must_use]
    pub fn attempt_of(&self, id: &GrantId) -> u64 {
        self.further_holds.iter().find(|hold| hold.grant == *id).map_or(self.attempt, |hold| hold.attempt)
    }

    /// Whether it can never be granted by a lock with that limit.
    pub(crate) fn can_never_fit(&self, limit: u32) -> bool {
        self.permits > limit || (limit > 1 && self.mode == Mode::Shared)
    }

    /// Whether its grant has several locks.
    #[must_use]
    pub fn is_multi_lock(&self) -> bool {
        self.secondary || !self.others.is_empty()
    }

    /// Whether nobody who comes later is placed before it: it waits in several queues, which must have one order, or it was
    /// overtaken often enough.
    #[must_use]
    pub fn cannot_be_overtaken(&self) -> bool {
        self.is_multi_lock() || self.overtaken >= OVERTAKEN_MAX
    }
}

/// A point in the history: the revision decides, the time is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The revision.
    pub revision: Revision,
    /// The time that rode in the command, by the clock of the node that made it.
    pub at: WallMillis,
}

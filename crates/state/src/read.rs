//! Reads of the state.

use crate::{
    State,
    command::{HolderFacts, Rejection},
    membership::Membership,
    queue_view::{Before, LockSummary, QueueEntry},
    record::{Contender, SessionRecord},
    tombstones::Tombstone,
};
use fairhold_types::{
    ClusterId, ClusterVersion, EndReason, FencingToken, GrantId, GrantNumber, LockName, Revision, SessionId, SessionNumber,
    planted::{self, Bug},
};
use std::ops::Deref;

/// How many of the newest holders are searched for the current token after a refused fence. A lock can have far more.
const NEWEST_CHECKED_MAX: usize = 500;

/// The grant to which an id refers.
#[derive(Debug)]
pub enum GrantStatus<'a> {
    /// A live grant, held or queued.
    Live(&'a Contender),
    /// An ended grant.
    Ended(EndReason),
    /// Not known, or forgotten.
    Unknown,
}

/// A lock with its holders. It dereferences to the lock's summary.
#[derive(Debug)]
pub struct LockView<'a> {
    /// The holders and cooling grants, in the order in which they queued.
    pub holders: Vec<&'a Contender>,
    summary: LockSummary,
}

impl Deref for LockView<'_> {
    type Target = LockSummary;

    fn deref(&self) -> &LockSummary {
        &self.summary
    }
}

/// Counts of everything in the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Locks that have a holder or a waiter.
    pub locks: usize,
    /// Held grants.
    pub held: usize,
    /// Queued grants.
    pub waiting: usize,
    /// Cooling grants.
    pub cooling: usize,
    /// Sessions, including those made for one grant.
    pub sessions: usize,
    /// Nodes of the tree, including those of locks and contenders.
    pub nodes: usize,
    /// Entries in the history of locks.
    pub history: usize,
    /// Total size of all node values in bytes.
    pub value_bytes: u64,
}

impl State {
    /// The revision of the last change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The cluster's identity, once it is formed.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The cluster's version.
    #[must_use]
    pub fn cluster_version(&self) -> ClusterVersion {
        self.version
    }

    /// Join tokens, pending changes of members, removed nodes, and settings of members.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// A session by its number.
    #[must_use]
    pub fn session(&self, number: SessionNumber) -> Option<&SessionRecord> {
        self.sessions.get(&number).map(|session| &**session)
    }

    /// A named session by its secret id.
    #[must_use]
    pub fn session_by_id(&self, id: &SessionId) -> Option<&SessionRecord> {
        self.session_number(id).and_then(|number| self.session(number))
    }

    /// The number of a named session, by its secret id.
    #[must_use]
    pub fn session_number(&self, id: &SessionId) -> Option<SessionNumber> {
        self.index.session_ids.get(id).copied()
    }

    /// All sessions by number, including those made for one grant.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionRecord> {
        self.sessions.values().map(|session| &**session)
    }

    /// The sessions with a higher number, by number.
    pub fn sessions_after(&self, number: SessionNumber) -> impl Iterator<Item = &SessionRecord> {
        self.sessions.range(SessionNumber(number.0.saturating_add(1))..).map(|(_, session)| &**session)
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The live grants of a session, by number.
    pub fn contenders_of(&self, session: SessionNumber) -> impl Iterator<Item = &Contender> {
        self.index.of_session.get(&session).into_iter().flatten().filter_map(|number| self.contender(*number))
    }

    /// The grant to which an id refers.
    #[must_use]
    pub fn grant(&self, id: &GrantId) -> GrantStatus<'_> {
        match self.index.ids.grant(id).and_then(|number| self.contender(number)) {
            Some(contender) if self.is_dead(contender) => GrantStatus::Ended(self.end_of_dead(contender)),
            Some(contender) => GrantStatus::Live(contender),
            None => self.use_of(id).ended_reason().map_or(GrantStatus::Unknown, GrantStatus::Ended),
        }
    }

    /// The reason that an administrator gave for breaking a grant, while it is remembered.
    #[must_use]
    pub fn break_note(&self, id: &GrantId) -> Option<String> {
        let remembered = || if let Tombstone::Broken { note } = self.tombstones.get(id)? { Some(note.clone()) } else { None };
        let live = self.index.ids.grant(id).and_then(|number| self.contender(number));
        live.and_then(|contender| self.break_note_of_dead(contender)).or_else(remembered)
    }

    /// A contender by its number, in any phase.
    #[must_use]
    pub fn contender(&self, number: GrantNumber) -> Option<&Contender> {
        self.tree.contender(number)?.contender()
    }

    /// A lock with its holders. A lock that was never used has no contenders.
    #[must_use]
    pub fn lock(&self, name: &LockName) -> LockView<'_> {
        LockView { holders: self.all_holders(name).collect(), summary: self.lock_summary(name) }
    }

    /// All contenders of a lock: its holders, then its waiters, in order. Walks over all of them.
    #[must_use]
    pub fn queue(&self, name: &LockName) -> Vec<QueueEntry<'_>> {
        self.queue_after(name, None, Before::default()).collect()
    }

    /// The first `count` contenders of a lock: its holders, then its waiters, in order.
    pub fn front(&self, name: &LockName, count: usize) -> impl Iterator<Item = &Contender> {
        let queue = self.queue_of(name);
        let holders = queue.into_iter().flat_map(|queue| &queue.holders).copied();
        let waiting = queue.into_iter().flat_map(|queue| &queue.waiting).map(|rank| rank.number());
        holders.chain(waiting).take(count).filter_map(|number| self.contender_in(name, number))
    }

    /// Passes only while a held grant has this token. If `grant` is given, it must be that grant. Never walks over many
    /// holders.
    pub fn verify_fence(&self, lock: &LockName, token: FencingToken, grant: Option<&GrantId>) -> Result<(), Rejection> {
        let holds = match grant {
            Some(grant) => {
                let holder = self.index.ids.grant(grant).and_then(|number| self.contender_in(lock, number));
                holder.is_some_and(|holder| self.token_of(holder) == Some(token))
            }
            None => self.has_token(lock, token),
        };
        if holds || fence_unchecked() {
            return Ok(());
        }
        Err(Rejection::StaleToken { current: self.newest_token(lock) })
    }

    fn has_token(&self, lock: &LockName, token: FencingToken) -> bool {
        match self.queue_of(lock).and_then(|queue| queue.by_holder.as_ref()) {
            _ if self.index.breaking.contains_key(lock) => false,
            Some(index) => index.with_token(token).any(|number| self.valid_token(lock, number) == Some(token)),
            None => self.all_holders(lock).any(|holder| self.token_of(holder) == Some(token)),
        }
    }

    /// The newest valid token of a lock, searched among the newest holders only.
    fn newest_token(&self, lock: &LockName) -> Option<FencingToken> {
        match self.queue_of(lock).and_then(|queue| queue.by_holder.as_ref()) {
            _ if self.index.breaking.contains_key(lock) => None,
            Some(index) => index.newest().take(NEWEST_CHECKED_MAX).find_map(|number| self.valid_token(lock, number)),
            None => self.all_holders(lock).filter_map(|holder| self.token_of(holder)).max(),
        }
    }

    fn valid_token(&self, lock: &LockName, number: GrantNumber) -> Option<FencingToken> {
        self.contender_in(lock, number).and_then(|holder| self.token_of(holder))
    }

    /// The facts about a holder that a refused caller sees.
    pub(crate) fn holder_facts(&self, holder: &Contender) -> HolderFacts {
        HolderFacts {
            number: holder.number,
            owner: holder.owner.text.clone(),
            token: self.token_of(holder),
            since: holder.held_since.unwrap_or(holder.queued_at),
        }
    }

    /// All holders of a lock.
    fn all_holders<'a>(&'a self, lock: &LockName) -> impl Iterator<Item = &'a Contender> {
        let queue = self.queue_of(lock);
        queue.into_iter().flat_map(|queue| &queue.holders).filter_map(|number| self.contender_in(lock, *number))
    }

    /// Counts of everything in the state, without a walk.
    #[must_use]
    pub fn census(&self) -> Census {
        let waiting = self.index.waiting;
        let cooling = self.index.cooling.len();
        Census {
            locks: self.index.busy.len(),
            held: self.tree.grants() - waiting - cooling,
            waiting,
            cooling,
            sessions: self.sessions.len(),
            nodes: self.tree.len(),
            history: self.tree.locks.history_len,
            value_bytes: self.tree.value_bytes(),
        }
    }

    /// Grants whose lock delay runs. A new leader restarts each delay in full.
    pub fn cooling(&self) -> impl Iterator<Item = &Contender> {
        self.index.cooling.iter().filter_map(|number| self.contender(*number))
    }

    /// Held grants with a maximum hold time.
    pub fn bounded_holds(&self) -> impl Iterator<Item = &Contender> {
        self.index.bounded.iter().filter_map(|number| self.contender(*number))
    }

    /// Locks without contenders and the revision since which each has had none, for `Command::ForgetLocks`.
    pub fn idle_locks(&self) -> impl Iterator<Item = (LockName, Revision)> + '_ {
        let locks = self.tree.locks.records.keys();
        locks.filter_map(|lock| Some((lock.clone(), self.idle_since(lock)?)))
    }

    /// The revision since which a lock has had no contenders; `None` if it has any, has no node, or has settings to
    /// keep.
    #[must_use]
    pub fn idle_since(&self, lock: &LockName) -> Option<Revision> {
        let node = self.lock_record(lock)?.node.as_ref()?;
        node.settings().filter(|settings| node.num_children == 0 && !settings.kept).map(|_| node.pzxid)
    }

    /// The revisions of the oldest and the newest tombstone in the table, for `Command::Forget`.
    #[must_use]
    pub fn remembered_span(&self) -> Option<(Revision, Revision)> {
        self.tombstones.span()
    }
}

/// Always false, except with the planted bug.
fn fence_unchecked() -> bool {
    planted::has(Bug::FenceUnchecked)
}

//! A second implementation of the machine's rules, as plain as possible: lists that are searched from end to end, and
//! no index.
//!
//! It shares no rule with the machine, only its vocabulary. If the two differ, one of them is wrong.

#[path = "shown.rs"]
pub(crate) mod shown;

use crate::naive_membership::{MembershipMistakes, NaiveMembership};
use crate::naive_tree::{NaiveTree, Now, TreeMistakes};
use fairhold_state::command::{
    Acquire, AdmitNode, Blocked, Break, Claimant, ClusterEvent, Command, Condition, CreateJoinToken, Event, HeldGrant,
    HolderFacts, IfBusy, JoinTokenFault, Lifetime, Meta, OpenSession, Operation, OperationResult, Outcome, Owner, Part, Proclaim,
    Queued, Rejection, RequestRemoval, Revoke, SessionKey, SetLock, SetMember, Sweepable, Transact, Want, WriteKey,
};
use fairhold_state::{
    record::{Moment, Revocation},
    statistics::Statistics,
};
use fairhold_types::{
    ClusterId, ClusterVersion, EndReason, FencingToken, GrantId, GrantNumber, HoldingEnd, JoinTokenNumber, LockName, Mode,
    NodeId, Path, Revision, SessionId, SessionNumber, limits, time::WallMillis,
};
use std::collections::BTreeMap;

/// A mistake that the model makes on request, to show that the comparison finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    PriorityIgnored,
    ReadersPassWriters,
    SmallPassesLarge,
    TokenIsTheQueueRevision,
    LateAbandonEnds,
    WithdrawEndsHolders,
    NothingCools,
    CoolingTokenPasses,
    UnknownReleaseNotRemembered,
    SecondReleaseChangesNothing,
    NoFloor,
    ReaderTokenForAnyReader,
    LimitForgottenWhenIdle,
    ExpiryIsRelease,
    BreakSparesCooling,
    BreakEndsWaiters,
    BreakIsRepeated,
    RemovalLeavesPzxid,
    SequenceIsTheNumberOfChildren,
    SweepTakesWhatChanged,
    ParentBeforeChild,
    EphemeralsStay,
    HistoryHasWaiters,
    HistoryEndsWithCooling,
    DowngradeTakesAnotherToken,
    DowngradeNextToOthers,
    UpgradeKeepsTheToken,
    ReadersJoinAnUpgrade,
    SeveralLocksAreGrantedOneByOne,
    PriorityPassesSeveral,
    PriorityNeverAges,
    DeadlocksAreNotFound,
    AnyReleaseEndsAllHolds,
    LoweredLimitEndsNobody,
    OwnersAreOneActor,
    AnUpgradeLeavesNoEntry,
    AnyCandidateProclaims,
    VacancyIsNotReported,
    AnElectionMayBeALock,
    KeysOfChangesForgotten,
    ServerIdsAreForgotten,
    ReleaseForgetsTheSession,
    AnyAttemptEndsAnUpgrade,
    TheLongerBoundCounts,
    AnUpgradeKeepsItsBound,
    AContendersNameIsALock,
    LowestFreeId,
    TokensNeverExpire,
    TokensAdmitAnyDirectory,
    AMemberIsReplacedTwice,
    SettingsOutliveTheMember,
    ASettledAddressIsNotSet,
    ARemovedNodeJoinsAgain,
    ReplacementsAreNotNamed,
    EachRequestCreatesAToken,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) id: GrantId,
    pub(crate) lock: LockName,
    session: u64,
    anonymous: bool,
    pub(crate) mode: Mode,
    pub(crate) upgrading: bool,
    requested_limit: Option<u32>,
    pub(crate) permits: u32,
    pub(crate) priority: i32,
    /// The priority of its place in the queue.
    pub(crate) effective_priority: i32,
    overtaken: u32,
    /// All locks of its grant, with the requested modes.
    pub(crate) together: Vec<Want>,
    owner: Owner,
    meta: Meta,
    pub(crate) attempt: u64,
    /// Further holds, with their attempts.
    pub(crate) more: Vec<(Acquire, u64)>,
    /// Whether the first hold was released.
    first_released: bool,
    upgrade_attempt: u64,
    upgrade_key: Option<GrantId>,
    /// The keys of its changes, and the newest key that was dropped.
    changes: Vec<(GrantId, [u8; 16])>,
    changes_floor: Option<GrantId>,
    max_hold: Option<u64>,
    bound: Option<u64>,
    pub(crate) granted: Option<u64>,
    delay: u64,
    pub(crate) cooling: bool,
    /// When it was granted; until then, when it queued.
    since: WallMillis,
    queued: WallMillis,
    /// Since when its mode differs from the one in which it was granted.
    mode_since: Option<Moment>,
    /// The last request to give it up.
    revoked: Option<Revocation>,
    /// Its node.
    path: Path,
    /// What it proclaims, if it is a candidate; how often it did, and the last revision at which it did.
    value: Option<Vec<u8>>,
    version: i32,
    proclaimed: u64,
}

impl Entry {
    fn ended(&self, reason: EndReason) -> Event {
        let (lock, grant, session) = (self.lock.clone(), GrantNumber(self.number), SessionNumber(self.session));
        Event::Ended { lock, grant, session, reason }
    }

    pub(crate) fn ids(&self) -> Vec<GrantId> {
        let first = (!self.first_released).then_some(self.id);
        first.into_iter().chain(self.more.iter().map(|(acquire, _)| acquire.grant)).collect()
    }

    fn attempt_of(&self, id: &GrantId) -> u64 {
        self.more.iter().find(|(acquire, _)| acquire.grant == *id).map_or(self.attempt, |(_, attempt)| *attempt)
    }
}

#[derive(Debug, Clone)]
struct Session {
    number: u64,
    id: Option<SessionId>,
    key: Option<GrantId>,
    timeout: u64,
    name: String,
    meta: Meta,
    opened: WallMillis,
    ended: Vec<(GrantId, EndReason)>,
    floor: Option<GrantId>,
}

#[derive(Debug, Clone)]
struct Lock {
    name: LockName,
    limit: Option<u32>,
    max_waiters: Option<u64>,
    max_hold: Option<u64>,
    /// When an administrator set the limit.
    limited: Option<u64>,
    kept: bool,
    /// Whether it is an election; set by its first contender.
    election: Option<bool>,
    last_token: Option<u64>,
    /// How many children its node ever had.
    creates: u64,
    /// The last revision at which a contender or a lower lock came or went.
    since: u64,
}

/// A finished hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastHold {
    pub(crate) lock: LockName,
    pub(crate) number: u64,
    pub(crate) session: u64,
    pub(crate) owner: String,
    pub(crate) mode: Mode,
    pub(crate) permits: u32,
    pub(crate) queued: WallMillis,
    pub(crate) token: u64,
    pub(crate) from: WallMillis,
    pub(crate) ended: u64,
    pub(crate) to: WallMillis,
    pub(crate) how: HoldingEnd,
    pub(crate) by: String,
    pub(crate) reason: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Past {
    Grant(EndReason),
    Session,
    Write([u8; 16], Outcome),
    Broken(String),
}

type Result<T> = std::result::Result<T, Rejection>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    pub(crate) revision: u64,
    mistake: Option<Mistake>,
    cluster: Option<ClusterId>,
    /// How many times the cluster's version has been raised.
    raised: u16,
    capacities: BTreeMap<NodeId, u64>,
    sessions: Vec<Session>,
    pub(crate) entries: Vec<Entry>,
    locks: Vec<Lock>,
    /// Locks that ever had a contender, or that an administrator set.
    used: Vec<LockName>,
    /// The grants that end in this step.
    ending: Vec<u64>,
    /// No waiter is granted before the end of this step.
    grants_paused: bool,
    past: Vec<(GrantId, u64, Past)>,
    pub(crate) history: Vec<PastHold>,
    numbers: BTreeMap<LockName, Statistics>,
    totals: Statistics,
    pub(crate) tree: NaiveTree,
    pub(crate) members: NaiveMembership,
    facts: Vec<Event>,
    changed: bool,
    at: WallMillis,
}

fn other_request<T>() -> Result<T> {
    Err(Rejection::IdempotencyMismatch { field: "request".to_owned() })
}

fn mismatch<T>(field: &str) -> Result<T> {
    Err(Rejection::IdempotencyMismatch { field: field.to_owned() })
}

impl Naive {
    pub(crate) fn new(mistake: Option<Mistake>) -> Naive {
        let mut tree = NaiveTree::default();
        tree.mistakes = TreeMistakes {
            removal_leaves_pzxid: mistake == Some(Mistake::RemovalLeavesPzxid),
            sequence_is_the_number_of_children: mistake == Some(Mistake::SequenceIsTheNumberOfChildren),
            sweep_takes_what_changed: mistake == Some(Mistake::SweepTakesWhatChanged),
            parent_first: mistake == Some(Mistake::ParentBeforeChild),
        };
        let mut members = NaiveMembership::default();
        members.mistakes = MembershipMistakes {
            lowest_free_id: mistake == Some(Mistake::LowestFreeId),
            tokens_never_expire: mistake == Some(Mistake::TokensNeverExpire),
            tokens_admit_any_directory: mistake == Some(Mistake::TokensAdmitAnyDirectory),
            a_member_is_replaced_twice: mistake == Some(Mistake::AMemberIsReplacedTwice),
            settings_outlive_the_member: mistake == Some(Mistake::SettingsOutliveTheMember),
            a_settled_address_is_not_set: mistake == Some(Mistake::ASettledAddressIsNotSet),
            a_removed_node_joins_again: mistake == Some(Mistake::ARemovedNodeJoinsAgain),
            replacements_are_not_named: mistake == Some(Mistake::ReplacementsAreNotNamed),
        };
        Naive { mistake, tree, members, ..Naive::default() }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn now(&self) -> u64 {
        self.revision + 1
    }

    /// The answer, and the facts about sessions and grants in any order.
    pub(crate) fn apply(&mut self, command: &Command) -> (Result<Outcome>, Vec<Event>) {
        self.facts.clear();
        self.tree.begin();
        self.changed = false;
        self.at = command.at();
        let before = self.clone();
        let result = self.run(command);
        if result.is_err() {
            *self = before;
        } else if self.changed {
            self.revision += 1;
            self.drop_numbers();
        }
        let of_members = std::mem::take(&mut self.members.events);
        self.facts.extend(of_members.into_iter().map(Event::Cluster));
        (result, std::mem::take(&mut self.facts))
    }

    fn change_members(&mut self, change: impl FnOnce(&mut NaiveMembership) -> bool) -> Outcome {
        let changed = change(&mut self.members);
        self.done_if(changed)
    }

    fn admit_node(&mut self, order: &AdmitNode) -> Result<Outcome> {
        let (outcome, changed) = self.members.admit(order)?;
        self.changed = changed;
        Ok(outcome)
    }

    fn request_removal(&mut self, order: &RequestRemoval) -> Result<Outcome> {
        if self.members.leaves_no_voter(order) {
            return Err(Rejection::NoVoterLeft { node: order.node });
        }
        Ok(self.change_members(|members| members.request_removal(order)))
    }

    fn run(&mut self, command: &Command) -> Result<Outcome> {
        match command {
            Command::FormCluster { cluster } => Ok(self.form(*cluster, 1)),
            Command::FormClusterAt { cluster, version } => Ok(self.form(*cluster, version.0)),
            Command::RaiseClusterVersion { to } => Ok(self.raise(to.0)),
            Command::OpenSession(open) => self.open(open),
            Command::CloseSession { session, at: _ } => self.close(session),
            Command::ExpireSession { session, at: _ } => Ok(self.expire(session.0)),
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Withdraw { grant, attempt, at: _ } => self.withdraw(grant, *attempt),
            Command::Abandon { grant, attempt, at: _ } => Ok(self.abandon(grant, *attempt)),
            Command::Release { grant, session, at: _ } => Ok(self.release(grant, session.as_ref())),
            Command::SetGrantTimeout { grant, timeout_ms, key, at: _ } => self.retime(grant, *timeout_ms, key.as_ref()),
            Command::EndCooling { grants, at: _ } => {
                self.together(|naive| grants.iter().for_each(|grant| drop(naive.cool(grant.0))));
                Ok(self.judged(grants.len()))
            }
            Command::Forget { through } => Ok(self.forget(through.0)),
            Command::ForgetLocks { locks } => {
                locks.iter().for_each(|(lock, since)| drop(self.forget_lock(lock, since.0)));
                Ok(self.judged(locks.len()))
            }
            Command::Transact(transact) => self.transact(transact),
            Command::Break(order) => self.break_lock(order),
            Command::EndSession { session, by, reason, at: _ } => self.end_session(session.0, by, reason),
            Command::Sweep { nodes, at: _ } => Ok(self.sweep(nodes)),
            Command::Proclaim(order) => self.proclaim(order),
            Command::ForgetHistory { through } => Ok(self.forget_history(through.0)),
            Command::Downgrade { grant, key, at: _ } => self.downgrade(grant, key.as_ref()),
            Command::Upgrade { grant, if_busy, key, at: _ } => self.upgrade(grant, *if_busy, key.as_ref()),
            Command::EndUpgrade { grant, attempt, at: _ } => self.end_upgrade(grant, *attempt),
            Command::SetLock(order) => self.set_lock(order),
            Command::Revoke(order) => self.revoke(order),
            Command::EndHolds { holds, at: _ } => {
                self.together(|naive| holds.iter().for_each(|(grant, token)| drop(naive.end_bounded(grant.0, token.0))));
                Ok(self.judged(holds.len()))
            }
            // The model never splits work into pieces.
            Command::ContinuePendingWork { at: _ } => Ok(Outcome::Nothing),
            Command::RecordKey { key, at: _ } => self.once(key, |_| ()),
            // The model does not count bytes. The comparison with the machine handles refusals for lack of room.
            Command::RecordCapacity { node, bytes } if self.capacities.get(node) == Some(bytes) => Ok(Outcome::Nothing),
            Command::RecordCapacity { node, bytes } => {
                self.capacities.insert(*node, *bytes);
                Ok(self.done())
            }
            Command::CreateJoinToken(order) => self.create_join_token(order),
            Command::RevokeJoinToken { number, at: _ } => Ok(self.change_members(|members| members.revoke(number.0))),
            Command::AdmitNode(order) => self.admit_node(order),
            Command::SettleJoin { node, at: _ } => Ok(self.change_members(|members| members.settle(*node))),
            Command::RequestRemoval(order) => self.request_removal(order),
            Command::RecordRemoval { node, incarnation, ids_through, at } => {
                let now = (self.now(), *at);
                Ok(self.change_members(|members| members.record_removal(*node, *incarnation, *ids_through, now)))
            }
            Command::SetMember(order) => self.set_member(order),
            Command::SetTiming { key: Some(key), timing, by, at: _ } => self.once(key, |naive| {
                naive.members.set_timing(*timing, by);
            }),
            Command::SetTiming { key: None, timing, by, at: _ } => {
                Ok(self.change_members(|members| members.set_timing(*timing, by)))
            }
            // `tests/access.rs` has a model of its own.
            Command::Guarded(_)
            | Command::ForTenant(_)
            | Command::ChangeAccess(_)
            | Command::ExpireTokens { .. }
            | Command::Attributed(_)
            | Command::NoteAct(_) => {
                unreachable!("these histories change no rights and have no origins: {command:?}")
            }
        }
    }

    fn judged(&self, objects: usize) -> Outcome {
        Outcome::Judged { objects: objects as u64 }
    }

    /// Whether a key was used for something other than an acquire: a session, a change of a live grant, or a remembered
    /// write.
    fn is_used(&self, key: &GrantId) -> bool {
        let changes =
            self.entries.iter().filter(|entry| !entry.cooling).any(|entry| entry.changes.iter().any(|(known, _)| known == key));
        self.live(key).is_some() || self.is_session_key(key) || changes || self.past_of(key).is_some()
    }

    /// Executes a keyed command once; a repeated one does nothing.
    fn once(&mut self, key: &WriteKey, work: impl FnOnce(&mut Naive)) -> Result<Outcome> {
        match self.past_of(&key.key) {
            Some(Past::Write(fingerprint, _)) if fingerprint == key.fingerprint => return Ok(Outcome::Nothing),
            _ if self.is_used(&key.key) => return other_request(),
            _ => {}
        }
        work(self);
        let outcome = Outcome::Written { succeeded: true, results: Vec::new(), at: Revision(self.now()) };
        self.past.push((key.key, self.now(), Past::Write(key.fingerprint, outcome)));
        Ok(self.done())
    }

    /// Whether that request changed the grant before.
    fn already_changed(&self, entry: &Entry, key: Option<&WriteKey>) -> Result<bool> {
        let Some(key) = key else { return Ok(false) };
        if self.makes(Mistake::KeysOfChangesForgotten) {
            return Ok(false);
        }
        match entry.changes.iter().find(|(known, _)| *known == key.key) {
            Some((_, fingerprint)) if *fingerprint == key.fingerprint => Ok(true),
            Some(_) => other_request(),
            None if self.was_written(key) => Ok(true),
            None if self.is_used(&key.key) => other_request(),
            None if Some(key.key) <= entry.changes_floor => Err(Rejection::Forgotten),
            None => Ok(false),
        }
    }

    fn was_written(&self, key: &WriteKey) -> bool {
        self.past.iter().any(|(id, _, past)| *id == key.key && matches!(past, Past::Write(of, _) if *of == key.fingerprint))
    }

    /// Remembers that a request has changed a grant; returns whether it had a key.
    fn remember_change(&mut self, number: u64, key: Option<&WriteKey>) -> bool {
        let Some(key) = key else { return false };
        let now = self.now();
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.number == number && entry.lock == entry.together[0].lock)
        {
            entry.changes.push((key.key, key.fingerprint));
            entry.changes.sort_unstable();
            if entry.changes.len() > limits::GRANT_KEYS_MAX {
                let (oldest, fingerprint) = entry.changes.remove(0);
                entry.changes_floor = entry.changes_floor.max(Some(oldest));
                let outcome = Outcome::Written { succeeded: true, results: Vec::new(), at: Revision(now) };
                self.past.push((oldest, now, Past::Write(fingerprint, outcome)));
            }
        }
        self.changed = true;
        true
    }

    /// Keeps the keys that changed a grant after the grant has ended.
    fn keep_change_keys(&mut self, entry: &Entry) {
        let at = self.now();
        for (key, fingerprint) in &entry.changes {
            let outcome = Outcome::Written { succeeded: true, results: Vec::new(), at: Revision(at) };
            self.past.push((*key, at, Past::Write(*fingerprint, outcome)));
        }
    }

    fn done(&mut self) -> Outcome {
        self.changed = true;
        Outcome::Done
    }

    fn done_if(&mut self, changed: bool) -> Outcome {
        if changed { self.done() } else { Outcome::Nothing }
    }

    // Members

    fn create_join_token(&mut self, order: &CreateJoinToken) -> Result<Outcome> {
        if let Some(key) = order.key.filter(|_| !self.makes(Mistake::EachRequestCreatesAToken)) {
            let written = self.was_written(&key);
            if self.is_used(&key.key) && !written {
                return other_request();
            }
            match self.members.created_with(order) {
                Some((_, fingerprint)) if fingerprint != key.fingerprint => return other_request(),
                Some((number, _)) => {
                    return Ok(Outcome::JoinTokenCreated { number: JoinTokenNumber(number), repeated: true });
                }
                None if written => return Err(Rejection::JoinToken(JoinTokenFault::Unknown)),
                None => {}
            }
        }
        let outcome = self.members.create(order)?;
        if let Some(key) = order.key {
            let written = Outcome::Written { succeeded: true, results: Vec::new(), at: Revision(self.now()) };
            self.past.push((key.key, self.now(), Past::Write(key.fingerprint, written)));
        }
        self.changed = true;
        Ok(outcome)
    }

    fn set_member(&mut self, order: &SetMember) -> Result<Outcome> {
        if self.members.is_removed(order.node) {
            // The key must have no other use all the same.
            let other = order.key.filter(|key| self.is_used(&key.key) && !self.was_written(key));
            return other.map_or(Ok(Outcome::Nothing), |_| other_request());
        }
        match &order.key {
            Some(key) => self.once(key, |naive| {
                naive.members.set(order);
            }),
            None => {
                let changed = self.members.set(order);
                Ok(self.done_if(changed))
            }
        }
    }

    fn form(&mut self, cluster: ClusterId, version: u16) -> Outcome {
        if self.cluster.is_some() {
            return Outcome::Nothing;
        }
        self.cluster = Some(cluster);
        self.raised = self.raised.max(version - 1);
        self.done()
    }

    fn raise(&mut self, to: u16) -> Outcome {
        if to != self.raised + 2 {
            return Outcome::Nothing;
        }
        self.raised += 1;
        self.members.events.push(ClusterEvent::Finalized { version: ClusterVersion(to) });
        self.done()
    }

    // Sessions

    fn open(&mut self, open: &OpenSession) -> Result<Outcome> {
        let known = self.sessions.iter().find(|session| open.key.is_some() && session.key == open.key);
        if let Some(known) = known {
            if known.timeout != open.timeout_ms {
                return mismatch("ttl");
            }
            if known.name != open.name {
                return mismatch("name");
            }
            if known.meta != open.meta {
                return mismatch("meta");
            }
            return Ok(Outcome::SessionOpened {
                id: known.id.expect("it has a key, so it has an id"),
                number: SessionNumber(known.number),
                timeout_ms: known.timeout,
            });
        }
        if let Some(key) = open.key {
            match self.past_of(&key) {
                Some(Past::Session) => return Err(Rejection::SessionEnded),
                Some(Past::Grant(_) | Past::Broken(_) | Past::Write(..)) => return other_request(),
                None if self.is_used(&key) => return other_request(),
                None => {}
            }
        }
        // The same command, proposed twice.
        if let Some(known) = self.sessions.iter().find(|session| session.id == Some(open.id)) {
            let (number, timeout_ms) = (SessionNumber(known.number), known.timeout);
            return Ok(Outcome::SessionOpened { id: open.id, number, timeout_ms });
        }
        let number = self.now();
        self.sessions.push(Session {
            number,
            id: Some(open.id),
            key: open.key,
            timeout: open.timeout_ms,
            name: open.name.clone(),
            meta: open.meta.clone(),
            opened: open.at,
            ended: Vec::new(),
            floor: None,
        });
        self.changed = true;
        self.facts.push(Event::SessionOpened { session: SessionNumber(number), timeout_ms: open.timeout_ms });
        Ok(Outcome::SessionOpened { id: open.id, number: SessionNumber(number), timeout_ms: open.timeout_ms })
    }

    fn close(&mut self, id: &SessionId) -> Result<Outcome> {
        let Some(session) = self.sessions.iter().find(|session| session.id == Some(*id)) else {
            return Err(Rejection::NoSession);
        };
        let number = session.number;
        self.end_nodes(number);
        self.facts.push(Event::SessionClosed { session: SessionNumber(number) });
        let (mine, others) = self.entries.iter().cloned().partition(|entry| entry.session == number && !entry.cooling);
        self.entries = others;
        self.end_whole_session(number, mine, None);
        Ok(self.done())
    }

    fn expire(&mut self, number: u64) -> Outcome {
        if !self.sessions.iter().any(|session| session.number == number) {
            return Outcome::Nothing;
        }
        self.facts.push(Event::SessionExpired { session: SessionNumber(number) });
        self.end_nodes(number);
        let mut cooled = Vec::new();
        let cools = !self.makes(Mistake::NothingCools);
        for entry in self.entries.iter_mut().filter(|entry| entry.session == number && !entry.cooling) {
            if cools && entry.granted.is_some() && entry.delay > 0 {
                entry.cooling = true;
                entry.upgrading = false;
                cooled.push(entry.clone());
            }
        }
        for entry in cooled {
            if !self.makes(Mistake::HistoryEndsWithCooling) {
                self.record_hold(&entry, EndReason::Expired);
            }
            let (lock, grant, session) = (entry.lock.clone(), GrantNumber(entry.number), SessionNumber(number));
            self.facts.push(Event::Ended { lock: lock.clone(), grant, session, reason: EndReason::Expired });
            self.facts.push(Event::Cooling { lock, grant, delay_ms: entry.delay });
            for id in entry.ids() {
                self.remember(id, Past::Grant(EndReason::Expired));
            }
            self.keep_change_keys(&entry);
        }
        let (mine, others) = self.entries.iter().cloned().partition(|entry| entry.session == number && !entry.cooling);
        self.entries = others;
        let reason = if self.makes(Mistake::ExpiryIsRelease) { EndReason::Released } else { EndReason::Expired };
        self.end_whole_session(number, mine, Some(reason));
        self.done()
    }

    fn end_nodes(&mut self, session: u64) {
        if !self.makes(Mistake::EphemeralsStay) {
            self.tree.end_session(session, self.now());
        }
    }

    /// Ends a session and everything that it still owns, then grants waiters.
    fn end_whole_session(&mut self, number: u64, mine: Vec<Entry>, reason: Option<EndReason>) {
        for entry in &mine {
            let as_it_stood = if entry.granted.is_some() { EndReason::Released } else { EndReason::Withdrawn };
            let reason = reason.unwrap_or(as_it_stood);
            self.record_hold(entry, reason);
            self.facts.push(entry.ended(reason));
            for id in entry.ids() {
                self.remember(id, Past::Grant(reason));
            }
            self.keep_change_keys(entry);
            self.touch(&entry.lock);
        }
        self.drop_session(number);
        self.settle();
    }

    /// Remembers an id once, even that of a grant that ended in several locks.
    fn remember(&mut self, id: GrantId, past: Past) {
        self.past.retain(|(known, _, _)| *known != id);
        self.past.push((id, self.now(), past));
    }

    fn drop_session(&mut self, number: u64) {
        let key = self.sessions.iter().find(|session| session.number == number).and_then(|session| session.key);
        self.sessions.retain(|session| session.number != number);
        self.past.extend(key.map(|key| (key, self.revision + 1, Past::Session)));
    }

    fn retime(&mut self, id: &GrantId, timeout: u64, key: Option<&WriteKey>) -> Result<Outcome> {
        let entry = self.live_or_ended(id)?.clone();
        let number = entry.session;
        if !entry.anonymous {
            return Err(Rejection::SessionOwned { session: SessionNumber(number) });
        }
        if self.already_changed(&entry, key)? {
            return Ok(Outcome::Nothing);
        }
        self.remember_change(entry.number, key);
        for session in self.sessions.iter_mut().filter(|session| session.number == number && session.timeout != timeout) {
            session.timeout = timeout;
            self.changed = true;
            self.facts.push(Event::SessionRetimed { session: SessionNumber(number), timeout_ms: timeout });
        }
        Ok(if self.changed { Outcome::Done } else { Outcome::Nothing })
    }

    // Locks

    pub(crate) fn limit(&self, lock: &LockName) -> Option<u32> {
        if self.is_election(lock) == Some(true) {
            return Some(1);
        }
        let set = self.locks.iter().find(|known| known.name == *lock)?.limit;
        let idle = !self.entries.iter().any(|entry| entry.lock == *lock);
        if idle && self.makes(Mistake::LimitForgottenWhenIdle) { None } else { set }
    }

    /// Whether the rules admit its holders: a lowered limit ends no holder, and no contender joins holders that exceed
    /// the limit.
    pub(crate) fn holders_are_legal(&self, lock: &LockName, limit: u32) -> bool {
        let holders = self.holders(lock);
        let limited = self.locks.iter().find(|known| known.name == *lock).and_then(|known| known.limited);
        let mixed = holders.iter().any(|one| holders.iter().any(|other| one.mode != other.mode));
        let from_before = holders.iter().all(|holder| holder.granted <= limited);
        let late_reader = limit > 1 && holders.iter().any(|holder| holder.mode == Mode::Shared && holder.granted > limited);
        if mixed || late_reader {
            return false;
        }
        // A grant with more permits than the new limit may become shared, and then exclusive again.
        Naive::legal(&holders, limit) || from_before || holders.len() == 1
    }

    pub(crate) fn holders(&self, lock: &LockName) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| entry.lock == *lock && entry.granted.is_some()).collect()
    }

    /// The waiters, the next one first.
    pub(crate) fn waiting(&self, lock: &LockName) -> Vec<&Entry> {
        let mut waiting: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.lock == *lock && entry.granted.is_none()).collect();
        if !self.makes(Mistake::PriorityIgnored) {
            // Stable: equals stay in the order of arrival.
            waiting.sort_by_key(|entry| -i64::from(entry.effective_priority));
        }
        waiting
    }

    /// Whether a lock may have this set of holders.
    pub(crate) fn legal(holders: &[&Entry], limit: u32) -> bool {
        if holders.iter().any(|entry| entry.mode == Mode::Shared) {
            return holders.iter().all(|entry| entry.mode == Mode::Shared);
        }
        holders.iter().map(|entry| u64::from(entry.permits)).sum::<u64>() <= u64::from(limit)
    }

    fn next_grantable(&self, lock: &LockName) -> Option<u64> {
        let limit = self.limit(lock).unwrap_or(1);
        let closed = !self.makes(Mistake::ReadersJoinAnUpgrade) && self.holders(lock).iter().any(|holder| holder.upgrading);
        let fits = |entry: &Entry| !closed && Naive::legal(&[self.holders(lock), vec![entry]].concat(), limit);
        let waiting = self.waiting(lock);
        let passes = |entry: &Entry| {
            let reader = self.makes(Mistake::ReadersPassWriters) && entry.mode == Mode::Shared;
            reader || (self.makes(Mistake::SmallPassesLarge) && limit > 1)
        };
        let (first, rest) = waiting.split_first()?;
        if self.ending.contains(&first.number) {
            return None;
        }
        let together = |entry: &Entry| {
            let others = entry.together.iter().filter(|want| want.lock != *lock);
            self.makes(Mistake::SeveralLocksAreGrantedOneByOne)
                || others.clone().all(|want| self.is_first(entry.number, &want.lock))
        };
        let mut next = std::iter::once(first).chain(rest.iter().filter(|entry| passes(entry)));
        next.find(|entry| fits(entry) && together(entry)).map(|entry| entry.number)
    }

    /// Whether it waits first in its queue, and fits.
    fn is_first(&self, number: u64, lock: &LockName) -> bool {
        let limit = self.limit(lock).unwrap_or(1);
        let closed = self.holders(lock).iter().any(|holder| holder.upgrading);
        let waiting = self.waiting(lock);
        waiting.first().is_some_and(|first| {
            first.number == number && !closed && Naive::legal(&[self.holders(lock), vec![first]].concat(), limit)
        })
    }

    /// Ends several at once: no waiter is granted in between.
    fn together(&mut self, work: impl FnOnce(&mut Naive)) {
        self.grants_paused = true;
        work(self);
        self.grants_paused = false;
        self.settle();
    }

    /// Grants every waiter whose turn has come, in all locks, because a grant in one lock may free waiters in others.
    fn settle(&mut self) {
        while !self.grants_paused {
            let before = self.facts.len();
            for lock in self.locks.iter().map(|lock| lock.name.clone()).collect::<Vec<_>>() {
                self.settle_one(&lock);
            }
            if self.facts.len() == before {
                return;
            }
        }
    }

    fn settle_one(&mut self, lock: &LockName) {
        let alone = match self.holders(lock).as_slice() {
            [only] if only.upgrading => Some(Entry::clone(only)),
            _ => None,
        };
        if let Some(shared) = alone {
            let (number, now, at) = (shared.number, self.now(), self.at);
            if !self.makes(Mistake::AnUpgradeLeavesNoEntry) {
                self.record_hold_as(&shared, HoldingEnd::Upgraded);
            }
            let keeps_bound = self.makes(Mistake::AnUpgradeKeepsItsBound);
            let bound = if keeps_bound { shared.bound } else { self.bound(number) };
            let keeps = self.makes(Mistake::UpgradeKeepsTheToken);
            for entry in self.entries.iter_mut().filter(|entry| entry.number == number && entry.lock == *lock) {
                entry.upgrading = false;
                entry.mode = Mode::Exclusive;
                entry.granted = if keeps { entry.granted } else { Some(now) };
                (entry.since, entry.mode_since) = (at, None);
                entry.bound = bound;
            }
            self.record_token(lock, now);
            self.facts.push(Event::Granted { lock: lock.clone(), grant: GrantNumber(number), token: FencingToken(now) });
        }
        while let Some(number) = self.next_grantable(lock) {
            let (now, at) = (self.now(), self.at);
            let token = if self.makes(Mistake::TokenIsTheQueueRevision) { number } else { now };
            let bound = self.bound(number);
            let one_by_one = self.makes(Mistake::SeveralLocksAreGrantedOneByOne);
            for entry in self.entries.iter_mut().filter(|entry| entry.number == number) {
                if one_by_one && entry.lock != *lock {
                    continue;
                }
                entry.granted = Some(token);
                entry.since = at;
                entry.bound = bound;
                let (lock, grant) = (entry.lock.clone(), GrantNumber(number));
                self.facts.push(Event::Granted { lock, grant, token: FencingToken(token) });
            }
            for entry in self.entries.clone().iter().filter(|entry| entry.number == number && entry.granted == Some(token)) {
                self.record_token(&entry.lock, token);
                self.count_granted(entry);
            }
            self.emit_leader(lock);
        }
    }

    /// The shortest bound of its request and its locks.
    fn bound(&self, number: u64) -> Option<u64> {
        let entries = self.entries.iter().filter(|entry| entry.number == number);
        let of_lock = |name: &LockName| self.locks.iter().find(|lock| lock.name == *name).and_then(|lock| lock.max_hold);
        let bounds = entries.flat_map(|entry| [of_lock(&entry.lock), entry.max_hold]).flatten();
        if self.makes(Mistake::TheLongerBoundCounts) { bounds.max() } else { bounds.min() }
    }

    fn touch(&mut self, name: &LockName) {
        let now = self.now();
        for lock in self.locks.iter_mut().filter(|lock| lock.name == *name) {
            lock.since = now;
        }
    }

    /// The lock one level up, and so on to the first level.
    fn upper_locks(name: &LockName) -> Vec<LockName> {
        let mut names = Vec::new();
        let mut text = name.as_str();
        while let Some((upper, _)) = text.rsplit_once('/') {
            names.push(LockName::parse(upper).expect("a part of a name is a name"));
            text = upper;
        }
        names
    }

    fn make_lock(&mut self, name: &LockName, limit: Option<u32>) {
        let mut missing: Vec<LockName> = std::iter::once(name.clone()).chain(Naive::upper_locks(name)).collect();
        missing.retain(|level| !self.locks.iter().any(|lock| lock.name == *level));
        if let Some(upper) = missing.last().and_then(|highest| Naive::upper_locks(highest).first().cloned()) {
            self.touch(&upper);
        }
        let new = missing.clone();
        let since = self.now();
        self.locks.extend(missing.into_iter().map(|name| Lock {
            name,
            limit: None,
            max_waiters: None,
            max_hold: None,
            limited: None,
            kept: false,
            election: None,
            last_token: None,
            creates: 0,
            since,
        }));
        for upper in new.iter().filter_map(|name| Naive::upper_locks(name).first().cloned()) {
            self.count_child(&upper);
        }
        for lock in self.locks.iter_mut().filter(|lock| lock.name == *name) {
            lock.limit = lock.limit.or(limit);
            lock.since = since;
        }
    }

    /// Locks without contenders and without lower locks, and since which revision.
    pub(crate) fn idle(&self) -> Vec<(LockName, Revision)> {
        let lower = |name: &LockName| self.locks.iter().any(|other| Naive::upper_locks(&other.name).contains(name));
        let stood_in = |name: &LockName| self.entries.iter().any(|entry| entry.lock == *name);
        let idle = self.locks.iter().filter(|lock| !lock.kept && !lower(&lock.name) && !stood_in(&lock.name));
        let mut idle: Vec<_> = idle.map(|lock| (lock.name.clone(), Revision(lock.since))).collect();
        idle.sort();
        idle
    }

    fn forget_lock(&mut self, name: &LockName, since: u64) -> Outcome {
        if !self.idle().contains(&(name.clone(), Revision(since))) {
            return Outcome::Nothing;
        }
        self.locks.retain(|lock| lock.name != *name);
        self.used.retain(|lock| lock != name);
        if let Some(upper) = Naive::upper_locks(name).first() {
            self.touch(upper);
        }
        self.facts.push(Event::LockForgotten { lock: name.clone() });
        self.done()
    }

    // Grants

    fn live(&self, id: &GrantId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.ids().contains(id) && !entry.cooling)
    }

    fn past_of(&self, id: &GrantId) -> Option<Past> {
        let of_sessions = self.sessions.iter().flat_map(|session| &session.ended);
        let of_sessions = of_sessions.filter(|(ended, _)| ended == id).map(|(_, reason)| Past::Grant(*reason));
        of_sessions.chain(self.past.iter().filter(|(past, _, _)| past == id).map(|(_, _, what)| what.clone())).next()
    }

    /// Why a grant ended, for comparison with the machine.
    pub(crate) fn ended(&self, id: &GrantId) -> Option<EndReason> {
        match self.past_of(id)? {
            Past::Grant(reason) => Some(reason),
            Past::Broken(_) => Some(EndReason::Broken),
            Past::Session | Past::Write(..) => None,
        }
    }

    fn live_or_ended(&self, id: &GrantId) -> Result<&Entry> {
        match (self.live(id), self.ended(id)) {
            (Some(entry), _) => Ok(entry),
            (None, Some(reason)) => Err(Rejection::GrantEnded { reason, note: self.note(id) }),
            (None, None) => Err(Rejection::NoGrant),
        }
    }

    fn is_session_key(&self, id: &GrantId) -> bool {
        self.sessions.iter().any(|session| session.key == Some(*id))
    }

    fn outcome_of(entry: &Entry, id: &GrantId) -> Outcome {
        let (number, session) = (GrantNumber(entry.number), SessionNumber(entry.session));
        let attempt = entry.attempt_of(id);
        match entry.granted {
            Some(token) => Outcome::Held(HeldGrant { number, token: FencingToken(token), session, attempt }),
            None => Outcome::Queued(Queued { number, session, attempt }),
        }
    }

    fn refuse_unsupported(acquire: &Acquire) -> Result<()> {
        if acquire.wants.iter().any(|want| want.lock.is_reserved()) {
            return Err(Rejection::Unsupported { what: "a lock with a contender's name".to_owned() });
        }
        let twice = |want: &Want| acquire.wants.iter().filter(|other| other.lock == want.lock).count() > 1;
        if acquire.wants.iter().any(twice) {
            return Err(Rejection::Unsupported { what: "taking no lock, or one twice".to_owned() });
        }
        if acquire.reentrant && acquire.wants.len() > 1 {
            return Err(Rejection::Unsupported { what: "a reentrant hold of several locks".to_owned() });
        }
        if acquire.value.is_some() { Naive::refuse_no_election(acquire) } else { Ok(()) }
    }

    fn acquire(&mut self, acquire: &Acquire) -> Result<Outcome> {
        Naive::refuse_unsupported(acquire)?;
        if let Some(entry) = self.live(&acquire.grant) {
            return self.attach(entry.clone(), acquire);
        }
        match self.past_of(&acquire.grant) {
            Some(Past::Grant(reason)) => return Err(Rejection::GrantEnded { reason, note: self.note(&acquire.grant) }),
            Some(Past::Broken(note)) => return Err(Rejection::GrantEnded { reason: EndReason::Broken, note: Some(note) }),
            Some(Past::Session | Past::Write(..)) => return other_request(),
            None if self.is_used(&acquire.grant) => return other_request(),
            None => {}
        }
        let other_use =
            acquire.wants.iter().find_map(|want| self.is_election(&want.lock).filter(|it| *it != acquire.value.is_some()));
        if let Some(election) = other_use.filter(|_| !self.makes(Mistake::AnElectionMayBeALock)) {
            return Err(Rejection::OtherUse { election });
        }
        let session = match &acquire.claimant {
            Claimant::Anonymous { .. } => None,
            Claimant::Session(id) => {
                let session = self.sessions.iter().find(|session| session.id == Some(*id)).ok_or(Rejection::NoSession)?;
                let given = acquire.id_given || self.makes(Mistake::ServerIdsAreForgotten);
                if given && session.floor.is_some_and(|floor| acquire.grant <= floor) && !self.makes(Mistake::NoFloor) {
                    return Err(Rejection::Forgotten);
                }
                Some(session.number)
            }
        };
        for want in &acquire.wants {
            let limit = self.limit_in_force(want, acquire);
            if acquire.limit.is_some_and(|asked| asked != limit) {
                return Err(Rejection::LimitMismatch { limit });
            }
            if acquire.permits > limit {
                return Err(Rejection::PermitsOverLimit { permits: acquire.permits, limit });
            }
            if limit > 1 && want.mode == Mode::Shared {
                return Err(Rejection::SharedWithLimit { limit });
            }
        }
        if let Some(held) = self.hold_again(acquire, session) {
            return Ok(held);
        }
        let busy = acquire.wants.iter().find_map(|want| self.busy(want, acquire));
        let full = |want: &Want| {
            let max = self.locks.iter().find(|lock| lock.name == want.lock)?.max_waiters?;
            (self.waiting(&want.lock).len() as u64 >= max).then_some(max)
        };
        let full = acquire.wants.iter().find_map(full).filter(|_| busy.is_some() && acquire.if_busy == IfBusy::Queue);
        if let Some(max) = full {
            return Err(Rejection::QueueFull { max });
        }
        let actor = session.filter(|_| acquire.owner.given).map(|session| self.named(session, &acquire.owner.text));
        let placed_before = |want: &Want| {
            let effective_priority = self.effective_priority(&want.lock, acquire.priority);
            self.waiting(&want.lock).iter().any(|entry| entry.effective_priority < effective_priority)
        };
        // No contender waits for an actor without a grant, except those that the new request overtakes.
        let passes = acquire.wants.iter().any(placed_before);
        let has_others = |actor: &(u64, String)| self.entries.iter().any(|entry| !entry.cooling && self.actor(entry) == *actor);
        let actor = actor.filter(|actor| passes || has_others(actor));
        // A free lock without waiters blocks no request.
        let is_free = busy.is_none() && acquire.wants.iter().all(|want| self.waiting(&want.lock).is_empty());
        let actor = actor.filter(|_| !is_free);
        let outcome = self.join(acquire, session);
        if acquire.if_busy == IfBusy::Refuse && matches!(outcome, Outcome::Queued(_)) {
            // Without a mistake there is always a contender in the way. With one, the comparison finds this wrong
            // answer.
            return Err(busy.unwrap_or(Rejection::NotLeader));
        }
        if actor.is_some_and(|actor| self.is_stuck(&actor)) {
            return Err(Rejection::WouldDeadlock { cycle: Vec::new() });
        }
        Ok(outcome)
    }

    // Deadlocks

    fn named(&self, session: u64, owner: &str) -> (u64, String) {
        (session, if self.makes(Mistake::OwnersAreOneActor) { String::new() } else { owner.to_owned() })
    }

    /// A named session's owner; otherwise the grant itself, under a name that no owner has.
    fn actor(&self, entry: &Entry) -> (u64, String) {
        if entry.owner.given && !entry.anonymous {
            self.named(entry.session, &entry.owner.text)
        } else {
            (entry.number, "\u{0}alone".to_owned())
        }
    }

    /// The state after every actor that waits for nothing has run and released everything, repeatedly.
    fn let_all_run(&self) -> Naive {
        let mut world = self.clone();
        world.entries.retain(|entry| !entry.cooling);
        loop {
            let before = world.entries.len();
            world.settle();
            let waits = |entry: &&Entry| entry.granted.is_none() || entry.upgrading;
            let blocked: Vec<_> = world.entries.iter().filter(waits).map(|entry| self.actor(entry)).collect();
            world.entries.retain(|entry| blocked.contains(&self.actor(entry)));
            if world.entries.len() == before {
                return world;
            }
        }
    }

    fn is_stuck(&self, actor: &(u64, String)) -> bool {
        let makes = self.makes(Mistake::DeadlocksAreNotFound);
        !makes && self.let_all_run().entries.iter().any(|entry| self.actor(entry) == *actor)
    }

    /// Whether a cycle is correct: each entry waits in its lock, the next one blocks it there, and the last one waits for
    /// the first.
    pub(crate) fn is_cycle(&self, command: &Command, cycle: &[Blocked]) -> bool {
        let mut world = self.clone();
        if let Command::Acquire(acquire) = command {
            let Claimant::Session(id) = &acquire.claimant else { return false };
            let session = world.sessions.iter().find(|session| session.id == Some(*id)).map(|session| session.number);
            let first = cycle.first().is_some_and(|first| Some(first.session.0) == session);
            if !first || cycle[0].owner != acquire.owner.text {
                return false;
            }
            world.join(acquire, session);
        } else if let Command::Upgrade { grant, .. } = command {
            world.entries.iter_mut().filter(|entry| entry.ids().contains(grant)).for_each(|entry| entry.upgrading = true);
        } else {
            return false;
        }
        let left = world.let_all_run();
        let is_it = |entry: &&Entry, blocked: &Blocked| entry.session == blocked.session.0 && entry.owner.text == blocked.owner;
        let waits_in = |entry: &Entry, lock: &LockName| entry.lock == *lock && (entry.granted.is_none() || entry.upgrading);
        let stops = |entry: &Entry, other: &Entry| match (entry.upgrading, other.granted.is_some()) {
            (true, granted) => granted,
            (false, true) => {
                let limit = left.limit(&entry.lock).unwrap_or(1);
                entry.mode == Mode::Exclusive || other.mode == Mode::Exclusive || other.upgrading || limit > 1
            }
            (false, false) => {
                (-i64::from(other.effective_priority), other.number) < (-i64::from(entry.effective_priority), entry.number)
            }
        };
        if let [only] = cycle
            && let Some(asks) = left.entries.iter().find(|entry| is_it(entry, only) && waits_in(entry, &only.lock))
            && !left.reaches_itself(&left.actor(asks), stops)
        {
            // It is not in a cycle itself, but would wait behind one forever.
            return true;
        }
        cycle.iter().zip(cycle.iter().cycle().skip(1)).all(|(one, next)| {
            let mut waiting = left.entries.iter().filter(|entry| is_it(entry, one) && waits_in(entry, &one.lock));
            waiting.any(|entry| {
                let others = left.entries.iter().filter(|other| other.lock == one.lock && is_it(other, next));
                others.into_iter().any(|other| other.number != entry.number && stops(entry, other))
            })
        })
    }

    /// Whether a chain of waiting actors leads back to this actor: a deadlock.
    fn reaches_itself(&self, actor: &(u64, String), stops: impl Fn(&Entry, &Entry) -> bool) -> bool {
        let (mut reached, mut next) = (Vec::new(), vec![actor.clone()]);
        while let Some(one) = next.pop() {
            let waits = |entry: &&Entry| self.actor(entry) == one && (entry.granted.is_none() || entry.upgrading);
            for entry in self.entries.iter().filter(waits) {
                let is_other = |other: &&Entry| other.lock == entry.lock && other.number != entry.number;
                for other in self.entries.iter().filter(is_other).filter(|other| stops(entry, other)) {
                    let other = self.actor(other);
                    if !reached.contains(&other) {
                        reached.push(other.clone());
                        next.push(other);
                    }
                }
            }
        }
        reached.contains(actor)
    }

    fn limit_in_force(&self, want: &Want, acquire: &Acquire) -> u32 {
        let stood_in = self.entries.iter().any(|entry| entry.lock == want.lock);
        self.limit(&want.lock).or(stood_in.then_some(1)).or(acquire.limit).unwrap_or(1)
    }

    /// The refusal of a newcomer that does not wait; `None` if it would hold the lock at once.
    fn busy(&self, want: &Want, acquire: &Acquire) -> Option<Rejection> {
        let (holders, waiting) = (self.holders(&want.lock), self.waiting(&want.lock));
        let effective_priority = self.effective_priority(&want.lock, acquire.priority);
        let before = waiting.iter().filter(|entry| entry.effective_priority >= effective_priority).count();
        let limit = self.limit_in_force(want, acquire);
        let newcomer = self.newcomer(want, acquire, self.now(), 0);
        let closed = holders.iter().any(|holder| holder.upgrading);
        if before == 0 && !closed && Naive::legal(&[holders.clone(), vec![&newcomer]].concat(), limit) {
            return None;
        }
        let first = holders.iter().min_by_key(|entry| entry.number).or(waiting.first()).expect("a contender blocks it");
        Some(Rejection::LockHeld { holder: Naive::facts_of(first), ahead: (holders.len() + before) as u64 })
    }

    /// The priority of a newcomer's place: behind all that may not be overtaken.
    fn effective_priority(&self, lock: &LockName, priority: i32) -> i32 {
        let fixed = |entry: &&&Entry| {
            let several = entry.together.len() > 1 && !self.makes(Mistake::PriorityPassesSeveral);
            several || (entry.overtaken >= limits::OVERTAKEN_MAX && !self.makes(Mistake::PriorityNeverAges))
        };
        self.waiting(lock).iter().filter(fixed).map(|entry| entry.effective_priority).chain([priority]).min().expect("its own")
    }

    fn newcomer(&self, want: &Want, acquire: &Acquire, session: u64, effective_priority: i32) -> Entry {
        Entry {
            number: self.now(),
            id: acquire.grant,
            lock: want.lock.clone(),
            session,
            anonymous: matches!(acquire.claimant, Claimant::Anonymous { .. }),
            mode: want.mode,
            upgrading: false,
            requested_limit: acquire.limit,
            permits: acquire.permits,
            priority: acquire.priority,
            effective_priority,
            overtaken: 0,
            together: acquire.wants.clone(),
            owner: acquire.owner.clone(),
            meta: acquire.meta.clone(),
            attempt: 1,
            more: Vec::new(),
            first_released: false,
            upgrade_attempt: 0,
            upgrade_key: None,
            changes: Vec::new(),
            changes_floor: None,
            max_hold: acquire.max_hold_ms,
            bound: None,
            granted: None,
            delay: acquire.lock_delay_ms,
            cooling: false,
            since: acquire.at,
            queued: acquire.at,
            mode_since: None,
            revoked: None,
            path: want.lock.path(),
            value: acquire.value.clone(),
            version: 0,
            proclaimed: 0,
        }
    }

    fn facts_of(entry: &Entry) -> HolderFacts {
        HolderFacts {
            number: GrantNumber(entry.number),
            owner: entry.owner.text.clone(),
            token: entry.granted.filter(|_| !entry.cooling).map(FencingToken),
            since: entry.since,
        }
    }

    fn join(&mut self, acquire: &Acquire, named: Option<u64>) -> Outcome {
        let number = self.now();
        if let Claimant::Anonymous { timeout_ms } = acquire.claimant {
            self.sessions.push(Session {
                number,
                id: None,
                key: None,
                timeout: timeout_ms,
                name: String::new(),
                meta: Meta::new(),
                opened: acquire.at,
                ended: Vec::new(),
                floor: None,
            });
            self.facts.push(Event::SessionOpened { session: SessionNumber(number), timeout_ms });
        }
        for want in &acquire.wants {
            self.make_lock(&want.lock, acquire.limit);
            self.used.push(want.lock.clone());
            let effective_priority = self.effective_priority(&want.lock, acquire.priority);
            let oldest = self.waiting(&want.lock).iter().map(|entry| (entry.number, entry.effective_priority)).min();
            if let Some((oldest, _)) = oldest.filter(|(_, its)| *its < effective_priority) {
                let waits = |entry: &&mut Entry| entry.number == oldest && entry.lock == want.lock;
                self.entries.iter_mut().filter(waits).for_each(|entry| entry.overtaken += 1);
            }
            for lock in self.locks.iter_mut().filter(|lock| lock.name == want.lock) {
                lock.election = Some(acquire.value.is_some());
            }
            let mut newcomer = self.newcomer(want, acquire, named.unwrap_or(number), effective_priority);
            let sequence = self.count_child(&want.lock);
            newcomer.path = want.lock.path().child(&format!("{}-lock-{sequence:010}", newcomer.session));
            self.entries.push(newcomer);
            self.facts.push(Event::Queued { lock: want.lock.clone(), grant: GrantNumber(number) });
        }
        self.changed = true;
        self.settle();
        Naive::outcome_of(self.entries.iter().find(|entry| entry.number == number).expect("it was pushed"), &acquire.grant)
    }

    fn attach(&mut self, entry: Entry, acquire: &Acquire) -> Result<Outcome> {
        let session = self.sessions.iter().find(|session| session.number == entry.session).expect("a live grant has one");
        let names = |wants: &[Want]| wants.iter().map(|want| want.lock.clone()).collect::<Vec<_>>();
        let modes = |wants: &[Want]| wants.iter().map(|want| want.mode).collect::<Vec<_>>();
        let same_session = match &acquire.claimant {
            Claimant::Session(id) => session.id == Some(*id),
            Claimant::Anonymous { .. } => session.id.is_none(),
        };
        let same_owner = match (entry.owner.given, acquire.owner.given) {
            (true, true) => entry.owner.text == acquire.owner.text,
            (given, given_now) => given == given_now,
        };
        if let Some((again, _)) = entry.more.iter().find(|(again, _)| again.grant == acquire.grant) {
            return self.attach_again(&entry, again, same_session && same_owner, acquire);
        }
        for (field, same) in [
            ("name", names(&entry.together) == names(&acquire.wants)),
            ("mode", modes(&entry.together) == modes(&acquire.wants)),
            ("value", entry.value.is_some() == acquire.value.is_some()),
            ("limit", entry.requested_limit == acquire.limit),
            ("permits", entry.permits == acquire.permits),
            ("priority", entry.priority == acquire.priority),
            ("session", same_session),
            ("owner", same_owner),
            ("lock_delay", entry.delay == acquire.lock_delay_ms),
            ("max_hold", entry.max_hold == acquire.max_hold_ms),
            ("meta", entry.meta == acquire.meta),
        ] {
            if !same {
                return mismatch(field);
            }
        }
        self.changed = true;
        Ok(self.attach_to(entry.number, acquire.grant))
    }

    fn attach_to(&mut self, number: u64, id: GrantId) -> Outcome {
        for known in self.entries.iter_mut().filter(|known| known.number == number) {
            match known.more.iter_mut().find(|(again, _)| again.grant == id) {
                Some((_, attempt)) => *attempt += 1,
                None => known.attempt += 1,
            }
            let (lock, grant, attempt) = (known.lock.clone(), GrantNumber(known.number), known.attempt_of(&id));
            self.facts.push(Event::Attached { lock, grant, attempt });
        }
        Naive::outcome_of(self.entries.iter().find(|known| known.number == number).expect("it is live"), &id)
    }

    fn held(&self, id: &GrantId) -> Result<Entry> {
        let entry = self.live_or_ended(id)?;
        if entry.granted.is_none() {
            return Err(Rejection::NotHeld);
        }
        Ok(entry.clone())
    }

    fn alter(&mut self, number: u64, change: impl Fn(&mut Entry)) -> Entry {
        self.changed = true;
        let entry = self.entries.iter_mut().find(|entry| entry.number == number).expect("it is live");
        change(entry);
        entry.clone()
    }

    fn repeated_outcome(&self, number: u64, id: &GrantId) -> Outcome {
        let entry = self.entries.iter().find(|entry| entry.number == number).expect("it is live");
        match (entry.upgrading, Naive::outcome_of(entry, id)) {
            (true, Outcome::Held(HeldGrant { number, session, .. })) => {
                Outcome::Queued(Queued { number, session, attempt: entry.upgrade_attempt })
            }
            (_, outcome) => outcome,
        }
    }

    fn refuse_several(entry: &Entry) -> Result<()> {
        match entry.together.len() {
            1 => Ok(()),
            _ => Err(Rejection::Unsupported { what: "another mode for a grant of several locks".to_owned() }),
        }
    }

    fn refuse_semaphore(&self, lock: &LockName) -> Result<()> {
        match self.limit(lock) {
            Some(limit) if limit > 1 => Err(Rejection::SharedWithLimit { limit }),
            Some(_) | None => Ok(()),
        }
    }

    fn downgrade(&mut self, id: &GrantId, key: Option<&WriteKey>) -> Result<Outcome> {
        let entry = self.held(id)?;
        if self.already_changed(&entry, key)? {
            return Ok(Naive::outcome_of(&entry, id));
        }
        if entry.mode == Mode::Shared {
            self.remember_change(entry.number, key);
            return Ok(Naive::outcome_of(&entry, id));
        }
        Naive::refuse_several(&entry)?;
        if entry.value.is_some() {
            return Err(Rejection::OtherUse { election: true });
        }
        self.refuse_semaphore(&entry.lock)?;
        let others = self.holders(&entry.lock).into_iter().filter(|holder| holder.number != entry.number);
        if let Some(first) = others.clone().min_by_key(|holder| holder.number)
            && !self.makes(Mistake::DowngradeNextToOthers)
        {
            return Err(Rejection::LockHeld { holder: Naive::facts_of(first), ahead: others.count() as u64 });
        }
        self.remember_change(entry.number, key);
        let (now, makes) = (self.now(), self.makes(Mistake::DowngradeTakesAnotherToken));
        let at = self.at;
        self.record_hold_as(&entry, HoldingEnd::Downgraded);
        self.alter(entry.number, |entry| {
            entry.mode = Mode::Shared;
            entry.mode_since = Some(Moment { revision: Revision(now), at });
            entry.granted = if makes { Some(now) } else { entry.granted };
        });
        self.facts.push(Event::Downgraded { lock: entry.lock.clone(), grant: GrantNumber(entry.number) });
        self.settle();
        Ok(self.repeated_outcome(entry.number, id))
    }

    fn upgrade(&mut self, id: &GrantId, if_busy: IfBusy, key: Option<&WriteKey>) -> Result<Outcome> {
        let entry = self.held(id)?;
        let repeated = self.already_changed(&entry, key)?;
        let named = key.map(|key| key.key);
        let key = key.filter(|_| !repeated);
        if entry.upgrading && repeated && entry.upgrade_key != named {
            return Ok(Outcome::Nothing);
        }
        if entry.upgrading {
            self.remember_change(entry.number, key);
            self.alter(entry.number, |entry| {
                entry.upgrade_attempt += 1;
                entry.upgrade_key = named;
            });
            return Ok(self.repeated_outcome(entry.number, id));
        }
        if entry.mode == Mode::Exclusive {
            self.remember_change(entry.number, key);
            return Ok(Naive::outcome_of(&entry, id));
        }
        if repeated {
            return Ok(Outcome::Nothing);
        }
        Naive::refuse_several(&entry)?;
        self.refuse_semaphore(&entry.lock)?;
        let holders = self.holders(&entry.lock);
        let blocked = |entry: &Entry| Blocked {
            session: SessionNumber(entry.session),
            owner: entry.owner.text.clone(),
            lock: entry.lock.clone(),
        };
        if let Some(other) = holders.iter().find(|holder| holder.upgrading) {
            return Err(Rejection::WouldDeadlock { cycle: vec![blocked(&entry), blocked(other)] });
        }
        let others = holders.iter().filter(|holder| holder.number != entry.number);
        if let Some(first) = others.min_by_key(|holder| holder.number)
            && if_busy == IfBusy::Refuse
        {
            return Err(Rejection::LockHeld { holder: Naive::facts_of(first), ahead: holders.len() as u64 - 1 });
        }
        let is_alone = holders.len() == 1;
        self.remember_change(entry.number, key);
        self.alter(entry.number, |entry| {
            entry.upgrading = true;
            entry.upgrade_attempt += 1;
            entry.upgrade_key = named;
        });
        if !is_alone && self.is_stuck(&self.actor(&entry)) {
            return Err(Rejection::WouldDeadlock { cycle: Vec::new() });
        }
        self.facts.push(Event::Upgrading { lock: entry.lock.clone(), grant: GrantNumber(entry.number) });
        self.settle();
        Ok(self.repeated_outcome(entry.number, id))
    }

    fn end_upgrade(&mut self, id: &GrantId, attempt: u64) -> Result<Outcome> {
        let entry = self.held(id)?;
        if !entry.upgrading {
            return Ok(Naive::outcome_of(&entry, id));
        }
        if entry.upgrade_attempt > attempt && !self.makes(Mistake::AnyAttemptEndsAnUpgrade) {
            return Ok(Outcome::Nothing);
        }
        self.alter(entry.number, |entry| entry.upgrading = false);
        self.facts.push(Event::UpgradeEnded { lock: entry.lock.clone(), grant: GrantNumber(entry.number) });
        self.settle();
        Ok(self.repeated_outcome(entry.number, id))
    }

    fn withdraw(&mut self, id: &GrantId, attempt: u64) -> Result<Outcome> {
        let entry = self.live_or_ended(id)?.clone();
        if entry.attempt_of(id) > attempt {
            return Ok(Outcome::Nothing);
        }
        if entry.granted.is_some() && !self.makes(Mistake::WithdrawEndsHolders) {
            return Ok(Naive::outcome_of(&entry, id));
        }
        Ok(self.end(&entry, EndReason::Withdrawn))
    }

    fn abandon(&mut self, id: &GrantId, attempt: u64) -> Outcome {
        match self.live(id).cloned() {
            Some(entry) if entry.attempt_of(id) <= attempt || self.makes(Mistake::LateAbandonEnds) => match entry.ids().len() {
                1 => self.end(&entry, EndReason::Withdrawn),
                _ => self.end_hold(&entry, *id, EndReason::Withdrawn),
            },
            Some(_) | None => Outcome::Nothing,
        }
    }

    fn release(&mut self, id: &GrantId, session: Option<&SessionId>) -> Outcome {
        if let Some(entry) = self.live(id).cloned() {
            if entry.ids().len() > 1 && !self.makes(Mistake::AnyReleaseEndsAllHolds) {
                return self.end_hold(&entry, *id, EndReason::Released);
            }
            let reason = if entry.granted.is_some() { EndReason::Released } else { EndReason::Withdrawn };
            return self.end(&entry, reason);
        }
        // Released before: it is remembered from now on.
        let noted = self.past.iter().position(|(known, _, past)| known == id && matches!(past, Past::Grant(_) | Past::Broken(_)));
        let in_session = self.sessions.iter().any(|open| open.ended.iter().any(|(known, _)| known == id));
        let noted = noted.filter(|_| !in_session && !self.makes(Mistake::SecondReleaseChangesNothing));
        if noted.is_none() && self.is_used(id) {
            return Outcome::Nothing;
        }
        let reason = match noted.map(|at| &self.past[at].2) {
            Some(Past::Grant(reason)) => *reason,
            Some(_) => EndReason::Broken,
            None => EndReason::Released,
        };
        if let Some(session) = session.filter(|_| !self.makes(Mistake::ReleaseForgetsTheSession)) {
            let open = self.sessions.iter().find(|open| open.id == Some(*session)).map(|open| (open.number, open.floor));
            return match open {
                Some((number, floor)) if Some(*id) > floor => {
                    self.remember_in_session(number, *id, reason);
                    self.done()
                }
                Some(_) | None => Outcome::Nothing,
            };
        }
        if let Some(at) = noted {
            self.past[at].1 = self.now();
        } else if !self.makes(Mistake::UnknownReleaseNotRemembered) {
            self.past.push((*id, self.now(), Past::Grant(EndReason::Released)));
        }
        self.done()
    }

    /// Ends one grant at its owner's request.
    fn end(&mut self, entry: &Entry, reason: EndReason) -> Outcome {
        let ended: Vec<Entry> = self.entries.iter().filter(|other| other.number == entry.number).cloned().collect();
        self.entries.retain(|other| other.number != entry.number);
        ended.iter().for_each(|entry| self.record_hold(entry, reason));
        for entry in &ended {
            self.touch(&entry.lock);
            self.facts.push(entry.ended(reason));
        }
        ended.iter().for_each(|entry| self.keep_change_keys(entry));
        if entry.anonymous {
            self.past.push((entry.id, self.now(), Past::Grant(reason)));
            self.drop_session(entry.session);
            self.facts.push(Event::SessionClosed { session: SessionNumber(entry.session) });
        } else {
            for id in entry.ids() {
                self.remember_in_session(entry.session, id, reason);
            }
        }
        self.settle();
        self.done()
    }

    fn remember_in_session(&mut self, number: u64, id: GrantId, reason: EndReason) {
        let session = self.sessions.iter_mut().find(|session| session.number == number).expect("it is live");
        session.ended.push((id, reason));
        if session.ended.len() > limits::SESSION_TOMBSTONES_MAX {
            let oldest = session.ended.iter().map(|(id, _)| *id).min().expect("it is not empty");
            session.ended.retain(|(id, _)| *id != oldest);
            session.floor = session.floor.max(Some(oldest));
        }
    }

    /// Ends one hold of a grant that has others.
    fn end_hold(&mut self, entry: &Entry, id: GrantId, reason: EndReason) -> Outcome {
        for known in self.entries.iter_mut().filter(|known| known.number == entry.number) {
            known.more.retain(|(acquire, _)| acquire.grant != id);
            known.first_released |= known.id == id;
        }
        self.remember_in_session(entry.session, id, reason);
        self.emit_holds(entry.number);
        self.done()
    }

    fn emit_holds(&mut self, number: u64) {
        for entry in self.entries.iter().filter(|entry| entry.number == number) {
            let (lock, holds) = (entry.lock.clone(), entry.ids().len() as u64);
            self.facts.push(Event::Holds { lock, grant: GrantNumber(number), holds });
        }
    }

    /// The same owner takes a further hold.
    fn hold_again(&mut self, acquire: &Acquire, session: Option<u64>) -> Option<Outcome> {
        let want = acquire.wants.first().filter(|_| acquire.reentrant)?;
        let is_it = |holder: &&Entry| {
            let same_owner = if acquire.owner.given { holder.owner == acquire.owner } else { !holder.owner.given };
            let covers = holder.mode == Mode::Exclusive || want.mode == Mode::Shared;
            let same = Some(holder.session) == session && !holder.anonymous && !holder.cooling;
            same && same_owner && covers && holder.permits >= acquire.permits && holder.granted.is_some()
        };
        let holders = self.entries.iter().filter(|entry| entry.lock == want.lock);
        let number = holders.filter(is_it).min_by_key(|holder| (-i64::from(holder.permits), holder.number))?.number;
        for entry in self.entries.iter_mut().filter(|entry| entry.number == number) {
            entry.more.push((acquire.clone(), 1));
        }
        self.changed = true;
        self.emit_holds(number);
        let entry = self.entries.iter().find(|entry| entry.number == number).expect("it is live");
        Some(Naive::outcome_of(entry, &acquire.grant))
    }

    fn attach_again(&mut self, entry: &Entry, known: &Acquire, same_owner: bool, acquire: &Acquire) -> Result<Outcome> {
        for (field, same) in [
            ("name", known.wants.iter().map(|want| &want.lock).eq(acquire.wants.iter().map(|want| &want.lock))),
            ("mode", known.wants.iter().map(|want| want.mode).eq(acquire.wants.iter().map(|want| want.mode))),
            ("value", acquire.value.is_none()),
            ("limit", known.limit == acquire.limit),
            ("permits", known.permits == acquire.permits),
            ("priority", known.priority == acquire.priority),
            ("session", known.claimant == acquire.claimant),
            ("owner", same_owner || known.claimant != acquire.claimant),
            ("lock_delay", known.lock_delay_ms == acquire.lock_delay_ms),
            ("max_hold", known.max_hold_ms == acquire.max_hold_ms),
            ("meta", known.meta == acquire.meta),
        ] {
            if !same {
                return mismatch(field);
            }
        }
        self.changed = true;
        Ok(self.attach_to(entry.number, acquire.grant))
    }

    // Settings by administrators

    fn set_lock(&mut self, order: &SetLock) -> Result<Outcome> {
        if order.lock.is_reserved() && !self.makes(Mistake::AContendersNameIsALock) {
            return Err(Rejection::Unsupported { what: "a lock with a contender's name".to_owned() });
        }
        match &order.key {
            Some(key) => self.once(key, |naive| drop(naive.set(order))),
            None => Ok(self.set(order)),
        }
    }

    fn set(&mut self, order: &SetLock) -> Outcome {
        let known = self.locks.iter().find(|lock| lock.name == order.lock).cloned();
        let used = known.is_some() && self.used.contains(&order.lock);
        let before = known.map(|lock| (lock.limit, lock.max_waiters, lock.max_hold, lock.kept));
        let (limit, waiters, hold, _) = before.unwrap_or((None, None, None, false));
        let changes_limit = order.limit.is_some() && order.limit != limit;
        let limit = order.limit.or(limit);
        let waiters = order.max_waiters.or(waiters);
        let hold = order.max_hold_ms.or(hold).filter(|most| *most > 0);
        let limited = self.locks.iter().find(|lock| lock.name == order.lock).and_then(|lock| lock.limited);
        let limited = if changes_limit { Some(self.now()) } else { limited };
        let kept = (limited.is_some() && limit > Some(1)) || waiters.is_some() || hold.is_some();
        if used && before == Some((limit, waiters, hold, kept)) {
            return Outcome::Nothing;
        }
        if !self.locks.iter().any(|lock| lock.name == order.lock) {
            self.make_lock(&order.lock, None);
        }
        self.used.push(order.lock.clone());
        for lock in self.locks.iter_mut().filter(|lock| lock.name == order.lock) {
            (lock.limit, lock.max_waiters, lock.max_hold, lock.kept) = (limit, waiters, hold, kept);
            lock.limited = limited;
        }
        self.facts.push(Event::LockSet { lock: order.lock.clone(), by: order.by.clone() });
        let limit = limit.unwrap_or(1);
        let makes = self.makes(Mistake::LoweredLimitEndsNobody);
        let cannot = |entry: &&&Entry| !makes && (entry.permits > limit || (limit > 1 && entry.mode == Mode::Shared));
        let ended: Vec<Entry> = self.waiting(&order.lock).iter().filter(cannot).map(|entry| (*entry).clone()).collect();
        // They end together.
        let gone: Vec<u64> = ended.iter().map(|entry| entry.number).collect();
        self.ending = gone.clone();
        for entry in &ended {
            self.ending.retain(|number| *number != entry.number);
            self.end(entry, EndReason::Broken);
            let note = format!("the limit of {} was set to {limit}", order.lock.as_str());
            entry.ids().into_iter().for_each(|id| self.note_broken(id, &note));
        }
        self.settle();
        self.done()
    }

    fn revoke(&mut self, order: &Revoke) -> Result<Outcome> {
        match &order.key {
            Some(key) => self.once(key, |naive| drop(naive.revoke_holders(order))),
            None => Ok(self.revoke_holders(order)),
        }
    }

    fn revoke_holders(&mut self, order: &Revoke) -> Outcome {
        let holders: Vec<u64> =
            self.holders(&order.lock).iter().filter(|entry| !entry.cooling).map(|entry| entry.number).collect();
        let word = Revocation { revision: Revision(self.now()), by: order.by.clone(), reason: order.reason.clone() };
        for number in &holders {
            for entry in self.entries.iter_mut().filter(|entry| entry.number == *number) {
                entry.revoked = Some(word.clone());
            }
            let (lock, by, reason) = (order.lock.clone(), order.by.clone(), order.reason.clone());
            self.facts.push(Event::Revoked { lock, grant: GrantNumber(*number), by, reason });
        }
        if holders.is_empty() { Outcome::Nothing } else { self.done() }
    }

    fn end_bounded(&mut self, number: u64, token: u64) -> Outcome {
        let is_it =
            |entry: &&Entry| entry.number == number && !entry.cooling && entry.granted == Some(token) && entry.bound.is_some();
        let Some(entry) = self.entries.iter().find(is_it).cloned() else { return Outcome::Nothing };
        if entry.delay == 0 {
            // Its session ends with it, as with any other end.
            return self.end(&entry, EndReason::Expired);
        }
        let all: Vec<Entry> = self.entries.iter().filter(|entry| entry.number == number).cloned().collect();
        all.iter().for_each(|entry| self.keep_change_keys(entry));
        for entry in self.entries.iter_mut().filter(|entry| entry.number == number) {
            (entry.cooling, entry.upgrading) = (true, false);
        }
        for entry in &all {
            let (lock, grant) = (entry.lock.clone(), GrantNumber(entry.number));
            self.record_hold(entry, EndReason::Expired);
            self.facts.push(entry.ended(EndReason::Expired));
            self.facts.push(Event::Cooling { lock, grant, delay_ms: entry.delay });
        }
        if entry.anonymous {
            self.past.push((entry.id, self.now(), Past::Grant(EndReason::Expired)));
            self.drop_session(entry.session);
            self.facts.push(Event::SessionClosed { session: SessionNumber(entry.session) });
        } else {
            for id in entry.ids() {
                self.remember_in_session(entry.session, id, EndReason::Expired);
            }
        }
        self.settle();
        self.done()
    }

    fn cool(&mut self, number: u64) -> Outcome {
        let Some(entry) = self.entries.iter().find(|entry| entry.number == number && entry.cooling).cloned() else {
            return Outcome::Nothing;
        };
        self.entries.retain(|other| other.number != number);
        if self.makes(Mistake::HistoryEndsWithCooling) {
            self.record_hold(&entry, EndReason::Expired);
        }
        for want in &entry.together {
            self.touch(&want.lock);
            self.facts.push(Event::Cooled { lock: want.lock.clone(), grant: GrantNumber(number) });
        }
        self.settle();
        self.done()
    }

    // Elections

    pub(crate) fn is_election(&self, name: &LockName) -> Option<bool> {
        self.locks.iter().find(|lock| lock.name == *name)?.election
    }

    /// The leader: its number, token, version, the revision of its value, and the value.
    pub(crate) fn leading(&self, name: &LockName) -> Option<(u64, u64, i32, u64, Vec<u8>)> {
        let leader = self.holders(name).into_iter().find(|entry| !entry.cooling && self.is_election(name) == Some(true))?;
        let token = leader.granted?;
        Some((leader.number, token, leader.version, token.max(leader.proclaimed), leader.value.clone()?))
    }

    fn refuse_no_election(acquire: &Acquire) -> Result<()> {
        let shared = acquire.wants.iter().any(|want| want.mode == Mode::Shared);
        for (what, asked) in [
            ("an election of several names", acquire.wants.len() > 1),
            ("a reentrant hold of an election", acquire.reentrant),
            ("an election that is shared", shared),
            ("an election with a limit", acquire.limit.is_some_and(|limit| limit > 1)),
        ] {
            if asked {
                return Err(Rejection::Unsupported { what: what.to_owned() });
            }
        }
        Ok(())
    }

    fn proclaim(&mut self, order: &Proclaim) -> Result<Outcome> {
        match self.past_of(&order.key.key) {
            Some(Past::Write(fingerprint, outcome)) if fingerprint == order.key.fingerprint => return Ok(outcome),
            Some(Past::Write(..) | Past::Grant(_) | Past::Broken(_) | Past::Session) => return other_request(),
            None if self.is_used(&order.key.key) => return other_request(),
            None => {}
        }
        let (now, anybody) = (self.now(), self.makes(Mistake::AnyCandidateProclaims));
        let leads = |entry: &Entry| {
            let entries = entry.lock == order.election && entry.id == order.grant && !entry.cooling && entry.value.is_some();
            entries && (entry.granted.is_some() || anybody)
        };
        let leader = self.entries.iter_mut().find(|entry| leads(entry)).ok_or(Rejection::NotLeader)?;
        (leader.value, leader.version, leader.proclaimed) = (Some(order.value.to_vec()), leader.version + 1, now);
        let results = vec![OperationResult::Set { version: leader.version }];
        self.emit_leader(&order.election);
        self.changed = true;
        let outcome = Outcome::Written { succeeded: true, results, at: Revision(now) };
        self.past.push((order.key.key, now, Past::Write(order.key.fingerprint, outcome.clone())));
        Ok(outcome)
    }

    fn emit_leader(&mut self, lock: &LockName) {
        if let Some((number, token, version, _, value)) = self.leading(lock) {
            let (lock, grant, token, value) = (lock.clone(), GrantNumber(number), FencingToken(token), value.into());
            self.facts.push(Event::Proclaimed { lock, grant, token, version, value });
        }
    }

    fn emit_vacancy(&mut self, entry: &Entry) {
        let led = entry.granted.is_some() && entry.value.is_some() && !self.makes(Mistake::VacancyIsNotReported);
        self.facts.extend(led.then(|| Event::Vacated { lock: entry.lock.clone(), grant: GrantNumber(entry.number) }));
    }

    // Actions by administrators

    /// The reason that was given for breaking a grant.
    pub(crate) fn note(&self, id: &GrantId) -> Option<String> {
        self.past.iter().find_map(|(past, _, what)| match what {
            Past::Broken(note) if past == id => Some(note.clone()),
            Past::Broken(_) | Past::Grant(_) | Past::Session | Past::Write(..) => None,
        })
    }

    fn note_broken(&mut self, id: GrantId, reason: &str) {
        if !reason.is_empty() {
            self.remember(id, Past::Broken(reason.to_owned()));
        }
    }

    fn break_lock(&mut self, order: &Break) -> Result<Outcome> {
        match self.past_of(&order.key.key) {
            Some(Past::Write(fingerprint, _)) if fingerprint == order.key.fingerprint && self.makes(Mistake::BreakIsRepeated) => {
            }
            Some(Past::Write(fingerprint, _)) if fingerprint == order.key.fingerprint => return Ok(Outcome::Nothing),
            Some(Past::Write(..) | Past::Grant(_) | Past::Broken(_) | Past::Session) => return other_request(),
            None if self.is_used(&order.key.key) => return other_request(),
            None => {}
        }
        if let Some(token) = order.token {
            self.verify(&Condition::Fence { lock: order.lock.clone(), token, grant: None })?;
        }
        let spares = self.makes(Mistake::BreakSparesCooling);
        let everybody = self.makes(Mistake::BreakEndsWaiters);
        let in_lock = self.entries.iter().filter(|entry| entry.lock == order.lock);
        let mut broken: Vec<Entry> =
            in_lock.filter(|entry| (entry.granted.is_some() || everybody) && !(entry.cooling && spares)).cloned().collect();
        broken.sort_by_key(|entry| entry.number);
        // They end together: none of them becomes the only holder in between.
        for entry in self.entries.iter_mut().filter(|entry| entry.lock == order.lock) {
            entry.upgrading = false;
        }
        for entry in &broken {
            if entry.cooling {
                self.cool(entry.number);
            } else {
                self.end(entry, EndReason::Broken);
                entry.ids().into_iter().for_each(|id| self.note_broken(id, &order.reason));
                self.annotate_history(entry.number, &order.by, &order.reason);
            }
        }
        if !broken.is_empty() {
            let (lock, by, reason) = (order.lock.clone(), order.by.clone(), order.reason.clone());
            self.facts.push(Event::Broken { lock, by, reason });
        }
        self.changed = true;
        self.past.push((order.key.key, self.now(), Past::Write(order.key.fingerprint, Outcome::Nothing)));
        let named = broken.iter().take(limits::BROKEN_NAMED_MAX).map(|entry| GrantNumber(entry.number)).collect();
        Ok(Outcome::Broken { holders: broken.len() as u64, named })
    }

    fn end_session(&mut self, number: u64, by: &str, reason: &str) -> Result<Outcome> {
        if !self.sessions.iter().any(|session| session.number == number) {
            return Err(Rejection::NoSession);
        }
        self.facts.push(Event::SessionClosed { session: SessionNumber(number) });
        self.end_nodes(number);
        let (mine, others): (Vec<Entry>, Vec<Entry>) =
            self.entries.iter().cloned().partition(|entry| entry.session == number && !entry.cooling);
        self.entries = others;
        let mut held: Vec<LockName> =
            mine.iter().filter(|entry| entry.granted.is_some()).map(|entry| entry.lock.clone()).collect();
        held.sort();
        held.dedup();
        for lock in held {
            self.facts.push(Event::Broken { lock, by: by.to_owned(), reason: reason.to_owned() });
        }
        let ended: Vec<(GrantId, u64)> =
            mine.iter().flat_map(|entry| entry.ids().into_iter().map(|id| (id, entry.number))).collect();
        self.end_whole_session(number, mine, Some(EndReason::Broken));
        for (id, number) in ended {
            self.note_broken(id, reason);
            self.annotate_history(number, by, reason);
        }
        Ok(self.done())
    }

    fn forget(&mut self, through: u64) -> Outcome {
        let before = self.past.len();
        self.past.retain(|(_, since, _)| *since > through);
        if self.past.len() == before { Outcome::Nothing } else { self.done() }
    }

    // The history

    fn record_hold(&mut self, entry: &Entry, how: EndReason) {
        self.emit_vacancy(entry);
        self.count_ended(entry, how);
        self.record_hold_as(entry, how.into());
    }

    fn record_hold_as(&mut self, entry: &Entry, how: HoldingEnd) {
        let from = entry.granted.or(self.makes(Mistake::HistoryHasWaiters).then_some(entry.number));
        if matches!(how, HoldingEnd::Downgraded | HoldingEnd::Upgraded) {
            self.count_changed_mode(entry);
        }
        self.history.extend(from.map(|token| PastHold {
            lock: entry.lock.clone(),
            number: entry.number,
            session: entry.session,
            owner: entry.owner.text.clone(),
            mode: entry.mode,
            permits: entry.permits,
            queued: entry.queued,
            token,
            from: entry.mode_since.map_or(entry.since, |since| since.at),
            ended: self.now(),
            to: self.at,
            how,
            by: String::new(),
            reason: String::new(),
        }));
        if self.history.iter().filter(|holding| holding.lock == entry.lock).count() > limits::HISTORY_PER_LOCK_MAX {
            let of_lock = self.history.iter().enumerate().filter(|(_, holding)| holding.lock == entry.lock);
            let oldest = of_lock.min_by_key(|(_, holding)| (holding.ended, holding.number)).map(|(index, _)| index);
            self.history.remove(oldest.expect("there are many"));
        }
    }

    fn annotate_history(&mut self, number: u64, by: &str, reason: &str) {
        let now = self.now();
        for holding in self.history.iter_mut().filter(|holding| holding.number == number && holding.ended == now) {
            (holding.by, holding.reason) = (by.to_owned(), reason.to_owned());
        }
    }

    /// Newest first.
    pub(crate) fn history_of(&self, lock: &LockName) -> Vec<PastHold> {
        let mut of_lock: Vec<PastHold> = self.history.iter().filter(|holding| holding.lock == *lock).cloned().collect();
        of_lock.sort_by_key(|holding| std::cmp::Reverse((holding.ended, holding.number)));
        of_lock
    }

    fn sort_history(&mut self) {
        self.history.sort_by_key(|holding| (holding.ended, holding.number, holding.lock.clone()));
    }

    /// Drops the oldest entries of all, down to this number: with little room the history is short.
    pub(crate) fn shorten_history(&mut self, left: usize) {
        self.sort_history();
        self.history.drain(..self.history.len().saturating_sub(left));
        self.drop_numbers();
    }

    fn forget_history(&mut self, through: u64) -> Outcome {
        self.sort_history();
        let old = self.history.iter().filter(|holding| holding.ended <= through).count();
        self.history.drain(..old.min(limits::HISTORY_REMOVED_MAX));
        if old == 0 { Outcome::Nothing } else { self.done() }
    }

    // The tree

    fn verify(&self, condition: &Condition) -> Result<()> {
        match condition {
            Condition::Fence { lock, token, grant } => {
                let live = |entry: &&Entry| !entry.cooling || self.makes(Mistake::CoolingTokenPasses);
                let held: Vec<&Entry> = self.holders(lock).into_iter().filter(live).collect();
                let by_grant = !self.makes(Mistake::ReaderTokenForAnyReader);
                let is_it = |entry: &&Entry| !by_grant || grant.is_none_or(|grant| entry.ids().contains(&grant));
                let mut right = held.iter().filter(|entry| entry.granted == Some(token.0)).filter(|entry| is_it(entry));
                match right.next() {
                    Some(_) => Ok(()),
                    None => Err(Rejection::StaleToken {
                        current: held.iter().filter_map(|entry| entry.granted).max().map(FencingToken),
                    }),
                }
            }
            Condition::Version { path, version } => {
                let current = self.version_at(path);
                if current == *version { Ok(()) } else { Err(Rejection::VersionMismatch { current }) }
            }
            Condition::Exists { path } if self.version_at(path).is_some() => Ok(()),
            Condition::Exists { .. } => Err(Rejection::VersionMismatch { current: None }),
            Condition::Session { session } => {
                let is_it = |known: &Session| match session {
                    SessionKey::Id(id) => known.id == Some(*id),
                    SessionKey::Number(number) => known.number == number.0,
                };
                if self.sessions.iter().any(is_it) { Ok(()) } else { Err(Rejection::NoSession) }
            }
        }
    }

    fn transact(&mut self, transact: &Transact) -> Result<Outcome> {
        if let Some(key) = &transact.key {
            match self.past_of(&key.key) {
                Some(Past::Write(fingerprint, outcome)) if fingerprint == key.fingerprint => return Ok(outcome),
                Some(Past::Write(..) | Past::Grant(_) | Past::Broken(_) | Past::Session) => return other_request(),
                None if self.is_used(&key.key) => return other_request(),
                None => {}
            }
        }
        let step = |part, index: usize, reason| Rejection::Step {
            part,
            index: u32::try_from(index).expect("few"),
            reason: Box::new(reason),
        };
        let conditions = transact.conditions.iter().enumerate();
        let failed = conditions.into_iter().find_map(|(index, condition)| Some((index, self.verify(condition).err()?)));
        let (part, operations) = match (failed, &transact.otherwise) {
            (None, _) => (Part::Then, &transact.then),
            (Some(_), Some(otherwise)) => (Part::Otherwise, otherwise),
            (Some((index, reason)), None) => return Err(step(Part::Conditions, index, reason)),
        };
        let succeeded = part == Part::Then;
        let mut results = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            let now = self.now_for(operation);
            let result = if let Operation::Check { path, version } = operation {
                self.check(path, *version)
            } else {
                self.tree.operate(operation, now)
            };
            results.push(result.map_err(|reason| step(part, index, reason))?);
        }
        self.changed = !self.tree.events.is_empty() || transact.key.is_some();
        let at = Revision(if self.changed { self.now() } else { self.now() - 1 });
        let outcome = Outcome::Written { succeeded, results, at };
        if let Some(key) = &transact.key {
            self.past.push((key.key, self.now(), Past::Write(key.fingerprint, outcome.clone())));
        }
        Ok(outcome)
    }

    fn now_for(&self, operation: &Operation) -> Now {
        let session = match operation {
            Operation::Put { lifetime: Lifetime::Ephemeral { session }, .. }
            | Operation::Create { lifetime: Lifetime::Ephemeral { session }, .. }
            | Operation::CreateSequential { lifetime: Lifetime::Ephemeral { session }, .. } => {
                self.sessions.iter().find(|known| known.id == Some(*session)).map(|known| known.number)
            }
            Operation::Put { .. }
            | Operation::Create { .. }
            | Operation::CreateSequential { .. }
            | Operation::Set { .. }
            | Operation::Delete { .. }
            | Operation::Check { .. } => None,
        };
        Now { revision: self.now(), at: self.at.0, session }
    }

    fn sweep(&mut self, nodes: &[Sweepable]) -> Outcome {
        self.tree.sweep(nodes, self.now());
        if self.tree.events.is_empty() { Outcome::Nothing } else { self.done() }
    }
}

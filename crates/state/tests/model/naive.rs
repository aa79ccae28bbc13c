//! The rules of the machine once more, as plainly as can be: lists that are searched from end to end, and no index.
//!
//! It shares no rule with the machine, only its words. Where the two differ, one of them is wrong.

use crate::naive_tree::{NaiveTree, Now, TreeMistakes};
use fairhold_state::command::{
    Acquire, Blocked, Break, Claimant, Command, Condition, Event, Held, HolderFacts, IfBusy, Lifetime, Meta, OpenSession,
    Operation, Outcome, Owner, Part, Queued, Rejection, SessionKey, Sweepable, Transact,
};
use fairhold_types::{
    ClusterId, EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, Revision, SessionId, SessionNumber, limits,
    time::WallMillis,
};

/// A mistake that a model can be told to make, to show that it would be found.
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
    UpgradeKeepsTheToken,
    ReadersJoinAnUpgrade,
}

#[derive(Debug, Clone)]
pub(crate) struct Stand {
    pub(crate) number: u64,
    pub(crate) id: GrantId,
    pub(crate) lock: LockName,
    session: u64,
    anonymous: bool,
    pub(crate) mode: Mode,
    asked: Mode,
    pub(crate) upgrading: bool,
    asked_limit: Option<u32>,
    pub(crate) permits: u32,
    pub(crate) priority: i32,
    owner: Owner,
    meta: Meta,
    pub(crate) attempt: u64,
    pub(crate) granted: Option<u64>,
    delay: u64,
    pub(crate) cooling: bool,
    since: WallMillis,
}

impl Stand {
    fn ended(&self, reason: EndReason) -> Event {
        let (lock, grant, session) = (self.lock.clone(), GrantNumber(self.number), SessionNumber(self.session));
        Event::Ended { lock, grant, session, reason }
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
    ended: Vec<(GrantId, EndReason)>,
    floor: Option<GrantId>,
}

#[derive(Debug, Clone)]
struct Lock {
    name: LockName,
    limit: Option<u32>,
    /// The last revision at which somebody or a lower lock came or went.
    since: u64,
}

/// A time of holding that is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Holding {
    pub(crate) lock: LockName,
    pub(crate) number: u64,
    pub(crate) token: u64,
    pub(crate) from: WallMillis,
    pub(crate) ended: u64,
    pub(crate) to: WallMillis,
    pub(crate) how: EndReason,
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
    sessions: Vec<Session>,
    pub(crate) stands: Vec<Stand>,
    locks: Vec<Lock>,
    past: Vec<(GrantId, u64, Past)>,
    pub(crate) history: Vec<Holding>,
    pub(crate) tree: NaiveTree,
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
        Naive { mistake, tree, ..Naive::default() }
    }

    fn errs(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn now(&self) -> u64 {
        self.revision + 1
    }

    /// The answer, and the facts about sessions and grants, in no order that matters.
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
        }
        (result, std::mem::take(&mut self.facts))
    }

    fn run(&mut self, command: &Command) -> Result<Outcome> {
        match command {
            Command::FormCluster { cluster } => Ok(self.form(*cluster)),
            Command::OpenSession(open) => self.open(open),
            Command::CloseSession { session, at: _ } => self.close(session),
            Command::ExpireSession { session, at: _ } => Ok(self.expire(session.0)),
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Withdraw { grant, attempt, at: _ } => self.withdraw(grant, *attempt),
            Command::Abandon { grant, attempt, at: _ } => Ok(self.abandon(grant, *attempt)),
            Command::Release { grant, at: _ } => Ok(self.release(grant)),
            Command::SetGrantTimeout { grant, timeout_ms } => self.retime(grant, *timeout_ms),
            Command::EndCooling { lock: _, contender, at: _ } => Ok(self.cool(contender.0)),
            Command::Forget { through } => Ok(self.forget(through.0)),
            Command::ForgetLock { lock, since } => Ok(self.forget_lock(lock, since.0)),
            Command::Transact(transact) => self.transact(transact),
            Command::Break(order) => self.break_lock(order),
            Command::EndSession { session, by, reason, at: _ } => self.end_session(session.0, by, reason),
            Command::Sweep { nodes, at: _ } => Ok(self.sweep(nodes)),
            // No history of this model has an election.
            Command::Proclaim(_) => Err(Rejection::NotLeader),
            Command::ForgetHistory { through } => Ok(self.forget_history(through.0)),
            Command::Downgrade { grant, at: _ } => self.downgrade(grant),
            Command::Upgrade { grant, if_busy, at: _ } => self.upgrade(grant, *if_busy),
            Command::EndUpgrade { grant, at: _ } => self.end_upgrade(grant),
        }
    }

    fn done(&mut self) -> Outcome {
        self.changed = true;
        Outcome::Done
    }

    fn form(&mut self, cluster: ClusterId) -> Outcome {
        if self.cluster.is_some() {
            return Outcome::Nothing;
        }
        self.cluster = Some(cluster);
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
                None if self.live(&key).is_some() => return other_request(),
                None => {}
            }
        }
        let number = self.now();
        self.sessions.push(Session {
            number,
            id: Some(open.id),
            key: open.key,
            timeout: open.timeout_ms,
            name: open.name.clone(),
            meta: open.meta.clone(),
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
        let (mine, others) = self.stands.iter().cloned().partition(|stand| stand.session == number && !stand.cooling);
        self.stands = others;
        self.bury(number, mine, None);
        Ok(self.done())
    }

    fn expire(&mut self, number: u64) -> Outcome {
        if !self.sessions.iter().any(|session| session.number == number) {
            return Outcome::Nothing;
        }
        self.facts.push(Event::SessionExpired { session: SessionNumber(number) });
        self.end_nodes(number);
        let mut cooled = Vec::new();
        let cools = !self.errs(Mistake::NothingCools);
        for stand in self.stands.iter_mut().filter(|stand| stand.session == number && !stand.cooling) {
            if cools && stand.granted.is_some() && stand.delay > 0 {
                stand.cooling = true;
                stand.upgrading = false;
                cooled.push(stand.clone());
            }
        }
        for stand in cooled {
            if !self.errs(Mistake::HistoryEndsWithCooling) {
                self.write_down(&stand, EndReason::Expired);
            }
            let (lock, grant, session) = (stand.lock.clone(), GrantNumber(stand.number), SessionNumber(number));
            self.facts.push(Event::Ended { lock: lock.clone(), grant, session, reason: EndReason::Expired });
            self.facts.push(Event::Cooling { lock, grant, delay_ms: stand.delay });
            self.past.push((stand.id, self.now(), Past::Grant(EndReason::Expired)));
        }
        let (mine, others) = self.stands.iter().cloned().partition(|stand| stand.session == number && !stand.cooling);
        self.stands = others;
        let reason = if self.errs(Mistake::ExpiryIsRelease) { EndReason::Released } else { EndReason::Expired };
        self.bury(number, mine, Some(reason));
        self.done()
    }

    fn end_nodes(&mut self, session: u64) {
        if !self.errs(Mistake::EphemeralsStay) {
            self.tree.end_session(session, self.now());
        }
    }

    /// Ends a session and all that it had left, then lets others on.
    fn bury(&mut self, number: u64, mine: Vec<Stand>, reason: Option<EndReason>) {
        for stand in &mine {
            let as_it_stood = if stand.granted.is_some() { EndReason::Released } else { EndReason::Withdrawn };
            let reason = reason.unwrap_or(as_it_stood);
            self.write_down(stand, reason);
            self.facts.push(stand.ended(reason));
            self.past.push((stand.id, self.now(), Past::Grant(reason)));
            self.touch(&stand.lock);
        }
        self.drop_session(number);
        // Readers may join one that cools and was about to be the only one.
        for lock in self.locks.iter().map(|lock| lock.name.clone()).collect::<Vec<_>>() {
            self.settle(&lock);
        }
        for stand in mine {
            self.settle(&stand.lock);
        }
    }

    fn drop_session(&mut self, number: u64) {
        let key = self.sessions.iter().find(|session| session.number == number).and_then(|session| session.key);
        self.sessions.retain(|session| session.number != number);
        self.past.extend(key.map(|key| (key, self.revision + 1, Past::Session)));
    }

    fn retime(&mut self, id: &GrantId, timeout: u64) -> Result<Outcome> {
        let stand = self.live_or_ended(id)?;
        let number = stand.session;
        if !stand.anonymous {
            return Err(Rejection::SessionOwned { session: SessionNumber(number) });
        }
        for session in self.sessions.iter_mut().filter(|session| session.number == number && session.timeout != timeout) {
            session.timeout = timeout;
            self.changed = true;
            self.facts.push(Event::SessionRetimed { session: SessionNumber(number), timeout_ms: timeout });
        }
        Ok(if self.changed { Outcome::Done } else { Outcome::Nothing })
    }

    // Locks

    pub(crate) fn limit(&self, lock: &LockName) -> Option<u32> {
        let set = self.locks.iter().find(|known| known.name == *lock)?.limit;
        let idle = !self.stands.iter().any(|stand| stand.lock == *lock);
        if idle && self.errs(Mistake::LimitForgottenWhenIdle) { None } else { set }
    }

    pub(crate) fn holders(&self, lock: &LockName) -> Vec<&Stand> {
        self.stands.iter().filter(|stand| stand.lock == *lock && stand.granted.is_some()).collect()
    }

    /// Those who wait, the next one first.
    pub(crate) fn waiting(&self, lock: &LockName) -> Vec<&Stand> {
        let mut waiting: Vec<&Stand> =
            self.stands.iter().filter(|stand| stand.lock == *lock && stand.granted.is_none()).collect();
        if !self.errs(Mistake::PriorityIgnored) {
            // Stable: among equals those who came first stay first.
            waiting.sort_by_key(|stand| -i64::from(stand.priority));
        }
        waiting
    }

    /// Whether a set of holders is one that a lock may have.
    pub(crate) fn legal(holders: &[&Stand], limit: u32) -> bool {
        if holders.iter().any(|stand| stand.mode == Mode::Shared) {
            return holders.iter().all(|stand| stand.mode == Mode::Shared);
        }
        holders.iter().map(|stand| u64::from(stand.permits)).sum::<u64>() <= u64::from(limit)
    }

    fn next_grantable(&self, lock: &LockName) -> Option<u64> {
        let limit = self.limit(lock).unwrap_or(1);
        let closed = !self.errs(Mistake::ReadersJoinAnUpgrade) && self.holders(lock).iter().any(|holder| holder.upgrading);
        let fits = |stand: &Stand| !closed && Naive::legal(&[self.holders(lock), vec![stand]].concat(), limit);
        let waiting = self.waiting(lock);
        let passes = |stand: &Stand| {
            let reader = self.errs(Mistake::ReadersPassWriters) && stand.mode == Mode::Shared;
            reader || (self.errs(Mistake::SmallPassesLarge) && limit > 1)
        };
        let (first, rest) = waiting.split_first()?;
        let next = std::iter::once(first).chain(rest.iter().filter(|stand| passes(stand))).find(|stand| fits(stand));
        next.map(|stand| stand.number)
    }

    fn settle(&mut self, lock: &LockName) {
        if let [only] = self.holders(lock).as_slice()
            && only.upgrading
        {
            let (number, now, at) = (only.number, self.now(), self.at);
            let keeps = self.errs(Mistake::UpgradeKeepsTheToken);
            for stand in self.stands.iter_mut().filter(|stand| stand.number == number && stand.lock == *lock) {
                stand.upgrading = false;
                stand.mode = Mode::Exclusive;
                stand.granted = if keeps { stand.granted } else { Some(now) };
                stand.since = at;
            }
            self.facts.push(Event::Granted { lock: lock.clone(), grant: GrantNumber(number), token: FencingToken(now) });
        }
        while let Some(number) = self.next_grantable(lock) {
            let (now, at) = (self.now(), self.at);
            let token = if self.errs(Mistake::TokenIsTheQueueRevision) { number } else { now };
            for stand in self.stands.iter_mut().filter(|stand| stand.number == number) {
                stand.granted = Some(token);
                stand.since = at;
            }
            self.facts.push(Event::Granted { lock: lock.clone(), grant: GrantNumber(number), token: FencingToken(token) });
        }
    }

    fn touch(&mut self, name: &LockName) {
        let now = self.now();
        for lock in self.locks.iter_mut().filter(|lock| lock.name == *name) {
            lock.since = now;
        }
    }

    /// The lock one level up, and so on to the first level.
    fn uppers(name: &LockName) -> Vec<LockName> {
        let mut names = Vec::new();
        let mut text = name.as_str();
        while let Some((upper, _)) = text.rsplit_once('/') {
            names.push(LockName::parse(upper).expect("a part of a name is a name"));
            text = upper;
        }
        names
    }

    fn make_lock(&mut self, name: &LockName, limit: Option<u32>) {
        let mut missing: Vec<LockName> = std::iter::once(name.clone()).chain(Naive::uppers(name)).collect();
        missing.retain(|level| !self.locks.iter().any(|lock| lock.name == *level));
        if let Some(upper) = missing.last().and_then(|highest| Naive::uppers(highest).first().cloned()) {
            self.touch(&upper);
        }
        let since = self.now();
        self.locks.extend(missing.into_iter().map(|name| Lock { name, limit: None, since }));
        for lock in self.locks.iter_mut().filter(|lock| lock.name == *name) {
            lock.limit = lock.limit.or(limit);
            lock.since = since;
        }
    }

    /// Locks in which nobody stands and below which there is none, with the revision since when.
    pub(crate) fn idle(&self) -> Vec<(LockName, Revision)> {
        let lower = |name: &LockName| self.locks.iter().any(|other| Naive::uppers(&other.name).contains(name));
        let stood_in = |name: &LockName| self.stands.iter().any(|stand| stand.lock == *name);
        let idle = self.locks.iter().filter(|lock| !lower(&lock.name) && !stood_in(&lock.name));
        let mut idle: Vec<_> = idle.map(|lock| (lock.name.clone(), Revision(lock.since))).collect();
        idle.sort();
        idle
    }

    fn forget_lock(&mut self, name: &LockName, since: u64) -> Outcome {
        if !self.idle().contains(&(name.clone(), Revision(since))) {
            return Outcome::Nothing;
        }
        self.locks.retain(|lock| lock.name != *name);
        if let Some(upper) = Naive::uppers(name).first() {
            self.touch(upper);
        }
        self.facts.push(Event::LockForgotten { lock: name.clone() });
        self.done()
    }

    // Grants

    fn live(&self, id: &GrantId) -> Option<&Stand> {
        self.stands.iter().find(|stand| stand.id == *id && !stand.cooling)
    }

    fn past_of(&self, id: &GrantId) -> Option<Past> {
        let of_sessions = self.sessions.iter().flat_map(|session| &session.ended);
        let of_sessions = of_sessions.filter(|(ended, _)| ended == id).map(|(_, reason)| Past::Grant(*reason));
        of_sessions.chain(self.past.iter().filter(|(past, _, _)| past == id).map(|(_, _, what)| what.clone())).next()
    }

    /// What is known of an id: for comparison with what the machine says.
    pub(crate) fn ended(&self, id: &GrantId) -> Option<EndReason> {
        match self.past_of(id)? {
            Past::Grant(reason) => Some(reason),
            Past::Broken(_) => Some(EndReason::Broken),
            Past::Session | Past::Write(..) => None,
        }
    }

    fn live_or_ended(&self, id: &GrantId) -> Result<&Stand> {
        match (self.live(id), self.ended(id)) {
            (Some(stand), _) => Ok(stand),
            (None, Some(reason)) => Err(Rejection::GrantEnded { reason, note: self.note(id) }),
            (None, None) => Err(Rejection::NoGrant),
        }
    }

    fn is_session_key(&self, id: &GrantId) -> bool {
        self.sessions.iter().any(|session| session.key == Some(*id))
    }

    fn told(stand: &Stand) -> Outcome {
        let (number, session, attempt) = (GrantNumber(stand.number), SessionNumber(stand.session), stand.attempt);
        match stand.granted {
            Some(token) => Outcome::Held(Held { number, token: FencingToken(token), session, attempt }),
            None => Outcome::Queued(Queued { number, session, attempt }),
        }
    }

    fn acquire(&mut self, acquire: &Acquire) -> Result<Outcome> {
        let want = &acquire.wants[0];
        if acquire.reentrant {
            return Err(Rejection::Unsupported { what: "a reentrant hold".to_owned() });
        }
        if let Some(stand) = self.live(&acquire.grant) {
            return self.attach(stand.clone(), acquire);
        }
        match self.past_of(&acquire.grant) {
            Some(Past::Grant(reason)) => return Err(Rejection::GrantEnded { reason, note: self.note(&acquire.grant) }),
            Some(Past::Broken(note)) => return Err(Rejection::GrantEnded { reason: EndReason::Broken, note: Some(note) }),
            Some(Past::Session | Past::Write(..)) => return other_request(),
            None if self.is_session_key(&acquire.grant) => return other_request(),
            None => {}
        }
        let session = match &acquire.claimant {
            Claimant::Anonymous { .. } => None,
            Claimant::Session(id) => {
                let session = self.sessions.iter().find(|session| session.id == Some(*id)).ok_or(Rejection::NoSession)?;
                if session.floor.is_some_and(|floor| acquire.grant <= floor) && !self.errs(Mistake::NoFloor) {
                    return Err(Rejection::Forgotten);
                }
                Some(session.number)
            }
        };
        let stood_in = self.stands.iter().any(|stand| stand.lock == want.lock);
        let in_force = self.limit(&want.lock).or(stood_in.then_some(1));
        let limit = in_force.or(acquire.limit).unwrap_or(1);
        if acquire.limit.is_some_and(|asked| asked != limit) {
            return Err(Rejection::LimitMismatch { limit });
        }
        if acquire.permits > limit {
            return Err(Rejection::PermitsOverLimit { permits: acquire.permits, limit });
        }
        if limit > 1 && want.mode == Mode::Shared {
            return Err(Rejection::SharedWithLimit { limit });
        }
        let outcome = self.join(acquire, session);
        if acquire.if_busy == IfBusy::Refuse && matches!(outcome, Outcome::Queued(_)) {
            return Err(self.busy(&want.lock));
        }
        Ok(outcome)
    }

    /// What a newcomer is told that has just queued, and is to be taken out again.
    fn busy(&self, lock: &LockName) -> Rejection {
        let holders = self.holders(lock);
        let before = self.waiting(lock).iter().take_while(|stand| stand.number != self.now()).count();
        let first = holders.iter().min_by_key(|stand| stand.number).expect("who waits, waits for somebody");
        Rejection::LockHeld { holder: Naive::facts_of(first), ahead: (holders.len() + before) as u64 }
    }

    fn facts_of(stand: &Stand) -> HolderFacts {
        HolderFacts {
            number: GrantNumber(stand.number),
            owner: stand.owner.text.clone(),
            token: stand.granted.filter(|_| !stand.cooling).map(FencingToken),
            since: stand.since,
        }
    }

    fn join(&mut self, acquire: &Acquire, named: Option<u64>) -> Outcome {
        let (number, lock) = (self.now(), acquire.wants[0].lock.clone());
        if let Claimant::Anonymous { timeout_ms } = acquire.claimant {
            self.sessions.push(Session {
                number,
                id: None,
                key: None,
                timeout: timeout_ms,
                name: String::new(),
                meta: Meta::new(),
                ended: Vec::new(),
                floor: None,
            });
            self.facts.push(Event::SessionOpened { session: SessionNumber(number), timeout_ms });
        }
        self.make_lock(&lock, acquire.limit);
        self.stands.push(Stand {
            number,
            id: acquire.grant,
            lock: lock.clone(),
            session: named.unwrap_or(number),
            anonymous: named.is_none(),
            mode: acquire.wants[0].mode,
            asked: acquire.wants[0].mode,
            upgrading: false,
            asked_limit: acquire.limit,
            permits: acquire.permits,
            priority: acquire.priority,
            owner: acquire.owner.clone(),
            meta: acquire.meta.clone(),
            attempt: 1,
            granted: None,
            delay: acquire.lock_delay_ms,
            cooling: false,
            since: acquire.at,
        });
        self.changed = true;
        self.facts.push(Event::Queued { lock: lock.clone(), grant: GrantNumber(number) });
        self.settle(&lock);
        Naive::told(self.stands.last().expect("it was pushed"))
    }

    fn attach(&mut self, stand: Stand, acquire: &Acquire) -> Result<Outcome> {
        let want = &acquire.wants[0];
        let session = self.sessions.iter().find(|session| session.number == stand.session).expect("a live grant has one");
        let same_session = match &acquire.claimant {
            Claimant::Session(id) => session.id == Some(*id),
            Claimant::Anonymous { .. } => session.id.is_none(),
        };
        let same_owner = match (stand.owner.given, acquire.owner.given) {
            (true, true) => stand.owner.text == acquire.owner.text,
            (given, given_now) => given == given_now,
        };
        for (field, same) in [
            ("name", stand.lock == want.lock),
            ("mode", stand.asked == want.mode),
            ("limit", stand.asked_limit == acquire.limit),
            ("permits", stand.permits == acquire.permits),
            ("priority", stand.priority == acquire.priority),
            ("session", same_session),
            ("owner", same_owner),
            ("lock_delay", stand.delay == acquire.lock_delay_ms),
            ("meta", stand.meta == acquire.meta),
        ] {
            if !same {
                return mismatch(field);
            }
        }
        self.changed = true;
        let known = self.stands.iter_mut().find(|known| known.number == stand.number).expect("it is live");
        known.attempt += 1;
        let outcome = Naive::told(known);
        let (attempt, grant) = (known.attempt, GrantNumber(known.number));
        self.facts.push(Event::Attached { lock: stand.lock, grant, attempt });
        Ok(outcome)
    }

    fn held(&self, id: &GrantId) -> Result<Stand> {
        let stand = self.live_or_ended(id)?;
        if stand.granted.is_none() {
            return Err(Rejection::NotHeld);
        }
        Ok(stand.clone())
    }

    fn alter(&mut self, number: u64, change: impl Fn(&mut Stand)) -> Stand {
        self.changed = true;
        let stand = self.stands.iter_mut().find(|stand| stand.number == number).expect("it is live");
        change(stand);
        stand.clone()
    }

    fn told_again(&self, number: u64) -> Outcome {
        let stand = self.stands.iter().find(|stand| stand.number == number).expect("it is live");
        match (stand.upgrading, Naive::told(stand)) {
            (true, Outcome::Held(Held { number, session, attempt, .. })) => Outcome::Queued(Queued { number, session, attempt }),
            (_, told) => told,
        }
    }

    fn refuse_semaphore(&self, lock: &LockName) -> Result<()> {
        match self.limit(lock) {
            Some(limit) if limit > 1 => Err(Rejection::SharedWithLimit { limit }),
            Some(_) | None => Ok(()),
        }
    }

    fn downgrade(&mut self, id: &GrantId) -> Result<Outcome> {
        let stand = self.held(id)?;
        if stand.mode == Mode::Shared {
            return Ok(Naive::told(&stand));
        }
        self.refuse_semaphore(&stand.lock)?;
        let (now, errs) = (self.now(), self.errs(Mistake::DowngradeTakesAnotherToken));
        self.alter(stand.number, |stand| {
            stand.mode = Mode::Shared;
            stand.granted = if errs { Some(now) } else { stand.granted };
        });
        self.facts.push(Event::Downgraded { lock: stand.lock.clone(), grant: GrantNumber(stand.number) });
        self.settle(&stand.lock);
        Ok(self.told_again(stand.number))
    }

    fn upgrade(&mut self, id: &GrantId, if_busy: IfBusy) -> Result<Outcome> {
        let stand = self.held(id)?;
        if stand.mode == Mode::Exclusive || stand.upgrading {
            return Ok(self.told_again(stand.number));
        }
        self.refuse_semaphore(&stand.lock)?;
        let holders = self.holders(&stand.lock);
        let blocked = |stand: &Stand| Blocked {
            session: SessionNumber(stand.session),
            owner: stand.owner.text.clone(),
            lock: stand.lock.clone(),
        };
        if let Some(other) = holders.iter().find(|holder| holder.upgrading) {
            return Err(Rejection::WouldDeadlock { cycle: vec![blocked(&stand), blocked(other)] });
        }
        let others = holders.iter().filter(|holder| holder.number != stand.number);
        if let Some(first) = others.min_by_key(|holder| holder.number)
            && if_busy == IfBusy::Refuse
        {
            return Err(Rejection::LockHeld { holder: Naive::facts_of(first), ahead: holders.len() as u64 - 1 });
        }
        self.alter(stand.number, |stand| stand.upgrading = true);
        self.facts.push(Event::Upgrading { lock: stand.lock.clone(), grant: GrantNumber(stand.number) });
        self.settle(&stand.lock);
        Ok(self.told_again(stand.number))
    }

    fn end_upgrade(&mut self, id: &GrantId) -> Result<Outcome> {
        let stand = self.held(id)?;
        if !stand.upgrading {
            return Ok(Naive::told(&stand));
        }
        self.alter(stand.number, |stand| stand.upgrading = false);
        self.facts.push(Event::UpgradeEnded { lock: stand.lock.clone(), grant: GrantNumber(stand.number) });
        self.settle(&stand.lock);
        Ok(self.told_again(stand.number))
    }

    fn withdraw(&mut self, id: &GrantId, attempt: u64) -> Result<Outcome> {
        let stand = self.live_or_ended(id)?.clone();
        if stand.attempt > attempt {
            return Ok(Outcome::Nothing);
        }
        if stand.granted.is_some() && !self.errs(Mistake::WithdrawEndsHolders) {
            return Ok(Naive::told(&stand));
        }
        Ok(self.end(&stand, EndReason::Withdrawn))
    }

    fn abandon(&mut self, id: &GrantId, attempt: u64) -> Outcome {
        match self.live(id).cloned() {
            Some(stand) if stand.attempt <= attempt || self.errs(Mistake::LateAbandonEnds) => {
                self.end(&stand, EndReason::Withdrawn)
            }
            Some(_) | None => Outcome::Nothing,
        }
    }

    fn release(&mut self, id: &GrantId) -> Outcome {
        if let Some(stand) = self.live(id).cloned() {
            let reason = if stand.granted.is_some() { EndReason::Released } else { EndReason::Withdrawn };
            return self.end(&stand, reason);
        }
        if self.past_of(id).is_some() || self.is_session_key(id) {
            return Outcome::Nothing;
        }
        if !self.errs(Mistake::UnknownReleaseNotRemembered) {
            self.past.push((*id, self.now(), Past::Grant(EndReason::Released)));
        }
        self.done()
    }

    /// Ends one grant by its owner's wish.
    fn end(&mut self, stand: &Stand, reason: EndReason) -> Outcome {
        self.stands.retain(|other| other.number != stand.number);
        self.write_down(stand, reason);
        self.touch(&stand.lock);
        self.facts.push(stand.ended(reason));
        if stand.anonymous {
            self.past.push((stand.id, self.now(), Past::Grant(reason)));
            self.drop_session(stand.session);
            self.facts.push(Event::SessionClosed { session: SessionNumber(stand.session) });
        } else {
            let session = self.sessions.iter_mut().find(|session| session.number == stand.session).expect("it is live");
            session.ended.push((stand.id, reason));
            if session.ended.len() > limits::SESSION_ENDED_IDS_MAX {
                let oldest = session.ended.iter().map(|(id, _)| *id).min().expect("it is not empty");
                session.ended.retain(|(id, _)| *id != oldest);
                session.floor = session.floor.max(Some(oldest));
            }
        }
        self.settle(&stand.lock);
        self.done()
    }

    fn cool(&mut self, number: u64) -> Outcome {
        let Some(stand) = self.stands.iter().find(|stand| stand.number == number && stand.cooling).cloned() else {
            return Outcome::Nothing;
        };
        self.stands.retain(|other| other.number != number);
        if self.errs(Mistake::HistoryEndsWithCooling) {
            self.write_down(&stand, EndReason::Expired);
        }
        self.touch(&stand.lock);
        self.facts.push(Event::Cooled { lock: stand.lock.clone(), grant: GrantNumber(number) });
        self.settle(&stand.lock);
        self.done()
    }

    // What an administrator does

    /// What he said who broke a grant.
    pub(crate) fn note(&self, id: &GrantId) -> Option<String> {
        self.past.iter().find_map(|(past, _, what)| match what {
            Past::Broken(note) if past == id => Some(note.clone()),
            Past::Broken(_) | Past::Grant(_) | Past::Session | Past::Write(..) => None,
        })
    }

    fn note_broken(&mut self, id: GrantId, reason: &str) {
        if !reason.is_empty() {
            self.past.retain(|(past, _, _)| *past != id);
            self.past.push((id, self.now(), Past::Broken(reason.to_owned())));
        }
    }

    fn break_lock(&mut self, order: &Break) -> Result<Outcome> {
        match self.past_of(&order.key.key) {
            Some(Past::Write(fingerprint, _)) if fingerprint == order.key.fingerprint && self.errs(Mistake::BreakIsRepeated) => {}
            Some(Past::Write(fingerprint, _)) if fingerprint == order.key.fingerprint => return Ok(Outcome::Nothing),
            Some(Past::Write(..) | Past::Grant(_) | Past::Broken(_) | Past::Session) => return other_request(),
            None if self.live(&order.key.key).is_some() || self.is_session_key(&order.key.key) => return other_request(),
            None => {}
        }
        let spares = self.errs(Mistake::BreakSparesCooling);
        let everybody = self.errs(Mistake::BreakEndsWaiters);
        let in_lock = self.stands.iter().filter(|stand| stand.lock == order.lock);
        let mut broken: Vec<Stand> =
            in_lock.filter(|stand| (stand.granted.is_some() || everybody) && !(stand.cooling && spares)).cloned().collect();
        broken.sort_by_key(|stand| stand.number);
        // They go together: none of them becomes the only holder in between.
        for stand in self.stands.iter_mut().filter(|stand| stand.lock == order.lock) {
            stand.upgrading = false;
        }
        for stand in &broken {
            if stand.cooling {
                self.cool(stand.number);
            } else {
                self.end(stand, EndReason::Broken);
                self.note_broken(stand.id, &order.reason);
                self.sign(stand.number, &order.by, &order.reason);
            }
        }
        if !broken.is_empty() {
            let (lock, by, reason) = (order.lock.clone(), order.by.clone(), order.reason.clone());
            self.facts.push(Event::Broken { lock, by, reason });
        }
        self.changed = true;
        self.past.push((order.key.key, self.now(), Past::Write(order.key.fingerprint, Outcome::Nothing)));
        let named = broken.iter().take(limits::BROKEN_NAMED_MAX).map(|stand| GrantNumber(stand.number)).collect();
        Ok(Outcome::Broken { holders: broken.len() as u64, named })
    }

    fn end_session(&mut self, number: u64, by: &str, reason: &str) -> Result<Outcome> {
        if !self.sessions.iter().any(|session| session.number == number) {
            return Err(Rejection::NoSession);
        }
        self.facts.push(Event::SessionClosed { session: SessionNumber(number) });
        self.end_nodes(number);
        let (mine, others): (Vec<Stand>, Vec<Stand>) =
            self.stands.iter().cloned().partition(|stand| stand.session == number && !stand.cooling);
        self.stands = others;
        let mut held: Vec<LockName> =
            mine.iter().filter(|stand| stand.granted.is_some()).map(|stand| stand.lock.clone()).collect();
        held.sort();
        held.dedup();
        for lock in held {
            self.facts.push(Event::Broken { lock, by: by.to_owned(), reason: reason.to_owned() });
        }
        let ended: Vec<(GrantId, u64)> = mine.iter().map(|stand| (stand.id, stand.number)).collect();
        self.bury(number, mine, Some(EndReason::Broken));
        for (id, number) in ended {
            self.note_broken(id, reason);
            self.sign(number, by, reason);
        }
        Ok(self.done())
    }

    fn forget(&mut self, through: u64) -> Outcome {
        let before = self.past.len();
        self.past.retain(|(_, since, _)| *since > through);
        if self.past.len() == before { Outcome::Nothing } else { self.done() }
    }

    // The history

    fn write_down(&mut self, stand: &Stand, how: EndReason) {
        let from = stand.granted.or(self.errs(Mistake::HistoryHasWaiters).then_some(stand.number));
        self.history.extend(from.map(|token| Holding {
            lock: stand.lock.clone(),
            number: stand.number,
            token,
            from: stand.since,
            ended: self.now(),
            to: self.at,
            how,
            by: String::new(),
            reason: String::new(),
        }));
        if self.history.iter().filter(|holding| holding.lock == stand.lock).count() > limits::HISTORY_PER_LOCK_MAX {
            let of_lock = self.history.iter().enumerate().filter(|(_, holding)| holding.lock == stand.lock);
            let oldest = of_lock.min_by_key(|(_, holding)| (holding.ended, holding.number)).map(|(index, _)| index);
            self.history.remove(oldest.expect("there are many"));
        }
    }

    fn sign(&mut self, number: u64, by: &str, reason: &str) {
        for holding in self.history.iter_mut().filter(|holding| holding.number == number) {
            (holding.by, holding.reason) = (by.to_owned(), reason.to_owned());
        }
    }

    /// Newest first.
    pub(crate) fn history_of(&self, lock: &LockName) -> Vec<Holding> {
        let mut of_lock: Vec<Holding> = self.history.iter().filter(|holding| holding.lock == *lock).cloned().collect();
        of_lock.sort_by_key(|holding| std::cmp::Reverse((holding.ended, holding.number)));
        of_lock
    }

    fn forget_history(&mut self, through: u64) -> Outcome {
        let age = |holding: &Holding| (holding.ended, holding.number, holding.lock.clone());
        self.history.sort_by_key(age);
        let old = self.history.iter().filter(|holding| holding.ended <= through).count();
        self.history.drain(..old.min(limits::HISTORY_FORGOTTEN_MAX));
        if old == 0 { Outcome::Nothing } else { self.done() }
    }

    // The tree

    fn verify(&self, condition: &Condition) -> Result<()> {
        match condition {
            Condition::Fence { lock, token, grant } => {
                let live = |stand: &&Stand| !stand.cooling || self.errs(Mistake::CoolingTokenPasses);
                let held: Vec<&Stand> = self.holders(lock).into_iter().filter(live).collect();
                let by_grant = !self.errs(Mistake::ReaderTokenForAnyReader);
                let is_it = |stand: &&Stand| !by_grant || grant.is_none_or(|grant| grant == stand.id);
                let mut right = held.iter().filter(|stand| stand.granted == Some(token.0)).filter(|stand| is_it(stand));
                match right.next() {
                    Some(_) => Ok(()),
                    None => Err(Rejection::StaleToken {
                        current: held.iter().filter_map(|stand| stand.granted).max().map(FencingToken),
                    }),
                }
            }
            Condition::Version { path, version } => {
                let current = self.tree.find(path).map(|node| node.version);
                if current == *version { Ok(()) } else { Err(Rejection::VersionMismatch { current }) }
            }
            Condition::Exists { path } if self.tree.find(path).is_some() => Ok(()),
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
                None if self.live(&key.key).is_some() || self.is_session_key(&key.key) => return other_request(),
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
            results.push(self.tree.operate(operation, now).map_err(|reason| step(part, index, reason))?);
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

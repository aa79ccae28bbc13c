//! Meaningful random commands: most of them name sessions, grants, locks and tokens that exist or existed a moment ago.

#[path = "members.rs"]
mod members;
#[path = "provoke.rs"]
mod provoke;
#[path = "vocabulary.rs"]
mod vocabulary;

use fairhold_state::{
    State,
    command::{
        Acquire, Applied, Break, Claimant, Command, Condition, IfBusy, Lifetime, Meta, OpenSession, Operation, Owner, Proclaim,
        Revoke, SessionKey, SetLock, Sweepable, Transact, Want, WriteKey,
    },
    record::Contender,
};
use fairhold_types::{
    ClusterId, ClusterVersion, FencingToken, GrantId, GrantNumber, LockName, Mode, Path, Revision, SessionId, SessionNumber,
    time::WallMillis,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use vocabulary::KnownNames;

/// The focus of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// All rules against all others.
    Mixed,
    /// Readers and writers.
    Readers,
    /// Permits.
    Semaphore,
    /// One session that lives long enough to forget.
    Calm,
    /// Nodes of the tree, and the sessions that own some.
    Tree,
    /// Several locks at once.
    Several,
    /// One lock for which many of different priority wait.
    Priority,
    /// An administrator that lowers limits below the holders, breaks and revokes, next to holders that change their
    /// mode.
    Administration,
    /// Names, some of them elections and some locks, and leaders that proclaim.
    Elections,
    /// All rules, in a state with hardly any room.
    Full,
    /// Nodes that join and are removed.
    Membership,
}

const LOCKS: [&str; 4] = ["a", "a/b", "a/b/c", "d"];
const PATHS: [&str; 9] = ["/x", "/x/y", "/x/y/z", "/w", "/w/e", "/x!", "/x/y!", "/locks/a", "/"];

/// With more contenders than this, the next command ends one: states stay small, and queues move.
const CONTENDERS_MAX: usize = 24;

/// How many of the last ids and sessions are reused.
const RECENT: usize = 16;

#[derive(Debug)]
pub(crate) struct Commands {
    rng: SmallRng,
    profile: Profile,
    made: u64,
    acquires: Vec<Acquire>,
    /// The first acquire of all is repeated again and again, even long after its end.
    first: Option<Acquire>,
    sessions: Vec<OpenSession>,
    writes: Vec<Transact>,
    breaks: Vec<Break>,
    proclaims: Vec<Proclaim>,
    keys: Vec<WriteKey>,
    names: KnownNames,
    /// The named sessions that are open.
    open: Vec<SessionId>,
}

impl Commands {
    pub(crate) fn new(seed: u64, profile: Profile) -> Commands {
        let rng = SmallRng::seed_from_u64(seed);
        Commands {
            rng,
            profile,
            made: 0,
            acquires: Vec::new(),
            first: None,
            sessions: Vec::new(),
            writes: Vec::new(),
            breaks: Vec::new(),
            proclaims: Vec::new(),
            keys: Vec::new(),
            names: KnownNames::default(),
            open: Vec::new(),
        }
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.rng.random_ratio(1, many)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.rng.random_range(0..from.len())].clone()) }
    }

    fn at(&self) -> WallMillis {
        WallMillis(self.made * 10)
    }

    /// Records all names in an answer and its events.
    pub(crate) fn learn(&mut self, state: &State, applied: &Applied) {
        self.names.learn(state, applied);
    }

    fn lock(&mut self) -> LockName {
        if self.one_in(if self.profile == Profile::Priority { 60 } else { 14 })
            && let Some(known) = self.names.lock(&mut self.rng)
        {
            return known;
        }
        let names = match self.profile {
            Profile::Priority => 1,
            Profile::Administration => 3,
            Profile::Mixed
            | Profile::Readers
            | Profile::Semaphore
            | Profile::Calm
            | Profile::Tree
            | Profile::Several
            | Profile::Full
            | Profile::Membership
            | Profile::Elections => LOCKS.len(),
        };
        let name = LOCKS[self.rng.random_range(0..names)];
        LockName::parse(name).expect("a fixed name")
    }

    /// Different locks, in any order.
    fn wants(&mut self, shared: bool) -> Vec<Want> {
        let count = match self.profile {
            Profile::Several => self.rng.random_range(1..4),
            Profile::Mixed | Profile::Readers | Profile::Semaphore | Profile::Full => 1 + usize::from(self.one_in(6)),
            Profile::Elections => 1 + usize::from(self.one_in(20)),
            Profile::Calm | Profile::Tree | Profile::Priority | Profile::Administration | Profile::Membership => 1,
        };
        let mode = |shared: bool| if shared { Mode::Shared } else { Mode::Exclusive };
        let mut wants = vec![Want { lock: self.lock(), mode: mode(shared) }];
        for _ in 1..count {
            let (lock, mode) = (self.lock(), mode(self.one_in(3)));
            if wants.iter().all(|want| want.lock != lock) {
                wants.push(Want { lock, mode });
            }
        }
        wants
    }

    /// A new id; sometimes one that is older than the last.
    fn fresh_id(&mut self) -> GrantId {
        let back = if self.one_in(10) { self.rng.random_range(0..40) } else { 0 };
        let time = (self.made + 100 - back.min(self.made)) as u128;
        GrantId::from_ulid(time << 64 | u128::from(self.made))
    }

    fn known_id(&mut self, state: &State) -> GrantId {
        let live: Vec<GrantId> =
            state.sessions().flat_map(|session| state.contenders_of(session.number)).map(|contender| contender.grant).collect();
        let recent: Vec<GrantId> = self.acquires.iter().map(|acquire| acquire.grant).collect();
        let keys: Vec<GrantId> = self.sessions.iter().filter_map(|open| open.key).collect();
        let from = match self.rng.random_range(0..12) {
            0..7 => &live,
            7..11 => &recent,
            _ => &keys,
        };
        self.pick(from).unwrap_or_else(|| self.fresh_id())
    }

    fn session_id(&mut self) -> SessionId {
        if self.profile != Profile::Calm && !self.one_in(8) {
            let open = self.open.clone();
            if let Some(open) = self.pick(&open) {
                return open;
            }
        }
        let ids: Vec<SessionId> = self.sessions.iter().map(|open| open.id).collect();
        self.pick(&ids).unwrap_or(SessionId(0))
    }

    fn session_number(&mut self, state: &State) -> SessionNumber {
        // The first session of a calm run must live long.
        let spared = usize::from(self.profile == Profile::Calm);
        if self.profile != Profile::Calm
            && self.one_in(8)
            && let Some(known) = self.names.session(&mut self.rng)
        {
            return known;
        }
        let live: Vec<SessionNumber> = state.sessions().map(|session| session.number).skip(spared).collect();
        if self.one_in(10) { SessionNumber(0) } else { self.pick(&live).unwrap_or(SessionNumber(0)) }
    }

    pub(crate) fn next(&mut self, state: &State) -> Command {
        self.made += 1;
        self.open = state.sessions().filter_map(|session| session.id).collect();
        let at = self.at();
        let census = state.census();
        let contenders = census.held + census.waiting + census.cooling;
        if self.sessions.is_empty() {
            return self.open(state);
        }
        if self.profile != Profile::Calm && self.open.len() < 3 && self.one_in(4) {
            return self.open(state);
        }
        if self.profile == Profile::Full && self.one_in(30) {
            let (node, bytes) = (self.rng.random_range(1..3), self.rng.random_range(1..40) * 4_000);
            return Command::RecordCapacity { node, bytes };
        }
        if self.profile == Profile::Membership && !self.one_in(4) {
            return self.change_members(state);
        }
        if contenders > CONTENDERS_MAX && !self.one_in(3) {
            return self.release(state);
        }
        if self.profile == Profile::Tree && !self.one_in(3) {
            return if self.one_in(12) { self.sweep(state) } else { self.transact(state) };
        }
        if let Some(command) = self.awkward(state) {
            return command;
        }
        match self.rng.random_range(0..100) {
            0..6 if self.profile == Profile::Readers => self.convert(state),
            0..14 if self.profile == Profile::Elections => self.proclaim(state),
            0..40 => self.acquire(state),
            40..54 if self.profile == Profile::Priority => self.acquire(state),
            40..59 => self.release(state),
            59..60 => self.break_lock(state),
            60..61 => self.administer(state),
            61..62 => self.end_session(state),
            62..68 => Command::Withdraw { grant: self.known_id(state), attempt: self.rng.random_range(1..4), at },
            68..73 => Command::Abandon { grant: self.known_id(state), attempt: self.rng.random_range(1..4), at },
            73..77 => self.open(state),
            77..79 if self.profile != Profile::Calm => Command::CloseSession { session: self.session_id(), at },
            77..82 => Command::ExpireSession { session: self.session_number(state), at },
            82..84 => {
                let (grant, timeout_ms) = (self.known_id(state), self.rng.random_range(1..4) * 1_000);
                Command::SetGrantTimeout { grant, timeout_ms, key: self.change_key(state), at }
            }
            84..87 => self.end_cooling(state),
            87..89 => self.convert(state),
            89..91 => {
                let through = state.revision().0.saturating_sub(self.rng.random_range(0..60));
                Command::Forget { through: Revision(through) }
            }
            91..92 if self.one_in(3) => {
                let through = state.revision().0.saturating_sub(self.rng.random_range(0..300));
                Command::ForgetHistory { through: Revision(through) }
            }
            91..92 if self.one_in(4) => {
                let key = self.change_key(state).unwrap_or(WriteKey { key: self.fresh_id(), fingerprint: [5; 16] });
                Command::RecordKey { key, at }
            }
            91..92 => self.forget_lock(state),
            92..93 => self.sweep(state),
            93..97 if self.profile == Profile::Readers => self.convert(state),
            _ => self.transact(state),
        }
    }

    /// In histories about an administrator, replaces most other commands.
    fn awkward(&mut self, state: &State) -> Option<Command> {
        let provokes = match self.profile {
            Profile::Administration => self.one_in(4),
            Profile::Readers => self.one_in(6),
            Profile::Mixed | Profile::Semaphore | Profile::Full => self.one_in(15),
            Profile::Calm | Profile::Tree | Profile::Several | Profile::Priority | Profile::Elections | Profile::Membership => {
                false
            }
        };
        let provoked = if provokes { self.provoke(state) } else { None };
        if provoked.is_some() || self.profile != Profile::Administration || !self.one_in(4) {
            return provoked;
        }
        Some(match self.rng.random_range(0..12) {
            0 => self.break_lock(state),
            1 if self.one_in(2) => self.end_session(state),
            1..6 => self.convert(state),
            _ => self.administer(state),
        })
    }

    fn release(&mut self, state: &State) -> Command {
        if self.one_in(4) {
            let live = state.sessions().flat_map(|session| state.contenders_of(session.number));
            let held_again: Vec<GrantId> = live.filter(|one| one.holds() > 1).map(|one| one.grant).collect();
            if let Some(grant) = self.pick(&held_again) {
                return Command::Release { grant, session: None, at: self.at() };
            }
        }
        let session = if self.one_in(3) { Some(self.session_id()) } else { None };
        Command::Release { grant: self.known_id(state), session, at: self.at() }
    }

    /// In half of the cases a key of a change: a new one, one that was used before, or one of another kind.
    fn change_key(&mut self, state: &State) -> Option<WriteKey> {
        let known = self.keys.clone();
        let mut key = match self.rng.random_range(0..8) {
            0..4 => return None,
            4..6 => WriteKey { key: self.fresh_id(), fingerprint: [5; 16] },
            6 => WriteKey { key: self.known_id(state), fingerprint: [5; 16] },
            _ => self.pick(&known)?,
        };
        if self.one_in(12) {
            key.fingerprint = [6; 16];
        }
        self.keys.push(key);
        if self.keys.len() > RECENT {
            self.keys.remove(0);
        }
        Some(key)
    }

    /// Usually another mode for a holder.
    fn convert(&mut self, state: &State) -> Command {
        let at = self.at();
        let standing: Vec<_> = state.sessions().flat_map(|session| state.contenders_of(session.number)).collect();
        let some = |which: &dyn Fn(&Contender) -> bool| -> Vec<GrantId> {
            standing.iter().filter(|contender| which(contender)).map(|contender| contender.grant).collect()
        };
        let beside_one_who_upgrades = |contender: &Contender| {
            contender.granted_at.is_some() && state.lock(&contender.lock).holders.iter().any(|holder| holder.upgrading)
        };
        let upgrading = some(&|contender| contender.upgrading);
        if let Some(grant) = self.pick(&upgrading).filter(|_| self.one_in(2)) {
            return Command::EndUpgrade { grant, attempt: self.rng.random_range(1..4), at };
        }
        let from = match self.rng.random_range(0..12) {
            0 => some(&|contender| contender.granted_at.is_none()),
            1..7 => some(&beside_one_who_upgrades),
            _ => some(&|contender| contender.granted_at.is_some()),
        };
        let grant = self.pick(&from).unwrap_or_else(|| self.known_id(state));
        let downgrades = if self.profile == Profile::Administration { 5 } else { 1 };
        match self.rng.random_range(0..8) {
            kind if kind < downgrades => Command::Downgrade { grant, key: self.change_key(state), at },
            1..7 => {
                let if_busy = if self.one_in(4) { IfBusy::Refuse } else { IfBusy::Queue };
                Command::Upgrade { grant, if_busy, key: self.change_key(state), at }
            }
            _ => Command::EndUpgrade { grant, attempt: self.rng.random_range(1..4), at },
        }
    }

    fn break_of(&mut self, lock: LockName) -> Command {
        let key = WriteKey { key: self.fresh_id(), fingerprint: [7; 16] };
        Command::Break(Break { key, lock, token: None, by: "an administrator".to_owned(), reason: self.reason(), at: self.at() })
    }

    /// The token of a holder of the lock, or one that was revealed earlier.
    fn token_to_break(&mut self, state: &State, lock: &LockName) -> Option<FencingToken> {
        let current = state.front(lock, 1).next().and_then(|holder| holder.token());
        if self.one_in(3) { self.names.token(&mut self.rng) } else { current }
    }

    /// An administrator's settings and requests, and the clock's verdict on holds that lasted too long.
    fn administer(&mut self, state: &State) -> Command {
        let (lock, at, by) = (self.lock(), self.at(), "an administrator".to_owned());
        match self.rng.random_range(0..5) {
            0 => Command::Revoke(Revoke { key: self.change_key(state), lock, by, reason: self.reason(), at }),
            1 => Command::EndHolds { holds: self.holds_to_end(state), at },
            _ => {
                let key = self.change_key(state);
                let (limit, max_waiters, max_hold_ms) = self.settings();
                Command::SetLock(SetLock { key, lock, limit, max_waiters, max_hold_ms, by, at })
            }
        }
    }

    fn reason(&mut self) -> String {
        if self.one_in(3) { String::new() } else { format!("stuck {}", self.made) }
    }

    /// The verdict on one or two bounded holds, some with a former token or with that of another grant.
    fn holds_to_end(&mut self, state: &State) -> Vec<(GrantNumber, FencingToken)> {
        let held: Vec<_> = state.bounded_holds().map(|held| (held.number, held.token())).collect();
        let holds = 1 + usize::from(self.one_in(4));
        let verdicts = (0..holds).map(|_| {
            let (grant, token) = self.pick(&held).unwrap_or((GrantNumber(1), None));
            let grant = if self.one_in(10) { self.names.grant(&mut self.rng).unwrap_or(grant) } else { grant };
            // The token of its first grant, if it was upgraded since.
            let token = if self.one_in(3) { Some(FencingToken(grant.0)) } else { token };
            let late = if self.one_in(6) { self.names.token(&mut self.rng) } else { None };
            (grant, late.or(token).unwrap_or(FencingToken(0)))
        });
        verdicts.collect()
    }

    /// Usually a single setting; sometimes one is set back to its default.
    fn settings(&mut self) -> (Option<u32>, Option<u64>, Option<u64>) {
        let limits = match self.profile {
            Profile::Semaphore | Profile::Mixed | Profile::Administration | Profile::Full => true,
            Profile::Several | Profile::Elections | Profile::Readers => self.one_in(4),
            Profile::Calm | Profile::Tree | Profile::Priority | Profile::Membership => false,
        };
        let field = self.rng.random_range(0..4);
        let most = if self.profile == Profile::Administration && self.one_in(2) { 3 } else { 5 };
        let limit = if self.one_in(3) { 1 } else { self.rng.random_range(1..most) };
        let max_waiters = if self.one_in(2) { 10_000 } else { self.rng.random_range(0..6) };
        let max_hold_ms = self.rng.random_range(0..4) * 1_000;
        (
            (limits && (field == 0 || field == 3)).then_some(limit),
            (field == 1 || (field == 3 && self.one_in(2))).then_some(max_waiters),
            (field == 2 || (field == 3 && self.one_in(2))).then_some(max_hold_ms),
        )
    }

    fn break_lock(&mut self, state: &State) -> Command {
        let known = self.breaks.clone();
        let lock = self.lock();
        let mut order = match self.pick(&known) {
            Some(again) if self.one_in(4) => again,
            _ => Break {
                key: WriteKey { key: if self.one_in(10) { self.known_id(state) } else { self.fresh_id() }, fingerprint: [7; 16] },
                token: if self.one_in(3) { self.token_to_break(state, &lock) } else { None },
                lock,
                by: "an administrator".to_owned(),
                reason: self.reason(),
                at: self.at(),
            },
        };
        order.at = self.at();
        if self.one_in(12) {
            order.key.fingerprint = [8; 16];
        }
        self.breaks.push(order.clone());
        if self.breaks.len() > RECENT / 2 {
            self.breaks.remove(0);
        }
        Command::Break(order)
    }

    fn end_session(&mut self, state: &State) -> Command {
        let reason = if self.one_in(3) { String::new() } else { format!("wedged {}", self.made) };
        Command::EndSession { session: self.session_number(state), by: "an administrator".to_owned(), reason, at: self.at() }
    }

    /// Pairs of text, in one case of four.
    fn meta(&mut self) -> Meta {
        let pairs = if self.one_in(4) { self.rng.random_range(1..3) } else { 0 };
        (0..pairs).map(|pair| (format!("k{pair}"), self.made.to_string())).collect()
    }

    fn open(&mut self, state: &State) -> Command {
        if self.one_in(50) {
            let (cluster, version) = (ClusterId(u128::from(self.made)), ClusterVersion(2));
            return if self.one_in(2) { Command::FormCluster { cluster } } else { Command::FormClusterAt { cluster, version } };
        }
        if self.one_in(50) {
            let version = state.cluster_version();
            return Command::RaiseClusterVersion { to: if self.one_in(2) { version.next() } else { version } };
        }
        let known = self.sessions.clone();
        let mut open = match self.pick(&known) {
            // The same command, proposed twice.
            Some(open) if self.one_in(12) => return Command::OpenSession(open),
            Some(open) if self.one_in(3) && open.key.is_some() => open,
            _ => {
                let key = match self.rng.random_range(0..24) {
                    0..12 => Some(self.fresh_id()),
                    12 => Some(self.known_id(state)),
                    _ => None,
                };
                let timeout_ms = [2_000, 10_000, 3_600_000][self.rng.random_range(0..3)];
                let name = ["", "n", "a worker"][self.rng.random_range(0..3)].to_owned();
                OpenSession { key, id: SessionId(0), timeout_ms, name, meta: self.meta(), at: self.at() }
            }
        };
        open.id = SessionId(u128::from(self.made));
        match self.rng.random_range(0..36) {
            0 => open.timeout_ms += 1,
            1 => open.name.push('x'),
            2 => open.meta = self.meta(),
            _ => {}
        }
        if self.profile != Profile::Calm || self.sessions.is_empty() {
            self.sessions.push(open.clone());
            if self.sessions.len() > RECENT / 2 {
                self.sessions.remove(0);
            }
        }
        Command::OpenSession(open)
    }

    fn acquire(&mut self, state: &State) -> Command {
        let known = self.acquires.clone();
        let mut acquire = match self.pick(&known) {
            Some(again) if self.one_in(4) => again,
            _ if self.one_in(20) => self.first.clone().unwrap_or_else(|| self.fresh_acquire(state)),
            _ => self.fresh_acquire(state),
        };
        acquire.at = self.at();
        acquire.if_busy = if self.one_in(4) { IfBusy::Refuse } else { IfBusy::Queue };
        self.first.get_or_insert_with(|| acquire.clone());
        self.acquires.push(acquire.clone());
        if self.acquires.len() > RECENT {
            self.acquires.remove(0);
        }
        if self.one_in(12) {
            self.vary(&mut acquire);
        }
        Command::Acquire(acquire)
    }

    /// The same id with another request.
    fn vary(&mut self, acquire: &mut Acquire) {
        let fields = if self.profile == Profile::Elections { 12 } else { 11 };
        match self.rng.random_range(0..fields) {
            0 => acquire.wants[0].lock = self.lock(),
            1 => acquire.wants[0].mode = Mode::Shared,
            2 => acquire.limit = Some(self.rng.random_range(1..4)),
            3 => acquire.permits += 1,
            4 => acquire.priority += 1,
            5 => acquire.claimant = Claimant::Session(self.session_id()),
            6 => acquire.owner.text = "other".to_owned(),
            7 => acquire.lock_delay_ms += 1_000,
            8 => acquire.max_hold_ms = Some(7),
            9 => acquire.meta = Meta::from([("other".to_owned(), String::new())]),
            10 => acquire.wants.truncate(1),
            _ => acquire.value = acquire.value.is_none().then(|| vec![7]),
        }
    }

    fn fresh_acquire(&mut self, state: &State) -> Acquire {
        let grant = if self.one_in(15) { self.known_id(state) } else { self.fresh_id() };
        let shared = match self.profile {
            Profile::Readers => !self.one_in(3),
            Profile::Mixed | Profile::Calm | Profile::Tree | Profile::Several | Profile::Full => self.one_in(3),
            Profile::Priority => self.one_in(6),
            Profile::Administration => self.one_in(2),
            Profile::Semaphore | Profile::Elections | Profile::Membership => self.one_in(30),
        };
        let limits: &[Option<u32>] = match self.profile {
            Profile::Semaphore => &[None, None, Some(4), Some(4), Some(3)],
            Profile::Administration => &[None, None, None, Some(3)],
            Profile::Mixed | Profile::Full => &[None, None, None, Some(1), Some(3)],
            Profile::Elections => &[None, None, None, None, None, None, Some(1), Some(3)],
            Profile::Readers | Profile::Calm | Profile::Tree | Profile::Several | Profile::Priority | Profile::Membership => {
                &[None]
            }
        };
        let limit = self.pick(limits).flatten();
        let permits = match self.profile {
            Profile::Semaphore => self.rng.random_range(1..4),
            Profile::Mixed | Profile::Administration | Profile::Full if limit.is_some() => self.rng.random_range(1..4),
            Profile::Mixed
            | Profile::Readers
            | Profile::Calm
            | Profile::Tree
            | Profile::Several
            | Profile::Priority
            | Profile::Administration
            | Profile::Full
            | Profile::Membership
            | Profile::Elections => 1,
        };
        let claimant = if self.one_in(4) && self.profile != Profile::Calm {
            Claimant::Anonymous { timeout_ms: 2_000 }
        } else {
            Claimant::Session(self.session_id())
        };
        let wants = self.wants(shared);
        // Most use the name for its usual purpose.
        let election = self.profile == Profile::Elections && (wants[0].lock.as_str().starts_with('a') != self.one_in(15));
        Acquire {
            grant,
            id_given: !self.one_in(8),
            wants,
            claimant,
            if_busy: IfBusy::Queue,
            limit,
            permits,
            priority: self.priority(),
            owner: self.owner(),
            meta: self.meta(),
            lock_delay_ms: if self.one_in(3) { 1_000 } else { 0 },
            reentrant: self.one_in(if election { 30 } else { 4 }),
            max_hold_ms: if self.one_in(6) { Some(self.rng.random_range(1..4) * 750) } else { None },
            value: election.then(|| self.made.to_string().into_bytes()),
            at: self.at(),
        }
    }

    fn priority(&mut self) -> i32 {
        if self.one_in(60) {
            return if self.one_in(2) { i32::MIN } else { i32::MAX };
        }
        if self.profile == Profile::Priority {
            return self.rng.random_range(0..60) / self.rng.random_range(1..30);
        }
        self.rng.random_range(-1..3) * i32::from(self.one_in(4))
    }

    fn owner(&mut self) -> Owner {
        let known = if self.one_in(10) { self.names.owner(&mut self.rng) } else { None };
        let text = known.unwrap_or_else(|| if self.one_in(30) { String::new() } else { format!("o{}", self.made % 3) });
        Owner { text, given: self.one_in(2) }
    }

    /// Another value, usually of the leader.
    fn proclaim(&mut self, state: &State) -> Command {
        let known = self.proclaims.clone();
        if let Some(again) = self.pick(&known).filter(|_| self.one_in(5)) {
            return Command::Proclaim(again);
        }
        let election = self.lock();
        let standing: Vec<GrantId> = state.queue(&election).iter().map(|entry| entry.contender.grant).collect();
        let leader = standing.first().copied().filter(|_| !self.one_in(4));
        let grant = leader.or_else(|| self.pick(&standing)).unwrap_or_else(|| self.known_id(state));
        let key = if self.one_in(12) { self.known_id(state) } else { self.fresh_id() };
        let value = self.made.to_string().into_bytes().into();
        let order = Proclaim { key: WriteKey { key, fingerprint: [3; 16] }, election, grant, value, at: self.at() };
        self.proclaims.push(order.clone());
        if self.proclaims.len() > RECENT / 2 {
            self.proclaims.remove(0);
        }
        Command::Proclaim(order)
    }

    fn end_cooling(&mut self, state: &State) -> Command {
        let cooling: Vec<GrantNumber> = state.cooling().map(|contender| contender.number).collect();
        let grants = (0..self.rng.random_range(1..3)).map(|_| {
            let known = if self.one_in(8) { self.names.grant(&mut self.rng) } else { None };
            known.or_else(|| self.pick(&cooling)).unwrap_or(GrantNumber(0))
        });
        let grants = grants.collect();
        Command::EndCooling { grants, at: self.at() }
    }

    fn forget_lock(&mut self, state: &State) -> Command {
        let idle: Vec<(LockName, Revision)> = state.idle_locks().collect();
        let other = (self.lock(), state.revision());
        let (lock, since) = self.pick(&idle).unwrap_or(other);
        let since = if self.one_in(5) { Revision(since.0.saturating_sub(1)) } else { since };
        Command::ForgetLocks { locks: vec![(lock, since)] }
    }

    fn transact(&mut self, state: &State) -> Command {
        let known = self.writes.clone();
        if let Some(again) = self.pick(&known).filter(|_| self.one_in(4)) {
            return Command::Transact(again);
        }
        let key = match self.rng.random_range(0..8) {
            0..3 => Some(WriteKey { key: self.fresh_id(), fingerprint: [1; 16] }),
            3 => Some(WriteKey { key: self.known_id(state), fingerprint: [2; 16] }),
            _ => None,
        };
        let most = if self.profile == Profile::Tree { 2 } else { 3 };
        let conditions = (0..self.rng.random_range(0..most)).map(|_| self.condition(state)).collect();
        let then = self.operations();
        let otherwise = if self.one_in(4) { Some(self.operations()) } else { None };
        let transact = Transact { key, conditions, then, otherwise, at: self.at() };
        self.writes.push(transact.clone());
        if self.writes.len() > RECENT {
            self.writes.remove(0);
        }
        Command::Transact(transact)
    }

    fn path(&mut self) -> Path {
        if self.one_in(10)
            && let Some(known) = self.names.path(&mut self.rng)
        {
            return known;
        }
        Path::parse(PATHS[self.rng.random_range(0..PATHS.len())]).expect("a fixed path")
    }

    fn data_path(&mut self) -> Path {
        if self.one_in(3)
            && let Some(known) = self.names.path(&mut self.rng)
        {
            return known;
        }
        Path::parse(PATHS[self.rng.random_range(0..7)]).expect("a fixed path")
    }

    fn operations(&mut self) -> Vec<Operation> {
        (0..self.rng.random_range(0..4)).map(|_| self.operation()).collect()
    }

    fn operation(&mut self) -> Operation {
        let (path, parents, lifetime) = (self.path(), self.one_in(3), self.lifetime());
        let value = self.made.to_string().into_bytes().into();
        let version = if self.one_in(3) { Some(self.rng.random_range(0..3)) } else { None };
        match self.rng.random_range(0..12) {
            0..3 => Operation::Put { path, value, parents, lifetime },
            3..5 => Operation::Create { path, value, parents, lifetime },
            5..7 => Operation::CreateSequential { parent: path, prefix: "n-".to_owned(), value, parents, lifetime },
            7..9 => Operation::Set { path, value, version },
            9..11 => Operation::Delete { path, version, recursive: self.one_in(4) },
            _ => Operation::Check { path: self.data_path(), version },
        }
    }

    fn lifetime(&mut self) -> Lifetime {
        match self.rng.random_range(0..9) {
            0..2 => Lifetime::Ephemeral { session: self.session_id() },
            2 => Lifetime::Container,
            3 => Lifetime::Ttl { ttl_ms: self.rng.random_range(1..3) },
            _ => Lifetime::Persistent,
        }
    }

    fn sweep(&mut self, state: &State) -> Command {
        let mut nodes: Vec<Sweepable> = state.sweepable().collect();
        // Some of them have changed since, and some were never of that kind.
        if self.one_in(3) {
            nodes.push(Sweepable { path: self.path(), since: state.revision() });
            nodes.iter_mut().for_each(|node| node.since = Revision(node.since.0.saturating_sub(1)));
        }
        Command::Sweep { nodes, at: self.at() }
    }

    fn condition(&mut self, state: &State) -> Condition {
        if self.one_in(6) {
            return Condition::Exists { path: self.data_path() };
        }
        if self.one_in(6) {
            let session = SessionKey::Id(self.session_id());
            let session = if self.one_in(2) { SessionKey::Number(self.session_number(state)) } else { session };
            return Condition::Session { session };
        }
        if self.one_in(3) {
            let path = self.data_path();
            let current = state.node(&path).map(|node| node.version);
            let version = if self.one_in(4) { current.map(|version| version + 1) } else { current };
            return Condition::Version { path, version };
        }
        let lock = self.lock();
        let tokens: Vec<FencingToken> =
            state.queue(&lock).iter().filter_map(|entry| entry.contender.granted_at).map(|at| FencingToken(at.0)).collect();
        let known = if self.one_in(4) { self.names.token(&mut self.rng) } else { None };
        let token = known.or_else(|| self.pick(&tokens)).unwrap_or(FencingToken(1));
        let grant = if self.one_in(2) { Some(self.known_id(state)) } else { None };
        Condition::Fence { lock, token, grant }
    }
}

//! A state with very large numbers of everything, and the most expensive form of each command in it.

use super::meter::Meter;
use fairhold_state::{
    State,
    command::{
        Acquire, AdmitNode, Break, Claimant, Command, Condition, CreateJoinToken, IfBusy, Lifetime, Meta, OpenSession, Operation,
        Outcome, Owner, Proclaim, RequestRemoval, Revoke, SetLock, SetMember, Transact, Want, WriteKey,
    },
};
use fairhold_types::{
    ClusterId, ClusterVersion, FencingToken, GrantId, GrantNumber, Incarnation, JoinTokenNumber, LockName, MemberRole, Mode,
    NodeId, Path, Revision, SessionId, SessionNumber, Timing,
    limits::{
        JOIN_TOKENS_MAX, JOINS_MAX, LOCKS_PER_ACQUIRE_MAX, NODES_SWEPT_MAX, REMOVED_NODES_MAX, TRANSACTION_STEPS_MAX,
        VERDICT_OBJECTS_MAX, WAITERS_MAX,
    },
    time::WallMillis,
};

pub(crate) const AT: WallMillis = WallMillis(1_000);

/// All commands.
pub(crate) const EVERY: [&str; 53] = [
    "Attributed",
    "NoteAct",
    "FormCluster",
    "OpenSession",
    "CloseSession",
    "ExpireSession",
    "EndSession",
    "Acquire",
    "Withdraw",
    "Abandon",
    "Release",
    "SetGrantTimeout",
    "EndCooling",
    "EndHolds",
    "Forget",
    "ForgetLocks",
    "ForgetHistory",
    "Transact",
    "Break",
    "Sweep",
    "Downgrade",
    "Upgrade",
    "EndUpgrade",
    "Proclaim",
    "SetLock",
    "Revoke",
    "ContinuePendingWork",
    "RecordKey",
    "RecordCapacity",
    "RaiseClusterVersion",
    "FormClusterAt",
    "CreateJoinToken",
    "RevokeJoinToken",
    "AdmitNode",
    "SettleJoin",
    "RequestRemoval",
    "RecordRemoval",
    "SetMember",
    "SetTiming",
    "Guarded",
    "PutRole",
    "DeleteRole",
    "Bind",
    "Unbind",
    "SetUser",
    "CreateToken",
    "RevokeToken",
    "Enable",
    "Disable",
    "ExpireTokens",
    "ForTenant",
    "PutTenant",
    "DeleteTenant",
];

pub(crate) const REFUSED: &str = "a deadlock behind 3,900, refused";
pub(crate) const UNCHECKED: &str = "a deadlock behind 9,990, not checked";

const HOLDERS: usize = 100_000;
const READERS: usize = 40_000;
const LOCKS: usize = 100_000;
const NODES: usize = 100_000;
const FORGETTABLE: usize = 20_000;

pub(crate) struct Crowd {
    pub(crate) state: State,
    /// The cost of a step while the state was filled.
    pub(crate) meter: Meter,
    made: u128,
    /// A session with very many locks.
    pub(crate) locks_of: (SessionId, SessionNumber),
    /// A session with very many ephemeral nodes.
    pub(crate) nodes_of: (SessionId, SessionNumber),
    /// An exclusive holder with very many waiting readers, and a shared holder among them.
    writer: GrantId,
    /// A shared holder that waits for its upgrade, ahead of readers.
    upgrading: GrantId,
    /// Grants that cool, and grants with a bounded hold.
    cooling: Vec<GrantNumber>,
    bounded: Vec<(GrantNumber, FencingToken)>,
    /// The last waiter of the crowded lock.
    pub(crate) last: GrantId,
    leader: GrantId,
    anonymous: GrantId,
}

fn lock(name: &str) -> LockName {
    LockName::parse(name).expect("a name")
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

/// When the join tokens expire.
const TOKENS_EXPIRE: WallMillis = WallMillis(AT.0 + 1_000);

fn join_token() -> CreateJoinToken {
    CreateJoinToken {
        key: None,
        secret_hash: [7; 32],
        role: MemberRole::Voter,
        replaces: None,
        standing: false,
        up_to: None,
        expires_at: Some(TOKENS_EXPIRE),
        by: "an administrator".to_owned(),
        at: AT,
    }
}

fn admit(token: u64) -> AdmitNode {
    AdmitNode {
        token: JoinTokenNumber(token),
        secret_hash: [7; 32],
        incarnation: Incarnation(u128::from(token)),
        url: format!("http://10.0.0.{token}:7171"),
        address: format!("10.0.0.{token}:7271"),
        replaces: None,
        ids_through: 0,
        at: AT,
    }
}

impl Crowd {
    /// Takes a while, because it is built command by command.
    pub(crate) fn new() -> Crowd {
        let nobody = (SessionId(0), SessionNumber(0));
        let mut crowd = Crowd {
            state: State::new(),
            meter: Meter::default(),
            made: 0,
            locks_of: nobody,
            nodes_of: nobody,
            writer: GrantId::from_ulid(0),
            upgrading: GrantId::from_ulid(0),
            cooling: Vec::new(),
            bounded: Vec::new(),
            last: GrantId::from_ulid(0),
            leader: GrantId::from_ulid(0),
            anonymous: GrantId::from_ulid(0),
        };
        crowd.fill();
        crowd
    }

    pub(crate) fn apply(&mut self, command: Command) -> Outcome {
        self.meter.apply(&mut self.state, command).answer.result.unwrap_or_else(|rejection| panic!("refused: {rejection}"))
    }

    fn id(&mut self) -> GrantId {
        self.made += 1;
        GrantId::from_ulid(self.made)
    }

    fn key(&mut self) -> WriteKey {
        WriteKey { key: self.id(), fingerprint: [1; 16] }
    }

    fn open(&mut self) -> (SessionId, SessionNumber) {
        self.made += 1;
        let (id, name) = (SessionId(self.made), String::new());
        let open = OpenSession { key: None, id, timeout_ms: 10_000, name, meta: Meta::new(), at: AT };
        let opened = self.apply(Command::OpenSession(open));
        let Outcome::SessionOpened { number, .. } = opened else { panic!("{opened:?}") };
        (id, number)
    }

    fn acquire_of(&mut self, session: SessionId, name: &str, mode: Mode) -> Acquire {
        Acquire {
            grant: self.id(),
            id_given: true,
            wants: vec![Want { lock: lock(name), mode }],
            claimant: Claimant::Session(session),
            if_busy: IfBusy::Queue,
            limit: None,
            permits: 1,
            priority: 0,
            owner: Owner { text: "somebody".to_owned(), given: false },
            meta: Meta::new(),
            lock_delay_ms: 0,
            reentrant: false,
            max_hold_ms: None,
            value: None,
            at: AT,
        }
    }

    fn take(&mut self, session: SessionId, name: &str, mode: Mode) -> GrantId {
        let acquire = self.acquire_of(session, name, mode);
        let grant = acquire.grant;
        self.apply(Command::Acquire(acquire));
        grant
    }

    fn write(&mut self, then: Vec<Operation>) {
        self.apply(Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: AT }));
    }

    fn fill(&mut self) {
        let (own, _) = self.open();
        self.anonymous = {
            let mut acquire = self.acquire_of(own, "anonymous", Mode::Exclusive);
            acquire.claimant = Claimant::Anonymous { timeout_ms: 10_000 };
            let grant = acquire.grant;
            self.apply(Command::Acquire(acquire));
            grant
        };
        for number in 0..FORGETTABLE {
            let grant = self.take(own, &format!("past/{}", number % 500), Mode::Exclusive);
            self.apply(Command::Release { grant, session: None, at: AT });
            let key = self.key();
            self.apply(Command::RecordKey { key, at: AT });
        }
        for number in 0..2 * VERDICT_OBJECTS_MAX {
            let grant = self.take(own, &format!("idle/{number}"), Mode::Exclusive);
            self.apply(Command::Release { grant, session: None, at: AT });
        }
        self.locks_of = self.open();
        for number in 0..LOCKS {
            self.take(self.locks_of.0, &format!("own/{number}"), Mode::Exclusive);
        }
        self.nodes_of = self.open();
        let lifetime = Lifetime::Ephemeral { session: self.nodes_of.0 };
        for from in (0..NODES).step_by(TRANSACTION_STEPS_MAX) {
            let create = |number| Operation::Create {
                path: path(&format!("/n/{number}")),
                value: b""[..].into(),
                parents: true,
                lifetime,
            };
            self.write((from..from + TRANSACTION_STEPS_MAX).map(create).collect());
        }
        for number in 0..NODES_SWEPT_MAX {
            let lifetime = Lifetime::Ttl { ttl_ms: 1 };
            self.write(vec![Operation::Create {
                path: path(&format!("/t/{number}")),
                value: b""[..].into(),
                parents: true,
                lifetime,
            }]);
        }
        for number in 0..9_990 {
            let lifetime = Lifetime::Persistent;
            self.write(vec![Operation::Create {
                path: path(&format!("/d/{number}")),
                value: b""[..].into(),
                parents: true,
                lifetime,
            }]);
        }
        self.fill_queues();
    }

    fn fill_queues(&mut self) {
        let (own, _) = self.open();
        for _ in 0..HOLDERS {
            let mut acquire = self.acquire_of(own, "pool", Mode::Exclusive);
            (acquire.limit, acquire.owner.given) = (Some(1_000_000), true);
            self.apply(Command::Acquire(acquire));
        }
        for _ in 0..READERS {
            self.take(own, "map", Mode::Shared);
        }
        self.take(own, "map", Mode::Exclusive);
        for _ in 1..WAITERS_MAX {
            self.last = self.take(own, "map", Mode::Shared);
        }
        self.writer = self.take(own, "written", Mode::Exclusive);
        for _ in 0..WAITERS_MAX {
            self.take(own, "written", Mode::Shared);
        }
        self.upgrading = self.take(own, "upgraded", Mode::Shared);
        self.take(own, "upgraded", Mode::Shared);
        self.apply(Command::Upgrade { grant: self.upgrading, if_busy: IfBusy::Queue, key: None, at: AT });
        for _ in 0..WAITERS_MAX {
            self.take(own, "upgraded", Mode::Shared);
        }
        for number in 0..WAITERS_MAX {
            let mut acquire = self.acquire_of(own, "narrow", Mode::Exclusive);
            (acquire.limit, acquire.permits) = (Some(9), if number == 0 { 9 } else { 5 });
            self.apply(Command::Acquire(acquire));
        }
        let (expired, number) = self.open();
        for number in 0..VERDICT_OBJECTS_MAX {
            let mut acquire = self.acquire_of(expired, &format!("cooling/{number}"), Mode::Exclusive);
            acquire.lock_delay_ms = 1_000;
            self.apply(Command::Acquire(acquire));
        }
        self.apply(Command::ExpireSession { session: number, at: AT });
        while self.state.has_pending() {
            self.apply(Command::ContinuePendingWork { at: AT });
        }
        self.cooling = self.state.cooling().map(|contender| contender.number).collect();
        for number in 0..VERDICT_OBJECTS_MAX {
            let mut acquire = self.acquire_of(own, &format!("bounded/{number}"), Mode::Exclusive);
            acquire.max_hold_ms = Some(1_000);
            self.apply(Command::Acquire(acquire));
        }
        self.bounded = self.state.bounded_holds().filter_map(|held| Some((held.number, held.token()?))).collect();
        self.leader = {
            let mut acquire = self.acquire_of(own, "election", Mode::Exclusive);
            acquire.value = Some(Vec::new());
            let grant = acquire.grant;
            self.apply(Command::Acquire(acquire));
            grant
        };
        self.fill_lines(3_900, "y");
        self.fill_lines(WAITERS_MAX - 10, "long");
        self.leave_work("many");
        self.fill_members();
    }

    /// Leaves some work pending, which later changes of tenants would do.
    pub(crate) fn leave_work(&mut self, name: &str) {
        let (many, _) = self.open();
        for number in 0..2_000 {
            self.take(many, &format!("{name}/{number}"), Mode::Exclusive);
        }
        self.apply(Command::CloseSession { session: many, at: AT });
    }

    /// As many removed nodes, join tokens and nodes that are joining as there may be, but for one of each.
    fn fill_members(&mut self) {
        for node in 1..=REMOVED_NODES_MAX as NodeId {
            self.apply(Command::RecordRemoval { node, incarnation: Some(Incarnation(u128::MAX)), ids_through: 0, at: AT });
        }
        for _ in 1..JOIN_TOKENS_MAX {
            let key = Some(self.key());
            self.apply(Command::CreateJoinToken(CreateJoinToken { key, ..join_token() }));
        }
        for token in 1..JOINS_MAX as u64 {
            self.apply(Command::AdmitNode(admit(token)));
        }
    }

    /// R holds X, P holds Y, Q holds Z; P waits for Z, Q for X; and very many named owners wait for Y.
    fn fill_lines(&mut self, waiters: usize, y: &str) {
        let (x, z) = (format!("x-{y}"), format!("z-{y}"));
        for (owner, name) in [("r", x.as_str()), ("p", y), ("q", z.as_str()), ("p", z.as_str()), ("q", x.as_str())] {
            let acquire = self.named(&format!("{owner}-{y}"), name);
            self.apply(Command::Acquire(acquire));
        }
        for number in 0..waiters {
            let acquire = self.named(&format!("{y}-{number}"), y);
            self.apply(Command::Acquire(acquire));
        }
    }

    fn named(&mut self, owner: &str, name: &str) -> Acquire {
        let mut acquire = self.acquire_of(self.locks_of.0, name, Mode::Exclusive);
        acquire.owner = Owner { text: owner.to_owned(), given: true };
        acquire
    }

    /// The most expensive forms of each command.
    pub(crate) fn scenes(&mut self) -> Vec<(&'static str, Command)> {
        let mut scenes = self.locks_and_grants();
        scenes.extend(self.sessions_and_verdicts());
        scenes.extend(self.writes());
        scenes.extend(self.members());
        scenes
    }

    fn locks_and_grants(&mut self) -> Vec<(&'static str, Command)> {
        let (own, _) = self.open();
        let mut in_pool = self.acquire_of(own, "pool", Mode::Exclusive);
        in_pool.permits = 3;
        let mut again = self.acquire_of(own, "pool", Mode::Exclusive);
        again.reentrant = true;
        let mut refused = self.acquire_of(own, "map", Mode::Shared);
        (refused.if_busy, refused.priority) = (IfBusy::Refuse, -1);
        let mut several = self.acquire_of(own, "s/0", Mode::Exclusive);
        several.wants =
            (0..LOCKS_PER_ACQUIRE_MAX).map(|number| Want { lock: lock(&format!("s/{number}")), mode: Mode::Exclusive }).collect();
        let (key, other, third) = (self.key(), self.key(), self.key());
        let by = || "an administrator".to_owned();
        let set = |key, name: &str, limit| SetLock {
            key: Some(key),
            lock: lock(name),
            limit: Some(limit),
            max_waiters: None,
            max_hold_ms: None,
            by: by(),
            at: AT,
        };
        let anonymous = self.anonymous;
        vec![
            ("a free lock", Command::Acquire(self.acquire_of(own, "free", Mode::Exclusive))),
            ("100,000 hold permits", Command::Acquire(in_pool)),
            ("100,000 hold, reentrant", Command::Acquire(again)),
            ("40,000 read, 10,000 wait, refused", Command::Acquire(refused)),
            ("64 locks at once", Command::Acquire(several)),
            (REFUSED, Command::Acquire(self.named("r-y", "y"))),
            (UNCHECKED, Command::Acquire(self.named("r-long", "long"))),
            ("10,000 readers wait behind it", Command::Release { grant: self.writer, session: None, at: AT }),
            ("an unknown id", Command::Release { grant: self.id(), session: Some(own), at: AT }),
            ("the last of 10,000 waiters", Command::Withdraw { grant: self.last, attempt: 1, at: AT }),
            ("10,000 readers wait behind it", Command::Abandon { grant: self.writer, attempt: 1, at: AT }),
            ("10,000 readers wait behind it", Command::Downgrade { grant: self.writer, key: Some(key), at: AT }),
            ("it waits already", Command::Upgrade { grant: self.upgrading, if_busy: IfBusy::Queue, key: Some(key), at: AT }),
            ("10,000 readers wait behind it", Command::EndUpgrade { grant: self.upgrading, attempt: 1, at: AT }),
            ("another timeout", Command::SetGrantTimeout { grant: anonymous, timeout_ms: 20_000, key: Some(key), at: AT }),
            ("100,000 hold it", Command::Break(Break { key, lock: lock("pool"), token: None, by: by(), reason: by(), at: AT })),
            ("100,000 hold it", Command::Revoke(Revoke { key: Some(key), lock: lock("pool"), by: by(), reason: by(), at: AT })),
            ("a limit that 9,999 waiters exceed", Command::SetLock(set(key, "narrow", 4))),
            ("a limit that admits 9,999 waiters", Command::SetLock(set(other, "narrow", 1_000_000))),
            ("a limit below 100,000 holders", Command::SetLock(set(third, "pool", 1))),
            (
                "a leader",
                Command::Proclaim(Proclaim {
                    key,
                    election: lock("election"),
                    grant: self.leader,
                    value: b"value"[..].into(),
                    at: AT,
                }),
            ),
        ]
    }

    fn sessions_and_verdicts(&mut self) -> Vec<(&'static str, Command)> {
        let idle: Vec<(LockName, Revision)> = self.state.idle_locks().take(VERDICT_OBJECTS_MAX).collect();
        let swept = self.state.sweepable().take(NODES_SWEPT_MAX).collect();
        let id = SessionId(u128::MAX);
        let open = OpenSession { key: Some(self.id()), id, timeout_ms: 10_000, name: String::new(), meta: Meta::new(), at: AT };
        let by = || "an administrator".to_owned();
        let (locks, nodes) = (self.locks_of, self.nodes_of);
        vec![
            ("the first", Command::FormCluster { cluster: ClusterId(7) }),
            ("the first", Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) }),
            ("the next", Command::RaiseClusterVersion { to: self.state.cluster_version().next() }),
            ("with a key", Command::OpenSession(open)),
            ("100,000 locks", Command::CloseSession { session: locks.0, at: AT }),
            ("100,000 ephemeral nodes", Command::CloseSession { session: nodes.0, at: AT }),
            ("100,000 locks", Command::ExpireSession { session: locks.1, at: AT }),
            ("100,000 ephemeral nodes", Command::ExpireSession { session: nodes.1, at: AT }),
            ("100,000 locks", Command::EndSession { session: locks.1, by: by(), reason: by(), at: AT }),
            ("1,000 cooling grants", Command::EndCooling { grants: self.cooling.clone(), at: AT }),
            ("1,000 holds", Command::EndHolds { holds: self.bounded.clone(), at: AT }),
            ("20,000 keys, 2,000 of them forgotten", Command::Forget { through: Revision(u64::MAX) }),
            ("1,000 locks", Command::ForgetLocks { locks: idle }),
            ("20,000 past holds, 1,000 of them forgotten", Command::ForgetHistory { through: Revision(u64::MAX) }),
            ("1,000 TTL nodes", Command::Sweep { nodes: swept, at: AT }),
            ("a session of 2,000 locks has ended", Command::ContinuePendingWork { at: AT }),
            ("a key", Command::RecordKey { key: self.key(), at: AT }),
            ("the capacity of a node", Command::RecordCapacity { node: 3, bytes: 1 }),
        ]
    }

    fn members(&mut self) -> Vec<(&'static str, Command)> {
        let key = self.key();
        let later = CreateJoinToken { key: Some(key), at: WallMillis(TOKENS_EXPIRE.0 + 1), ..join_token() };
        let newest = REMOVED_NODES_MAX as NodeId + 1;
        let by = || "an administrator".to_owned();
        let removal =
            RequestRemoval { node: newest, ids_through: 0, by: by(), at: AT, other_voters: (newest + 1..newest + 8).collect() };
        let set = SetMember {
            key: Some(key),
            node: newest,
            priority: Some(90),
            zone: Some("a".to_owned()),
            address_set: true,
            by: by(),
            at: AT,
        };
        vec![
            ("the last of 100", Command::CreateJoinToken(CreateJoinToken { key: Some(key), ..join_token() })),
            ("99 others have expired", Command::CreateJoinToken(later)),
            ("one of 99", Command::RevokeJoinToken { number: JoinTokenNumber(50), at: AT }),
            ("9 others are joining", Command::AdmitNode(admit(50))),
            ("one of 9", Command::SettleJoin { node: newest, at: AT }),
            ("a node that is joining", Command::RequestRemoval(removal)),
            (
                "1,000 others were removed",
                Command::RecordRemoval { node: newest, incarnation: None, ids_through: newest, at: AT },
            ),
            ("a key", Command::SetMember(set)),
            ("a key", Command::SetTiming { key: Some(key), timing: Timing::Wan, by: by(), at: AT }),
        ]
    }

    fn writes(&mut self) -> Vec<(&'static str, Command)> {
        let fence = Condition::Fence { lock: lock("pool"), token: FencingToken(1), grant: None };
        let fences = vec![fence; TRANSACTION_STEPS_MAX];
        let transact = |conditions, then: Vec<Operation>, otherwise| {
            Command::Transact(Transact { key: None, conditions, then, otherwise, at: AT })
        };
        let deep = |number: usize| Operation::Create {
            path: path(&format!("/deep/{number}{}", "/x".repeat(30))),
            value: b""[..].into(),
            parents: true,
            lifetime: Lifetime::Persistent,
        };
        let all = Operation::Delete { path: path("/d"), version: None, recursive: true };
        vec![
            ("1,000 fences of a lock that 100,000 hold", transact(fences, Vec::new(), Some(Vec::new()))),
            (
                "1,000 nodes below 31 levels that are missing",
                transact(Vec::new(), (0..TRANSACTION_STEPS_MAX).map(deep).collect(), None),
            ),
            ("9,991 nodes removed", transact(Vec::new(), vec![all], None)),
        ]
    }
}

//! The state machine under commands that bytes choose: few names, ids and numbers, so that they collide.
//!
//! After each command: the revision never decreases, no token is greater than it, and the state is consistent
//! (`State::check`). At the end: a copy through a snapshot behaves like the original.

use fairhold_state::{
    State,
    command::{
        Acquire, Break, Claimant, Command, Condition, IfBusy, Lifetime, Meta, OpenSession, Operation, Outcome, Owner, Proclaim,
        Revoke, SessionKey, SetLock, Sweepable, Transact, Want, WriteKey,
    },
    value::Value,
};
use fairhold_types::{
    ClusterId, FencingToken, GrantId, GrantNumber, LockName, Mode, Path, Revision, SessionId, SessionNumber, time::WallMillis,
};

const LOCKS: [&str; 4] = ["a", "a/b", "a/b/c", "d"];
const PATHS: [&str; 8] = ["/x", "/x/y", "/x/y/z", "/w", "/x!", "/locks/a", "/", "/v"];

/// The most commands of one run.
const COMMANDS_MAX: usize = 400;

/// Runs the commands that the bytes choose.
pub fn run(bytes: &[u8]) {
    let (mut state, mut choices) = (State::default(), Choices { bytes, made: 0 });
    while !choices.bytes.is_empty() && choices.made < COMMANDS_MAX {
        choices.made += 1;
        let command = choices.command(&state);
        let (before, shown) = (state.revision(), format!("{command:?}"));
        let answer = state.apply(&command).answer;
        assert!(answer.revision >= before && state.revision() >= answer.revision, "the revision went back at {shown}");
        if let Ok(Outcome::Held(held)) = &answer.result {
            assert!(held.token.0 <= state.revision().0, "a token from the future at {shown}");
        }
        sound(&state, &shown);
    }
    let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
    let mut copy = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).expect("what was written can be read");
    assert_eq!(copy.digest(), state.digest(), "the copy is the same");
    let mut last = Choices { bytes, made: choices.made };
    for _ in 0..8 {
        let command = last.command(&state);
        assert_eq!(copy.apply(&command), state.apply(&command), "and goes on as the original");
    }
    assert_eq!(copy.digest(), state.digest());
}

fn sound(state: &State, after: &str) {
    if let Err(wrong) = state.check() {
        panic!("after {after}: {wrong}");
    }
}

/// The choices that the bytes make, in sequence; zeros after the last byte.
struct Choices<'a> {
    bytes: &'a [u8],
    made: usize,
}

impl Choices<'_> {
    fn below(&mut self, end: u8) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first % end
    }

    fn one_in(&mut self, many: u8) -> bool {
        self.below(many) == 1
    }

    fn at(&self) -> WallMillis {
        WallMillis(1_000 + 10 * self.made as u64)
    }

    fn lock(&mut self) -> LockName {
        let name = LOCKS[usize::from(self.below(4))];
        LockName::parse(name).expect("a fixed name")
    }

    fn path(&mut self) -> Path {
        let path = PATHS[usize::from(self.below(8))];
        Path::parse(path).expect("a fixed path")
    }

    fn grant(&mut self) -> GrantId {
        let number = u128::from(self.below(24));
        GrantId::from_ulid((number + 1) << 64 | number)
    }

    fn session(&mut self) -> SessionId {
        SessionId(u128::from(self.below(6)))
    }

    fn number(&mut self) -> u64 {
        u64::from(self.below(200))
    }

    fn timeout(&mut self) -> u64 {
        1_000 * (1 + u64::from(self.below(60)))
    }

    fn key(&mut self) -> WriteKey {
        WriteKey { key: self.grant(), fingerprint: [self.below(2); 16] }
    }

    fn key_or_none(&mut self) -> Option<WriteKey> {
        self.one_in(2).then(|| self.key())
    }

    fn value(&mut self) -> Value {
        Value::from(vec![7; usize::from(self.below(9))].as_slice())
    }

    fn claimant(&mut self) -> Claimant {
        if self.one_in(2) { Claimant::Session(self.session()) } else { Claimant::Anonymous { timeout_ms: self.timeout() } }
    }

    fn if_busy(&mut self) -> IfBusy {
        if self.one_in(4) { IfBusy::Refuse } else { IfBusy::Queue }
    }

    fn acquire(&mut self) -> Acquire {
        let mut wants: Vec<Want> = Vec::new();
        for _ in 0..=self.below(6) / 4 * 2 {
            let lock = self.lock();
            let mode = if self.one_in(3) { Mode::Shared } else { Mode::Exclusive };
            if wants.iter().all(|want| want.lock != lock) {
                wants.push(Want { lock, mode });
            }
        }
        let single = wants.len() == 1 && wants[0].mode == Mode::Exclusive;
        let limit = (single && self.one_in(4)).then(|| 1 + u32::from(self.below(4)));
        let value = (single && limit.is_none() && self.one_in(6)).then(|| vec![1; usize::from(self.below(4))]);
        Acquire {
            grant: self.grant(),
            id_given: self.one_in(2),
            wants,
            claimant: self.claimant(),
            if_busy: self.if_busy(),
            limit,
            permits: limit.map_or(1, |limit| 1 + u32::from(self.below(4)) % limit),
            priority: i32::from(self.below(5)) - 2,
            owner: Owner { text: ["ann", "bob", "eve"][usize::from(self.below(3))].to_owned(), given: self.one_in(2) },
            meta: Meta::new(),
            lock_delay_ms: 1_000 * u64::from(self.below(2)),
            reentrant: single && self.one_in(4),
            max_hold_ms: self.one_in(6).then_some(5_000),
            value,
            at: self.at(),
        }
    }

    fn lifetime(&mut self) -> Lifetime {
        match self.below(6) {
            0 => Lifetime::Ephemeral { session: self.session() },
            1 => Lifetime::Container,
            2 => Lifetime::Ttl { ttl_ms: self.timeout() },
            _ => Lifetime::Persistent,
        }
    }

    fn version(&mut self) -> Option<i32> {
        self.one_in(3).then(|| i32::from(self.below(4)))
    }

    fn operation(&mut self) -> Operation {
        let (path, parents) = (self.path(), self.one_in(2));
        match self.below(6) {
            0 => Operation::Put { path, value: self.value(), parents, lifetime: self.lifetime() },
            1 => Operation::Create { path, value: self.value(), parents, lifetime: self.lifetime() },
            2 => {
                let (value, lifetime) = (self.value(), self.lifetime());
                Operation::CreateSequential { parent: path, prefix: "n-".to_owned(), value, parents, lifetime }
            }
            3 => Operation::Set { path, value: self.value(), version: self.version() },
            4 => Operation::Delete { path, version: self.version(), recursive: parents },
            _ => Operation::Check { path, version: self.version() },
        }
    }

    fn operations(&mut self) -> Vec<Operation> {
        (0..=self.below(4)).map(|_| self.operation()).collect()
    }

    fn condition(&mut self) -> Condition {
        match self.below(5) {
            0 => {
                let (lock, token) = (self.lock(), FencingToken(self.number()));
                Condition::Fence { lock, token, grant: self.one_in(2).then(|| self.grant()) }
            }
            1 => Condition::Version { path: self.path(), version: self.version() },
            2 => Condition::Exists { path: self.path() },
            3 => Condition::Session { session: SessionKey::Id(self.session()) },
            _ => Condition::Session { session: SessionKey::Number(SessionNumber(self.number())) },
        }
    }

    fn transact(&mut self) -> Transact {
        let key = self.one_in(2).then(|| self.key());
        let conditions = (0..self.below(3)).map(|_| self.condition()).collect();
        let otherwise = self.one_in(3).then(|| self.operations());
        Transact { key, conditions, then: self.operations(), otherwise, at: self.at() }
    }

    fn command(&mut self, state: &State) -> Command {
        let at = self.at();
        match self.below(32) {
            0..8 => Command::Acquire(self.acquire()),
            8..12 => {
                let (grant, session) = (self.grant(), self.one_in(3).then(|| self.session()));
                Command::Release { grant, session, at }
            }
            12..15 => Command::Transact(self.transact()),
            15 | 16 => {
                let (key, id, timeout_ms) = (self.one_in(2).then(|| self.grant()), self.session(), self.timeout());
                let name = ["", "a service"][usize::from(self.below(2))].to_owned();
                Command::OpenSession(OpenSession { key, id, timeout_ms, name, meta: Meta::new(), at })
            }
            17 => Command::CloseSession { session: self.session(), at },
            18 => Command::ExpireSession { session: SessionNumber(self.number()), at },
            19 => Command::Withdraw { grant: self.grant(), attempt: self.number(), at },
            20 => Command::Abandon { grant: self.grant(), attempt: self.number(), at },
            21 => {
                let (grant, timeout_ms, key) = (self.grant(), self.timeout(), self.key_or_none());
                Command::SetGrantTimeout { grant, timeout_ms, key, at }
            }
            22 => {
                let grants = (0..=self.below(4)).map(|_| GrantNumber(self.number())).collect();
                Command::EndCooling { grants, at }
            }
            23 => Command::Forget { through: Revision(self.number()) },
            24 => Command::ForgetHistory { through: Revision(self.number()) },
            25 => {
                let locks = (0..=self.below(4)).map(|_| (self.lock(), Revision(self.number()))).collect();
                Command::ForgetLocks { locks }
            }
            26 => Command::Downgrade { grant: self.grant(), key: self.key_or_none(), at },
            27 => Command::Upgrade { grant: self.grant(), if_busy: self.if_busy(), key: self.key_or_none(), at },
            28 => Command::EndUpgrade { grant: self.grant(), attempt: u64::from(self.below(4)), at },
            29 => {
                let holds = (0..=self.below(4)).map(|_| (GrantNumber(self.number()), FencingToken(self.number()))).collect();
                Command::EndHolds { holds, at }
            }
            30 => self.order(state),
            _ => {
                let (key, election, grant) = (self.key(), self.lock(), self.grant());
                Command::Proclaim(Proclaim { key, election, grant, value: self.value(), at })
            }
        }
    }

    /// The requests of administrators and of the leader's background tasks.
    fn order(&mut self, state: &State) -> Command {
        let (at, by, reason) = (self.at(), "an administrator".to_owned(), "why not".to_owned());
        match self.below(10) {
            0 => {
                let token = self.one_in(3).then(|| FencingToken(self.number()));
                Command::Break(Break { key: self.key(), lock: self.lock(), token, by, reason, at })
            }
            1 => {
                let mut set = SetLock {
                    key: self.key_or_none(),
                    lock: self.lock(),
                    limit: None,
                    max_waiters: None,
                    max_hold_ms: None,
                    by,
                    at,
                };
                // One setting at a time: the others stay unchanged.
                match self.below(3) {
                    0 => set.limit = Some(1 + u32::from(self.below(4))),
                    1 => set.max_waiters = Some(u64::from(self.below(3))),
                    _ => set.max_hold_ms = Some(self.timeout() * u64::from(self.below(4))),
                }
                Command::SetLock(set)
            }
            2 => Command::Revoke(Revoke { key: self.key_or_none(), lock: self.lock(), by, reason, at }),
            3 => Command::EndSession { session: SessionNumber(self.number()), by, reason, at },
            4 => {
                let since = Revision(self.number().min(state.revision().0));
                Command::Sweep { nodes: vec![Sweepable { path: self.path(), since }], at }
            }
            5 => Command::RecordKey { key: self.key(), at },
            6..9 => Command::ContinuePendingWork { at },
            _ => Command::FormCluster { cluster: ClusterId(9) },
        }
    }
}

//! A state for benchmarks, and commands with fixed ids and names, so that each run does the same.

use fairhold_state::{
    State,
    command::{
        Acquire, Claimant, Command, IfBusy, Lifetime, Meta, OpenSession, Operation, Outcome, Owner, Transact, Want, WriteKey,
    },
};
use fairhold_types::{GrantId, LockName, Mode, Path, SessionId, time::WallMillis};

/// The time of all commands.
pub(crate) const AT: WallMillis = WallMillis(1_763_700_840_120);

/// More than a session remembers. After this many steps its table of ended ids is full, as in a session that has lived
/// long.
pub(crate) const WARM_UP: usize = 2_000;

/// A state, and unused ids.
pub(crate) struct World {
    pub(crate) state: State,
    ids: u128,
}

impl World {
    pub(crate) fn new() -> World {
        World { state: State::new(), ids: 0 }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Outcome {
        self.state.apply(&command).answer.result.unwrap_or_else(|refused| panic!("refused: {refused:?}"))
    }

    fn id(&mut self) -> GrantId {
        self.ids += 1;
        GrantId::from_ulid((self.ids + 1_000_000) << 64 | self.ids)
    }

    pub(crate) fn open(&mut self) -> SessionId {
        let id = SessionId(0x5e55_1042 << 64 | (self.state.session_count() as u128 + 1));
        self.apply(opening(id));
        id
    }

    /// An empty `owner` means that the caller named none. Then there is no deadlock check.
    pub(crate) fn acquire(&mut self, session: SessionId, owner: &str, lock: &str) -> Command {
        Command::Acquire(Acquire {
            grant: self.id(),
            id_given: true,
            wants: vec![Want { lock: LockName::parse(lock).expect("a name"), mode: Mode::Exclusive }],
            claimant: Claimant::Session(session),
            if_busy: IfBusy::Queue,
            limit: None,
            permits: 1,
            priority: 0,
            owner: Owner { text: owner.to_owned(), given: !owner.is_empty() },
            meta: Meta::new(),
            lock_delay_ms: 0,
            reentrant: false,
            max_hold_ms: None,
            value: None,
            at: AT,
        })
    }

    pub(crate) fn put(&mut self, value: usize) -> Command {
        Command::Transact(Transact {
            key: Some(WriteKey { key: self.id(), fingerprint: [7; 16] }),
            conditions: Vec::new(),
            then: vec![Operation::Put {
                path: Path::parse("/app/config").expect("a path"),
                value: vec![7; value].into(),
                parents: true,
                lifetime: Lifetime::Persistent,
            }],
            otherwise: None,
            at: AT,
        })
    }

    /// Forgets the tombstones of the last step in the table, as the leader's clock would.
    pub(crate) fn forget(&mut self) {
        let through = self.state.revision();
        self.apply(Command::Forget { through });
    }
}

/// The command that opens a session.
pub(crate) fn opening(id: SessionId) -> Command {
    Command::OpenSession(OpenSession { key: None, id, timeout_ms: 15_000, name: "bench".to_owned(), meta: Meta::new(), at: AT })
}

/// The command that releases what an acquire took.
pub(crate) fn end(acquire: &Command) -> Command {
    let Command::Acquire(acquire) = acquire else { panic!("only an acquire can be released") };
    Command::Release { grant: acquire.grant, session: None, at: AT }
}

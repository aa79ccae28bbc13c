//! An invariant, the state whose changes it checks, and what the plants apply to it.

use crate::facts::{Applied, Physics};
use crate::host::TRUE_RATE;
use crate::invariants::{all, invariant::Invariant};
use fairhold_state::State;
use fairhold_state::command::{
    Acquire, Claimant, Command, Event, IfBusy, Lifetime, Meta, OpenSession, Operation, Outcome, Owner, Transact, Want,
};
use fairhold_types::time::WallMillis;
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Mode, NodeId, Path, Revision, SessionId};
use std::time::Duration;

pub(super) const AT: WallMillis = WallMillis(1_000);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// A value that fills a block of a snapshot.
pub(super) const BLOCK: usize = 600 * 1024;

pub(super) type Judged = Result<(), String>;

/// An invariant, and the state whose changes it checks.
pub(super) struct Stage {
    pub(super) state: State,
    pub(super) invariant: Box<dyn Invariant>,
    /// When the next change is applied.
    pub(super) at: Duration,
}

impl Stage {
    /// Applies a command, and shows the change to the invariant.
    pub(super) fn apply(&mut self, command: Command) -> Judged {
        let events = self.state.apply(&command).events;
        self.show(&events)
    }

    /// Applies a command that must not violate the invariant.
    pub(super) fn right(&mut self, command: Command) {
        self.apply(command).unwrap();
    }

    /// Shows these events with the current state.
    pub(super) fn show(&mut self, events: &[Event]) -> Judged {
        let state = self.state.clone();
        self.show_as(1, true, &state, state.revision(), events)
    }

    pub(super) fn show_as(&mut self, node: NodeId, first: bool, state: &State, revision: Revision, events: &[Event]) -> Judged {
        self.invariant.applied(&Applied { node, at: self.at, first, state, revision, events, whole: true })
    }

    /// Acquires or queues for a lock, with an id made from this number. Returns the number of the grant.
    pub(super) fn acquire(&mut self, id: u128, change: impl FnOnce(&mut Acquire)) -> GrantNumber {
        let mut acquire = acquire(id);
        change(&mut acquire);
        let applied = self.state.apply(&Command::Acquire(acquire));
        self.show(&applied.events).unwrap();
        let outcome = applied.answer.result.unwrap();
        if let Outcome::Held(held) = &outcome {
            return held.number;
        }
        let Outcome::Queued(queued) = outcome else { panic!("{outcome:?}") };
        queued.number
    }
}

pub(super) fn lock() -> LockName {
    LockName::parse("a").unwrap()
}

pub(super) fn id(number: u128) -> GrantId {
    GrantId::from_ulid(number << 64)
}

pub(super) fn acquire(number: u128) -> Acquire {
    Acquire {
        grant: id(number),
        id_given: true,
        wants: vec![Want { lock: lock(), mode: Mode::Exclusive }],
        claimant: Claimant::Anonymous { timeout_ms: 2_000 },
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: format!("o{number}"), given: true },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: AT,
    }
}

pub(super) fn release(number: u128) -> Command {
    Command::Release { grant: id(number), session: None, at: AT }
}

pub(super) fn open_session() -> Command {
    let (name, meta) = (String::new(), Meta::new());
    Command::OpenSession(OpenSession { key: None, id: SessionId(1), timeout_ms: 3_000, name, meta, at: AT })
}

pub(super) fn create(path: &str, bytes: usize, lifetime: Lifetime) -> Command {
    let (path, value) = (Path::parse(path).unwrap(), vec![b'x'; bytes].into());
    let then = vec![Operation::Create { path, value, parents: false, lifetime }];
    Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: AT })
}

pub(super) fn granted(grant: GrantNumber, token: u64) -> Event {
    Event::Granted { lock: lock(), grant, token: FencingToken(token) }
}

pub(super) fn everything() -> Vec<Box<dyn Invariant>> {
    all(Physics { rate_max: TRUE_RATE })
}

pub(super) fn fresh(name: &str) -> Box<dyn Invariant> {
    everything().into_iter().find(|invariant| invariant.name() == name).unwrap()
}

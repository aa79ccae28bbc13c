//! Requests for the unit tests of this crate. A test changes the fields that it is about.

use crate::command::{Acquire, Claimant, Command, IfBusy, Meta, OpenSession, Owner, SetLock, Want};
use fairhold_types::{GrantId, LockName, Mode, SessionId, time::WallMillis};

/// Opens a session.
pub(crate) fn open_session(id: SessionId) -> Command {
    let (name, meta) = (String::new(), Meta::new());
    Command::OpenSession(OpenSession { key: None, id, timeout_ms: 10_000, name, meta, at: WallMillis(1) })
}

/// Changes the settings of a lock. It names none.
pub(crate) fn set_lock(lock: &str) -> SetLock {
    SetLock {
        key: None,
        lock: LockName::parse(lock).unwrap(),
        limit: None,
        max_waiters: None,
        max_hold_ms: None,
        by: String::new(),
        at: WallMillis(1),
    }
}

/// Requests one permit of each lock for a session, which queues.
pub(crate) fn acquire_in(session: SessionId, grant: GrantId, locks: &[&str], mode: Mode) -> Acquire {
    Acquire {
        grant,
        id_given: true,
        wants: locks.iter().map(|lock| Want { lock: LockName::parse(lock).unwrap(), mode }).collect(),
        claimant: Claimant::Session(session),
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: String::new(), given: false },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: WallMillis(1),
    }
}

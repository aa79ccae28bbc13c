//! The verdicts of the leader's clock that end nobody's session.

use crate::clock::wall_now;
use fairhold_state::command::{Command, Sweepable};
use fairhold_types::{FencingToken, GrantNumber, LockName, Revision};

/// A verdict that needs no proof of who is alive, because its object cannot come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chore {
    EndCooling(Vec<GrantNumber>),
    EndHolds(Vec<(GrantNumber, FencingToken)>),
    ForgetLocks(Vec<(LockName, Revision)>),
    Forget(Revision),
    Sweep(Vec<Sweepable>),
    ForgetHistory(Revision),
    /// The next piece of what is pending in the state.
    Continue,
}

/// Of each kind there is one on its way at a time. The next one follows when it is answered, so many objects are many verdicts
/// in a row and not a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    EndCooling,
    EndHolds,
    ForgetLocks,
    Forget,
    Sweep,
    ForgetHistory,
    Continue,
}

impl Chore {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Chore::EndCooling(_) => Kind::EndCooling,
            Chore::EndHolds(_) => Kind::EndHolds,
            Chore::ForgetLocks(_) => Kind::ForgetLocks,
            Chore::Forget(_) => Kind::Forget,
            Chore::Sweep(_) => Kind::Sweep,
            Chore::ForgetHistory(_) => Kind::ForgetHistory,
            Chore::Continue => Kind::Continue,
        }
    }

    pub(crate) fn command(&self) -> Command {
        match self.clone() {
            Chore::EndCooling(grants) => Command::EndCooling { grants, at: wall_now() },
            Chore::EndHolds(holds) => Command::EndHolds { holds, at: wall_now() },
            Chore::ForgetLocks(locks) => Command::ForgetLocks { locks },
            Chore::Forget(through) => Command::Forget { through },
            Chore::Sweep(nodes) => Command::Sweep { nodes, at: wall_now() },
            Chore::ForgetHistory(through) => Command::ForgetHistory { through },
            Chore::Continue => Command::Continue { at: wall_now() },
        }
    }
}

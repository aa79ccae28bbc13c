//! The verdicts of the leader's clock that end nobody's session.

use crate::clock::wall_now;
use fairhold_state::command::{Command, Sweepable};
use fairhold_types::{FencingToken, GrantNumber, LockName, Revision};

/// A verdict that needs no proof of who is alive, because its object cannot come back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chore {
    EndCooling(GrantNumber, LockName),
    EndHold(GrantNumber, FencingToken),
    ForgetLock(LockName, Revision),
    Forget(Revision),
    Sweep(Vec<Sweepable>),
    ForgetHistory(Revision),
}

impl Chore {
    pub(crate) fn command(&self) -> Command {
        match self.clone() {
            Chore::EndCooling(contender, lock) => Command::EndCooling { lock, contender, at: wall_now() },
            Chore::EndHold(grant, token) => Command::EndHold { grant, token, at: wall_now() },
            Chore::ForgetLock(lock, since) => Command::ForgetLock { lock, since },
            Chore::Forget(through) => Command::Forget { through },
            Chore::Sweep(nodes) => Command::Sweep { nodes, at: wall_now() },
            Chore::ForgetHistory(through) => Command::ForgetHistory { through },
        }
    }
}

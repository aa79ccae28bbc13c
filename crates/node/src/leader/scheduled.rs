//! The commands of the leader's clock that expire no session.

use crate::clock::wall_now;
use fairhold_access::token::AccessTokenNumber;
use fairhold_state::command::{Command, Sweepable};
use fairhold_types::{FencingToken, GrantNumber, LockName, Revision};

/// A command that needs no confirmation of the leadership, because no keepalive can save its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheduled {
    EndCooling(Vec<GrantNumber>),
    EndHolds(Vec<(GrantNumber, FencingToken)>),
    ForgetLocks(Vec<(LockName, Revision)>),
    Forget(Revision),
    Sweep(Vec<Sweepable>),
    ForgetHistory(Revision),
    ExpireTokens(Vec<AccessTokenNumber>),
    /// The next piece of the work that the state has left over.
    Continue,
}

/// At most one command of each kind is in flight. The next one follows when it is answered, so many objects make a
/// sequence of commands and not a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScheduledKind {
    EndCooling,
    EndHolds,
    ForgetLocks,
    Forget,
    Sweep,
    ForgetHistory,
    ExpireTokens,
    Continue,
}

impl Scheduled {
    pub(crate) fn kind(&self) -> ScheduledKind {
        match self {
            Scheduled::EndCooling(_) => ScheduledKind::EndCooling,
            Scheduled::EndHolds(_) => ScheduledKind::EndHolds,
            Scheduled::ForgetLocks(_) => ScheduledKind::ForgetLocks,
            Scheduled::Forget(_) => ScheduledKind::Forget,
            Scheduled::Sweep(_) => ScheduledKind::Sweep,
            Scheduled::ForgetHistory(_) => ScheduledKind::ForgetHistory,
            Scheduled::ExpireTokens(_) => ScheduledKind::ExpireTokens,
            Scheduled::Continue => ScheduledKind::Continue,
        }
    }

    pub(crate) fn command(&self) -> Command {
        match self.clone() {
            Scheduled::EndCooling(grants) => Command::EndCooling { grants, at: wall_now() },
            Scheduled::EndHolds(holds) => Command::EndHolds { holds, at: wall_now() },
            Scheduled::ForgetLocks(locks) => Command::ForgetLocks { locks },
            Scheduled::Forget(through) => Command::Forget { through },
            Scheduled::Sweep(nodes) => Command::Sweep { nodes, at: wall_now() },
            Scheduled::ForgetHistory(through) => Command::ForgetHistory { through },
            Scheduled::ExpireTokens(tokens) => Command::ExpireTokens { tokens, at: wall_now() },
            Scheduled::Continue => Command::ContinuePendingWork { at: wall_now() },
        }
    }
}

//! A fault of a scenario: its kind, target, time and duration.

use fairhold_types::NodeId;
use std::{fmt, time::Duration};

/// Whom a fault strikes: known when it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    /// The leader at that time; the first node if there is none.
    Leader,
    /// This node.
    Node(NodeId),
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The machine loses its power.
    Crash,
    /// The machine loses its power while something is written and not flushed yet.
    CrashWriting,
    /// While a new leader is elected, a machine loses its power before a vote that it gives is flushed.
    CrashVoting,
    /// A leader that was cut off with entries of its own loses its power while its log is cut, or right after.
    CrashTruncating,
    /// All machines do, at the same moment.
    CrashAll,
    /// The node ends in good order, as at an upgrade.
    Stop,
    /// The machine stops in the middle of whatever it does, and goes on later.
    Pause,
    /// All machines do, as when what they run on is suspended.
    PauseAll,
    /// Nothing passes from and to the machine, clients' requests included.
    Isolate,
    /// Nothing passes between the machine and the others, but clients reach it.
    Apart,
    /// The machine is heard and hears nothing.
    Deaf,
    /// The machine hears and is not heard.
    Mute,
    /// Nothing passes between the machine and one other: a bridge of the third is left.
    Bridge,
    /// All connections between the machine and the others break once.
    Breaks,
    /// Every flush takes long.
    SlowDisk,
    /// A flush fails.
    DiskError,
    /// A flush fails for want of space.
    DiskFull,
    /// The leadership is handed to another node.
    HandOver,
    /// The machine starts with an empty disk in place of its own.
    WrongDisk,
    /// A follower's disk is as it was some seconds ago, as somebody makes it who puts a backup back.
    OlderDisk,
    /// A leader is cut off with all answers about a log entry under way; they arrive after an election, one by one.
    LateAnswers,
    /// All machines lose their power, and start with other addresses, of which every node is told.
    Moved,
}

impl FaultKind {
    /// As it is counted.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::CrashWriting => "crash in the middle of a flush",
            FaultKind::CrashVoting => "crash in the middle of a vote",
            FaultKind::CrashTruncating => "crash at a cut of the log",
            FaultKind::CrashAll => "crash of all",
            FaultKind::Stop => "stop in good order",
            FaultKind::Pause => "pause",
            FaultKind::PauseAll => "pause of all",
            FaultKind::Isolate => "isolation",
            FaultKind::Apart => "isolation from the other nodes alone",
            FaultKind::Deaf => "one-way cut, deaf",
            FaultKind::Mute => "one-way cut, mute",
            FaultKind::Bridge => "cut of a pair",
            FaultKind::Breaks => "broken connections",
            FaultKind::SlowDisk => "slow disk",
            FaultKind::DiskError => "disk error",
            FaultKind::DiskFull => "disk full",
            FaultKind::HandOver => "hand-over of the leadership",
            FaultKind::WrongDisk => "start with an empty disk",
            FaultKind::OlderDisk => "a backup in place of the disk",
            FaultKind::LateAnswers => "answers after an election",
            FaultKind::Moved => "other addresses",
        }
    }

    /// All that a story's faults are drawn from: `Moved` comes in addition.
    pub(crate) const DRAWN: [FaultKind; 21] = [
        FaultKind::Crash,
        FaultKind::CrashWriting,
        FaultKind::CrashVoting,
        FaultKind::CrashTruncating,
        FaultKind::CrashAll,
        FaultKind::Stop,
        FaultKind::Pause,
        FaultKind::PauseAll,
        FaultKind::Isolate,
        FaultKind::Apart,
        FaultKind::Deaf,
        FaultKind::Mute,
        FaultKind::Bridge,
        FaultKind::Breaks,
        FaultKind::SlowDisk,
        FaultKind::DiskError,
        FaultKind::DiskFull,
        FaultKind::HandOver,
        FaultKind::WrongDisk,
        FaultKind::OlderDisk,
        FaultKind::LateAnswers,
    ];
}

/// A fault: what, whom, from when, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) whom: Whom,
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} for {:?}: {} of {:?}", self.at, self.lasts, self.kind.name(), self.whom)
    }
}

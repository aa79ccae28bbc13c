//! A fault of a story: what strikes whom, when, and for how long.

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
pub(crate) enum Kind {
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

impl Kind {
    /// As it is counted.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Crash => "crash",
            Kind::CrashWriting => "crash in the middle of a flush",
            Kind::CrashVoting => "crash in the middle of a vote",
            Kind::CrashTruncating => "crash at a cut of the log",
            Kind::CrashAll => "crash of all",
            Kind::Stop => "stop in good order",
            Kind::Pause => "pause",
            Kind::PauseAll => "pause of all",
            Kind::Isolate => "isolation",
            Kind::Apart => "isolation from the other nodes alone",
            Kind::Deaf => "one-way cut, deaf",
            Kind::Mute => "one-way cut, mute",
            Kind::Bridge => "cut of a pair",
            Kind::Breaks => "broken connections",
            Kind::SlowDisk => "slow disk",
            Kind::DiskError => "disk error",
            Kind::DiskFull => "disk full",
            Kind::HandOver => "hand-over of the leadership",
            Kind::WrongDisk => "start with an empty disk",
            Kind::OlderDisk => "a backup in place of the disk",
            Kind::LateAnswers => "answers after an election",
            Kind::Moved => "other addresses",
        }
    }

    /// All that a story's faults are drawn from: `Moved` comes in addition.
    pub(crate) const DRAWN: [Kind; 21] = [
        Kind::Crash,
        Kind::CrashWriting,
        Kind::CrashVoting,
        Kind::CrashTruncating,
        Kind::CrashAll,
        Kind::Stop,
        Kind::Pause,
        Kind::PauseAll,
        Kind::Isolate,
        Kind::Apart,
        Kind::Deaf,
        Kind::Mute,
        Kind::Bridge,
        Kind::Breaks,
        Kind::SlowDisk,
        Kind::DiskError,
        Kind::DiskFull,
        Kind::HandOver,
        Kind::WrongDisk,
        Kind::OlderDisk,
        Kind::LateAnswers,
    ];
}

/// A fault: what, whom, from when, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) whom: Whom,
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} for {:?}: {} of {:?}", self.at, self.lasts, self.kind.name(), self.whom)
    }
}

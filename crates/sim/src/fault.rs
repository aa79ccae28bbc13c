//! A fault of a scenario: its kind, target, time and duration.

use fairhold_types::NodeId;
use std::{fmt, time::Duration};

/// The target of a fault, resolved when the fault begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultTarget {
    /// The leader at that time; node 1 if there is none.
    Leader,
    /// This node.
    Node(NodeId),
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The machine loses power.
    Crash,
    /// The machine loses power while a write is not flushed.
    CrashWriting,
    /// During an election, a machine loses power before its vote is flushed.
    CrashVoting,
    /// A partitioned leader with its own entries loses power while its log is truncated, or right after.
    CrashTruncating,
    /// All machines lose power at the same moment.
    CrashAll,
    /// The node shuts down gracefully, as for an upgrade.
    Stop,
    /// The machine stops wherever it is, and continues later.
    Pause,
    /// All machines pause, as when their host is suspended.
    PauseAll,
    /// The machine is partitioned from everything, clients included.
    Isolate,
    /// The machine is partitioned from the other machines. Clients reach it.
    IsolateFromPeers,
    /// Messages from the machine arrive, messages to it do not.
    CutInbound,
    /// Messages to the machine arrive, messages from it do not.
    CutOutbound,
    /// The machine and one other are partitioned. A third connects both.
    CutPair,
    /// All connections between the machine and the others break once.
    BreakConnections,
    /// Every flush is slow.
    SlowDisk,
    /// A flush fails.
    DiskError,
    /// Every flush fails: the disk is full.
    DiskFull,
    /// The leader hands over to another node.
    HandOver,
    /// The machine starts with an empty disk instead of its own.
    WrongDisk,
    /// A follower restarts with its disk of some seconds ago, as if an operator restored a backup.
    OlderDisk,
    /// A leader is partitioned while all answers to a log entry are in flight. They arrive after an election, one at a
    /// time.
    LateAnswers,
    /// All machines lose power and restart with new addresses, which every node receives.
    ChangeAddresses,
    /// The node restarts with the other program: a newer one that supports the next cluster version, or the older one
    /// again while the cluster still has its version.
    ChangeProgram,
    /// The leader loses power while the voters are joint, so that another one must end the change.
    CrashChanging,
}

impl FaultKind {
    /// Its name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::CrashWriting => "crash during a flush",
            FaultKind::CrashVoting => "crash during a vote",
            FaultKind::CrashTruncating => "crash at a log truncation",
            FaultKind::CrashAll => "crash of all",
            FaultKind::Stop => "graceful stop",
            FaultKind::Pause => "pause",
            FaultKind::PauseAll => "pause of all",
            FaultKind::Isolate => "isolation",
            FaultKind::IsolateFromPeers => "isolation from the other nodes only",
            FaultKind::CutInbound => "one-way partition, inbound",
            FaultKind::CutOutbound => "one-way partition, outbound",
            FaultKind::CutPair => "partition of a pair",
            FaultKind::BreakConnections => "broken connections",
            FaultKind::SlowDisk => "slow disk",
            FaultKind::DiskError => "disk error",
            FaultKind::DiskFull => "disk full",
            FaultKind::HandOver => "hand-over of the leadership",
            FaultKind::WrongDisk => "start with an empty disk",
            FaultKind::OlderDisk => "start with a backup of the disk",
            FaultKind::LateAnswers => "late answers",
            FaultKind::ChangeAddresses => "changed addresses",
            FaultKind::ChangeProgram => "another program",
            FaultKind::CrashChanging => "crash during a change of the voters",
        }
    }

    /// The kinds that a plan draws from. `ChangeAddresses`, `ChangeProgram` and `CrashChanging` are
    /// added separately.
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
        FaultKind::IsolateFromPeers,
        FaultKind::CutInbound,
        FaultKind::CutOutbound,
        FaultKind::CutPair,
        FaultKind::BreakConnections,
        FaultKind::SlowDisk,
        FaultKind::DiskError,
        FaultKind::DiskFull,
        FaultKind::HandOver,
        FaultKind::WrongDisk,
        FaultKind::OlderDisk,
        FaultKind::LateAnswers,
    ];
}

/// A fault: its kind, target, start and duration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) target: FaultTarget,
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} for {:?}: {} of {:?}", self.at, self.lasts, self.kind.name(), self.target)
    }
}

//! The names of the alarms, and how long something must last until an alarm is raised or gone.

use fairhold_types::Timing;
use std::time::Duration;

/// An alarm that a node can raise.
///
/// A new one needs a rule in `alarms/rules.rs`, one for Prometheus in `deploy/prometheus/` with its two tests, and its
/// row in `docs/alarms.md`. Tests name what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmName {
    /// The disk fills up.
    Disk,
    /// The disk is slow.
    DiskSlow,
    /// The process is short of memory.
    Memory,
    /// The state has nearly used up its budget.
    State,
    /// One more failure stops the service.
    MajorityAtRisk,
    /// The service has stopped.
    NoQuorum,
    /// A member is far behind.
    MemberBehind,
    /// Nodes have different states.
    Divergence,
    /// A join makes no progress.
    JoinStuck,
    /// The timing profile does not suit the round trips.
    Timing,
    /// The configuration lists a node that is no member.
    MembersDiffer,
    /// An upgrade was not finalized.
    UpgradeOpen,
    /// The newest scheduled backup is too old.
    BackupOld,
    /// A certificate is to be renewed.
    Certificate,
    /// The audit log loses entries.
    Audit,
}

const SECOND: Duration = Duration::from_secs(1);
const TEN_SECONDS: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

impl AlarmName {
    /// All of them, in the order of their list.
    pub const ALL: [AlarmName; 15] = [
        AlarmName::Disk,
        AlarmName::DiskSlow,
        AlarmName::Memory,
        AlarmName::State,
        AlarmName::MajorityAtRisk,
        AlarmName::NoQuorum,
        AlarmName::MemberBehind,
        AlarmName::Divergence,
        AlarmName::JoinStuck,
        AlarmName::Timing,
        AlarmName::MembersDiffer,
        AlarmName::UpgradeOpen,
        AlarmName::BackupOld,
        AlarmName::Certificate,
        AlarmName::Audit,
    ];

    /// The name in answers and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AlarmName::Disk => "disk",
            AlarmName::DiskSlow => "disk_slow",
            AlarmName::Memory => "memory",
            AlarmName::State => "state",
            AlarmName::MajorityAtRisk => "majority_at_risk",
            AlarmName::NoQuorum => "no_quorum",
            AlarmName::MemberBehind => "member_behind",
            AlarmName::Divergence => "divergence",
            AlarmName::JoinStuck => "join_stuck",
            AlarmName::Timing => "timing",
            AlarmName::MembersDiffer => "members_differ",
            AlarmName::UpgradeOpen => "upgrade_open",
            AlarmName::BackupOld => "backup_old",
            AlarmName::Certificate => "certificate",
            AlarmName::Audit => "audit",
        }
    }

    /// How long its condition must hold without a break until it is raised.
    pub(crate) fn raised_after(self, timing: Timing) -> Duration {
        match self {
            AlarmName::MajorityAtRisk | AlarmName::NoQuorum => silence_max(timing),
            AlarmName::MemberBehind | AlarmName::Timing | AlarmName::MembersDiffer => MINUTE,
            AlarmName::UpgradeOpen => WEEK,
            AlarmName::Disk
            | AlarmName::DiskSlow
            | AlarmName::Memory
            | AlarmName::State
            | AlarmName::Divergence
            | AlarmName::JoinStuck
            | AlarmName::BackupOld
            | AlarmName::Certificate
            | AlarmName::Audit => Duration::ZERO,
        }
    }

    /// How long its condition must be absent without a break until it is gone.
    pub(crate) fn gone_after(self) -> Duration {
        match self {
            AlarmName::MajorityAtRisk | AlarmName::NoQuorum => SECOND,
            AlarmName::Timing | AlarmName::DiskSlow => MINUTE,
            AlarmName::Audit => TEN_SECONDS,
            AlarmName::Disk
            | AlarmName::Memory
            | AlarmName::State
            | AlarmName::MemberBehind
            | AlarmName::Divergence
            | AlarmName::JoinStuck
            | AlarmName::MembersDiffer
            | AlarmName::UpgradeOpen
            | AlarmName::BackupOld
            | AlarmName::Certificate => Duration::ZERO,
        }
    }
}

/// A member that has acknowledged nothing for longer does not reach the leader, and a node that hears from
/// no leader for longer has missed several elections.
pub(crate) fn silence_max(timing: Timing) -> Duration {
    let (_, longer) = timing.election_timeouts();
    (longer * 4).max(SECOND * 2)
}

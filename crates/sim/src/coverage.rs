//! Coverage: counts the faults and paths of a run. A fault that never took effect, or a path that was never taken,
//! tested nothing.

use crate::fault::FaultKind;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Faults that no plan lists: they come from the network conditions and the clients.
const OTHER_FAULTS: [&str; 5] = ["connection broke", "client hung up", "client paused", "client vanished", "disk destroyed"];

/// A path that few runs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Probe {
    /// A crash lost unflushed writes.
    UnflushedLost,
    /// A crash lost no unflushed write.
    UnflushedKept,
    /// A log was truncated because another leader's entries replaced its own.
    LogTruncated,
    /// The log behind a snapshot was purged.
    LogPurged,
    /// A snapshot was written: the node's own or a leader's.
    SnapshotSaved,
    /// A snapshot replaced the state of a running node.
    StateReplaced,
    /// A node refused a connection of another one.
    PeerRefused,
    /// A partition delayed a message, which arrived after it.
    HeldUpAndDelivered,
    /// A message arrived twice.
    Duplicated,
    /// A leader was elected.
    Elected,
    /// A session expired.
    SessionExpired,
    /// A lock delay began.
    Cooling,
    /// A call had an unknown outcome.
    OutcomeUnknown,
    /// A call certainly had no effect.
    NotDone,
    /// A retried acquire found its grant ended.
    GrantGone,
    /// A lock passed to a client that had waited.
    HandedOver,
    /// A write was refused because its fence was stale.
    FenceStale,
    /// A watch was ended, or could not resume, because events were compacted.
    WatchCompacted,
    /// The connection of a watch broke.
    WatchBroken,
    /// A watch ended because its server shut down gracefully.
    WatchSentAway,
    /// A node with an empty disk ended on its own.
    WipedMemberGone,
    /// A node with an older disk ended on its own.
    LostEntriesSeen,
    /// A request was refused because the state was full.
    StateFull,
    /// A grant was downgraded.
    Downgraded,
    /// A grant was upgraded after a wait.
    Upgraded,
    /// A grant was upgraded at once.
    UpgradedAtOnce,
    /// An upgrade was refused.
    UpgradeRefused,
    /// The ttl of a grant was changed.
    Retimed,
    /// A batch with two calls for the same id was processed.
    BatchWithOneIdTwice,
    /// One request acquired several locks.
    MultiLockHeld,
    /// A request queued without staying open; its grant was held later.
    QueuedWithoutRequest,
    HeldAfterQueued,
    /// A leader proclaimed another value.
    Proclaimed,
    /// A transaction under two locks ran its `then` branch, or its `else` branch.
    Transacted,
    TransactedElse,
    /// An administrator set a limit, a maximum hold time, a maximum number of waiters.
    LimitSet,
    HoldBounded,
    WaitersBounded,
    /// An administrator broke a lock, revoked it, or ended a session; and a client lost a grant because of it.
    Broke,
    Revoked,
    SessionEnded,
    GrantBroken,
    /// A setting of an administrator refused a client.
    LimitMismatch,
    QueueFull,
    /// A second copy of a request arrived: before its outcome was known, and after.
    Echo,
    EchoOfSettled,
    /// A deposed leader received a read and a keepalive after another leader had acknowledged a write.
    DeposedAsked,
    /// A session with hundreds of grants and nodes was ended.
    HoardedSessionEnded,
    /// A sequential node was created.
    SequentialCreated,
    /// A sequential node was deleted.
    SequentialDeleted,
    /// A cluster's version was raised; before that, a member that does not support it stood in the way.
    UpgradeFinalized,
    UpgradeBlocked,
    /// A node ended because its program does not support the cluster's version.
    OlderProgramGone,
    /// A change of members was refused because the cluster's version was too old.
    MembersNeedUpgrade,
    /// A repeated request for a join token got its number without the token.
    TokenShownOnce,
    /// A second machine with a used join token was refused.
    TokenRefused,
    /// A machine was admitted, and got an id.
    Admitted,
    /// A machine asked again to join, and got the same id.
    JoinRepeated,
    /// A machine was admitted, and never started.
    JoinGivenUp,
    /// A node joined and became a voter.
    Promoted,
    /// A node joined as a learner.
    LearnerJoined,
    /// An operator made a learner a voter.
    VoteGiven,
    /// An operator made a voter a learner.
    VoteTaken,
    /// A new node replaced a member.
    Replaced,
    /// A member was removed.
    Removed,
    /// The leader was removed, and another node led.
    LeaderRemoved,
    /// A removal was refused because too few voters would have been healthy.
    RemovalRefused,
    /// A removed node was told, and ended.
    RemovedNodeTold,
    /// A leader ended a change of the voters that another leader began.
    JointEnded,
    /// A standing join token replaced a silent member, and was refused in place of a member that was not silent.
    StandingReplaced,
    StandingRefused,
    /// A standing join token added a voter, and no second one: neither while the first one joined nor after it.
    StandingAdded,
    StandingFull,
    /// A revoked join token was refused.
    TokenRevoked,
    /// A node that was behind admitted a node that it did not know as a member.
    OutsiderAdmitted,
    /// A node was refused soon after its restart, because its process before that may still run.
    DuplicateRefused,
    /// A user lost a right or its token.
    RightTaken,
    /// A user was refused: without the right, without a token of the cluster, and beyond a quota of its tenant.
    RightDenied,
    TokenUnknown,
    QuotaExceeded,
    /// A watch ended because its user lost the right or its token.
    WatchDenied,
    /// Rights were not enforced for a while.
    AccessSwitched,
}

impl Probe {
    /// All rare paths.
    pub(crate) const ALL: [Probe; 82] = [
        Probe::UnflushedLost,
        Probe::UnflushedKept,
        Probe::LogTruncated,
        Probe::LogPurged,
        Probe::SnapshotSaved,
        Probe::StateReplaced,
        Probe::PeerRefused,
        Probe::HeldUpAndDelivered,
        Probe::Duplicated,
        Probe::Elected,
        Probe::SessionExpired,
        Probe::Cooling,
        Probe::OutcomeUnknown,
        Probe::NotDone,
        Probe::GrantGone,
        Probe::HandedOver,
        Probe::FenceStale,
        Probe::WatchCompacted,
        Probe::WatchBroken,
        Probe::WatchSentAway,
        Probe::WipedMemberGone,
        Probe::LostEntriesSeen,
        Probe::StateFull,
        Probe::Downgraded,
        Probe::Upgraded,
        Probe::UpgradedAtOnce,
        Probe::UpgradeRefused,
        Probe::Retimed,
        Probe::BatchWithOneIdTwice,
        Probe::MultiLockHeld,
        Probe::QueuedWithoutRequest,
        Probe::HeldAfterQueued,
        Probe::Proclaimed,
        Probe::Transacted,
        Probe::TransactedElse,
        Probe::LimitSet,
        Probe::HoldBounded,
        Probe::WaitersBounded,
        Probe::Broke,
        Probe::Revoked,
        Probe::SessionEnded,
        Probe::GrantBroken,
        Probe::LimitMismatch,
        Probe::QueueFull,
        Probe::Echo,
        Probe::EchoOfSettled,
        Probe::DeposedAsked,
        Probe::HoardedSessionEnded,
        Probe::SequentialCreated,
        Probe::SequentialDeleted,
        Probe::UpgradeFinalized,
        Probe::UpgradeBlocked,
        Probe::OlderProgramGone,
        Probe::MembersNeedUpgrade,
        Probe::TokenShownOnce,
        Probe::TokenRefused,
        Probe::Admitted,
        Probe::JoinRepeated,
        Probe::JoinGivenUp,
        Probe::Promoted,
        Probe::LearnerJoined,
        Probe::VoteGiven,
        Probe::VoteTaken,
        Probe::Replaced,
        Probe::Removed,
        Probe::LeaderRemoved,
        Probe::RemovalRefused,
        Probe::RemovedNodeTold,
        Probe::JointEnded,
        Probe::StandingReplaced,
        Probe::StandingRefused,
        Probe::StandingAdded,
        Probe::StandingFull,
        Probe::TokenRevoked,
        Probe::OutsiderAdmitted,
        Probe::DuplicateRefused,
        Probe::RightTaken,
        Probe::RightDenied,
        Probe::TokenUnknown,
        Probe::QuotaExceeded,
        Probe::WatchDenied,
        Probe::AccessSwitched,
    ];
}

/// Counts of one run, or of many. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coverage(Arc<Mutex<Counts>>);

#[derive(Debug, Clone, Default)]
struct Counts {
    faults: BTreeMap<&'static str, u64>,
    probes: BTreeMap<Probe, u64>,
    calls: BTreeMap<String, u64>,
    events: BTreeMap<String, u64>,
    /// How often each failpoint was reached, and how often it failed.
    points: BTreeMap<&'static str, (u64, u64)>,
}

impl Coverage {
    /// A fault of this kind took effect.
    pub(crate) fn fault(&self, kind: &'static str) {
        self.with(|counts| *counts.faults.entry(kind).or_default() += 1);
    }

    /// A rare path was taken.
    pub(crate) fn probe(&self, probe: Probe) {
        self.with(|counts| *counts.probes.entry(probe).or_default() += 1);
    }

    /// A failpoint was reached, and failed or not.
    #[cfg(feature = "failpoints")]
    pub(crate) fn point(&self, name: &'static str, fails: bool) {
        self.with(|counts| {
            let count = counts.points.entry(name).or_default();
            *count = (count.0 + 1, count.1 + u64::from(fails));
        });
    }

    /// How often a failpoint failed.
    #[cfg(feature = "failpoints")]
    pub(crate) fn failed(&self, name: &'static str) -> u64 {
        self.with(|counts| counts.points.get(name).map_or(0, |count| count.1))
    }

    /// A change was applied. Only its kind, the first word, is counted.
    pub(crate) fn event(&self, event: &str) {
        let kind = event.split(' ').next().unwrap_or_default();
        self.with(|counts| *counts.events.entry(kind.to_owned()).or_default() += 1);
    }

    /// A client's call was answered.
    pub(crate) fn call(&self, what: String) {
        self.with(|counts| *counts.calls.entry(what).or_default() += 1);
    }

    /// Adds the counts of another run.
    pub(crate) fn add(&self, other: &Coverage) {
        let other = other.with(|counts| counts.clone());
        self.with(|counts| {
            other.faults.into_iter().for_each(|(kind, count)| *counts.faults.entry(kind).or_default() += count);
            other.probes.into_iter().for_each(|(probe, count)| *counts.probes.entry(probe).or_default() += count);
            for (name, (reached, failed)) in other.points {
                let count = counts.points.entry(name).or_default();
                *count = (count.0 + reached, count.1 + failed);
            }
            other.calls.into_iter().for_each(|(what, count)| *counts.calls.entry(what).or_default() += count);
            other.events.into_iter().for_each(|(kind, count)| *counts.events.entry(kind).or_default() += count);
        });
    }

    /// The faults that never took effect, and the rare paths that were never taken. Failpoints are not included: a seed
    /// arms few of them, and each has its own scenarios.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.with(|counts| {
            let faults = Coverage::kinds().filter(|kind| !counts.faults.contains_key(kind)).map(|kind| format!("fault {kind}"));
            let probes = Probe::ALL.into_iter().filter(|probe| !counts.probes.contains_key(probe));
            faults.chain(probes.map(|probe| format!("probe {probe:?}"))).collect()
        })
    }

    fn kinds() -> impl Iterator<Item = &'static str> {
        FaultKind::DRAWN
            .into_iter()
            .chain([FaultKind::ChangeAddresses, FaultKind::ChangeProgram, FaultKind::CrashChanging])
            .map(FaultKind::name)
            .chain(OTHER_FAULTS)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock())
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.with(|counts| counts.clone());
        let kinds: BTreeSet<&str> = Coverage::kinds().chain(counts.faults.keys().copied()).collect();
        for kind in kinds {
            writeln!(f, "fault {kind}: {}", counts.faults.get(kind).unwrap_or(&0))?;
        }
        for probe in Probe::ALL {
            writeln!(f, "probe {probe:?}: {}", counts.probes.get(&probe).unwrap_or(&0))?;
        }
        for (name, (reached, failed)) in counts.points {
            writeln!(f, "failpoint {name}: {failed} of {reached}")?;
        }
        for (kind, count) in counts.events {
            writeln!(f, "event {kind}: {count}")?;
        }
        for (what, count) in counts.calls {
            writeln!(f, "calls {what}: {count}")?;
        }
        Ok(())
    }
}

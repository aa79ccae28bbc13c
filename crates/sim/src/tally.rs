//! Coverage: counts the faults and paths of a run. A fault that never struck, or a path that was never taken, tested nothing.

use crate::fault::FaultKind;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Faults that no plan names: they come with the weather, and with the clients.
const OTHER_FAULTS: [&str; 4] = ["connection broke", "client hung up", "client paused", "client vanished"];

/// A path that few runs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Probe {
    /// A crash took writes that were not flushed.
    UnflushedLost,
    /// A crash left all writes that were not flushed.
    UnflushedKept,
    /// A log was cut because another leader's entries took the place.
    LogTruncated,
    /// The log behind a snapshot was purged.
    LogPurged,
    /// A snapshot was written, one's own or a leader's.
    SnapshotSaved,
    /// A snapshot took the place of a running node's state.
    StateReplaced,
    /// A connection refused a node.
    PeerRefused,
    /// A message was held up by a cut and arrived after it.
    HeldUpAndDelivered,
    /// A message arrived twice.
    Duplicated,
    /// A leadership began.
    Elected,
    /// A session expired.
    SessionExpired,
    /// A lock delay began.
    Cooling,
    /// A call had an unknown outcome.
    OutcomeUnknown,
    /// A call was surely not done.
    SurelyNotDone,
    /// A retried acquire found its grant ended.
    GrantGone,
    /// A lock passed from one client to one who had waited.
    HandedOver,
    /// A write was refused because its fence was stale.
    FenceStale,
    /// A watch was cut off, or could not go on, because events were gone.
    WatchCompacted,
    /// The connection of a watch broke.
    WatchBroken,
    /// A watch ended because its server stopped in good order.
    WatchSentAway,
    /// A node with an empty disk in place of its own went away by itself.
    WipedMemberGone,
    /// A node whose disk had gone back in time went away by itself.
    LostEntriesSeen,
    /// Something was refused because the state was full.
    StateFull,
    /// A grant became shared.
    Downgraded,
    /// A shared grant waited, and became the only one.
    Upgraded,
    /// A shared grant became the only one without waiting.
    UpgradedAtOnce,
    /// A shared grant did not become the only one.
    UpgradeRefused,
    /// A grant got another time to live.
    Retimed,
    /// A batch did what it says with one id twice.
    BatchWithOneIdTwice,
    /// Several locks were held by one request.
    SeveralHeld,
    /// A request queued without staying open, and its grant was held later.
    QueuedWithoutRequest,
    HeldAfterQueued,
    /// A leader proclaimed another value.
    Proclaimed,
    /// A transaction under two locks was done, or what stands under its `else`.
    Transacted,
    TransactedElse,
    /// An administrator set a limit, how long a lock is held, how many may wait.
    LimitSet,
    HoldBounded,
    WaitersBounded,
    /// An administrator broke a lock, asked for it back, ended a session; and somebody lost a grant by that.
    Broke,
    Revoked,
    SessionEnded,
    GrantBroken,
    /// A client was refused because of what an administrator had set.
    LimitMismatch,
    QueueFull,
    /// A second copy of a request arrived: before its outcome was known, and after it was done.
    Echo,
    EchoOfSettled,
    /// A read and a keepalive were asked of a node that believed it led, when another one had acknowledged a write.
    DeposedAsked,
    /// A session that had hundreds of grants and nodes has ended.
    HoardEnded,
    /// A node with a number in its name was made.
    Sown,
    /// It was removed again.
    Pulled,
}

impl Probe {
    /// All of them.
    pub(crate) const ALL: [Probe; 50] = [
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
        Probe::SurelyNotDone,
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
        Probe::SeveralHeld,
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
        Probe::HoardEnded,
        Probe::Sown,
        Probe::Pulled,
    ];
}

/// Counts of one run, or of many. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Clone, Default)]
struct Counts {
    faults: BTreeMap<&'static str, u64>,
    probes: BTreeMap<Probe, u64>,
    calls: BTreeMap<String, u64>,
    events: BTreeMap<String, u64>,
    /// How often a point was reached, and how often it failed.
    points: BTreeMap<&'static str, (u64, u64)>,
}

impl Tally {
    /// A fault of this kind struck.
    pub(crate) fn fault(&self, kind: &'static str) {
        self.with(|counts| *counts.faults.entry(kind).or_default() += 1);
    }

    /// A rare path was taken.
    pub(crate) fn probe(&self, probe: Probe) {
        self.with(|counts| *counts.probes.entry(probe).or_default() += 1);
    }

    /// A point was reached, and failed or not.
    #[cfg(feature = "failpoints")]
    pub(crate) fn point(&self, name: &'static str, fails: bool) {
        self.with(|counts| {
            let count = counts.points.entry(name).or_default();
            *count = (count.0 + 1, count.1 + u64::from(fails));
        });
    }

    /// How often a point failed.
    #[cfg(feature = "failpoints")]
    pub(crate) fn failed(&self, name: &'static str) -> u64 {
        self.with(|counts| counts.points.get(name).map_or(0, |count| count.1))
    }

    /// A change was told of. Only its kind is counted, the first word.
    pub(crate) fn event(&self, event: &str) {
        let kind = event.split(' ').next().unwrap_or_default();
        self.with(|counts| *counts.events.entry(kind.to_owned()).or_default() += 1);
    }

    /// A client's call was answered.
    pub(crate) fn call(&self, what: String) {
        self.with(|counts| *counts.calls.entry(what).or_default() += 1);
    }

    /// Adds another run's.
    pub(crate) fn add(&self, other: &Tally) {
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

    /// Faults that never struck, and rare paths that were never taken. Not the failpoints: a seed has few of them, and each has
    /// stories of its own.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.with(|counts| {
            let faults = Tally::kinds().filter(|kind| !counts.faults.contains_key(kind)).map(|kind| format!("fault {kind}"));
            let probes = Probe::ALL.into_iter().filter(|probe| !counts.probes.contains_key(probe));
            faults.chain(probes.map(|probe| format!("probe {probe:?}"))).collect()
        })
    }

    fn kinds() -> impl Iterator<Item = &'static str> {
        FaultKind::DRAWN.into_iter().chain([FaultKind::Moved]).map(FaultKind::name).chain(OTHER_FAULTS)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.with(|counts| counts.clone());
        let kinds: BTreeSet<&str> = Tally::kinds().chain(counts.faults.keys().copied()).collect();
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

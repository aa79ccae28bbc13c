//! Bugs planted on purpose, one at a time, to check that the tests find them. A product build has none: without the feature
//! `planted`, `has` is a constant `false`, and the code that it guards is not compiled.

/// A bug that can be planted. Its name says what a node does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A fence accepts any token.
    FenceUnchecked,
    /// A token is the revision at which its grant queued, not the one at which it was granted.
    TokenOfTheQueue,
    /// A repeated acquire makes a new grant.
    GrantsAgain,
    /// A repeated write is executed again.
    WritesAgain,
    /// A caller that disconnects ends the grant although a newer attempt has attached to it.
    AbandonsNewerAttempt,
    /// A newcomer that fits is granted although others are waiting.
    OvertakesWaiters,
    /// A semaphore grants one permit too many.
    OnePermitTooMany,
    /// Readers are granted while a writer holds the lock.
    ReadersBesideWriter,
    /// An expired session leaves its ephemeral nodes behind.
    EphemeralsStay,
    /// A snapshot is installed without its sessions' tombstones.
    SnapshotForgetsKeys,
    /// A snapshot is installed without its sessions.
    SnapshotForgetsSessions,
    /// A leader's snapshot is acknowledged but not installed.
    SnapshotIgnored,
    /// A linearizable read does not confirm that the node still leads.
    ReadsWithoutBarrier,
    /// A follower applies an entry's commands in the wrong order.
    AppliesOutOfOrder,
    /// A follower sometimes skips an entry.
    LosesAnEntry,
    /// A member with a new data directory is admitted.
    AdmitsWipedMember,
    /// A node acknowledges a keepalive without confirming that it still leads.
    KeepaliveWithoutProof,
    /// A node ends a session that it found expired as the leader, even if another node leads by now.
    ExpiresByOldLeader,
    /// A new leader gives sessions only a part of their timeout.
    NewLeaderIsImpatient,
    /// A leader that was paused counts the pause against its sessions.
    PauseIsCounted,
    /// A lock delay ends at once.
    DelayEndsAtOnce,
    /// A resumed watch begins one revision too late.
    WatchSkipsOne,
    /// A watch whose events are compacted continues with the events that are left.
    WatchHidesGap,
    /// A watch sends a bookmark before it has sent all events up to it.
    BookmarkTooEarly,
    /// A write is acknowledged before it is flushed.
    AcknowledgesUnflushed,
    /// A vote is given before it is flushed.
    VotesUnflushed,
    /// A crash leaves later entries and not the earlier ones.
    TailWithHoles,
    /// A crash undoes a truncation of the log.
    ForgetsTruncation,
    /// A snapshot is acknowledged before it is flushed.
    SnapshotUnflushed,
    /// A follower's old answer counts as the answer to a later request.
    OldAnswersProveMore,
    /// A node continues although its storage lost entries that it had acknowledged.
    HidesLostEntries,
    /// A learner becomes a voter before it has caught up.
    PromotesTooEarly,
    /// A member is removed although too few of the remaining voters are healthy.
    RemovesUnchecked,
    /// A node that joins gets the id of a removed node.
    JoinReusesId,
    /// A removed node is admitted.
    ForgetsRemovals,
    /// A command of cluster version 2 is made at version 1.
    VersionTooEarly,
    /// A guard that was decided at the newest narrowing of rights is refused.
    MarkRefusesItself,
    /// A new role, binding or token moves the mark of all principals.
    WideningMovesTheMark,
    /// A verdict of the leader needs a guard.
    VerdictNeedsGuard,
    /// A snapshot is installed without the access data.
    SnapshotForgetsAccess,
    /// A snapshot is installed without the audit of administrative acts.
    SnapshotForgetsAudit,
    /// A command passes although rights were narrowed after it was decided.
    OutdatedGuardPasses,
    /// A command without a guard passes although rights are enforced.
    MissingGuardPasses,
    /// A watch is decided when it begins, and never again.
    WatchDecidedOnce,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Bug; 44] = [
        Bug::FenceUnchecked,
        Bug::TokenOfTheQueue,
        Bug::GrantsAgain,
        Bug::WritesAgain,
        Bug::AbandonsNewerAttempt,
        Bug::OvertakesWaiters,
        Bug::OnePermitTooMany,
        Bug::ReadersBesideWriter,
        Bug::EphemeralsStay,
        Bug::SnapshotForgetsKeys,
        Bug::SnapshotForgetsSessions,
        Bug::SnapshotIgnored,
        Bug::ReadsWithoutBarrier,
        Bug::AppliesOutOfOrder,
        Bug::LosesAnEntry,
        Bug::AdmitsWipedMember,
        Bug::KeepaliveWithoutProof,
        Bug::ExpiresByOldLeader,
        Bug::NewLeaderIsImpatient,
        Bug::PauseIsCounted,
        Bug::DelayEndsAtOnce,
        Bug::WatchSkipsOne,
        Bug::WatchHidesGap,
        Bug::BookmarkTooEarly,
        Bug::AcknowledgesUnflushed,
        Bug::VotesUnflushed,
        Bug::TailWithHoles,
        Bug::ForgetsTruncation,
        Bug::SnapshotUnflushed,
        Bug::OldAnswersProveMore,
        Bug::HidesLostEntries,
        Bug::PromotesTooEarly,
        Bug::RemovesUnchecked,
        Bug::JoinReusesId,
        Bug::ForgetsRemovals,
        Bug::VersionTooEarly,
        Bug::MarkRefusesItself,
        Bug::WideningMovesTheMark,
        Bug::VerdictNeedsGuard,
        Bug::SnapshotForgetsAccess,
        Bug::SnapshotForgetsAudit,
        Bug::OutdatedGuardPasses,
        Bug::MissingGuardPasses,
        Bug::WatchDecidedOnce,
    ];
}

#[cfg(feature = "planted")]
mod plot {
    use super::Bug;
    use std::sync::{
        LazyLock,
        atomic::{AtomicU8, Ordering},
    };

    const NONE: u8 = u8::MAX;
    /// Starts with the bug named in the environment, so that any test can run with a bug.
    static PLANTED: LazyLock<AtomicU8> = LazyLock::new(|| {
        let name = std::env::var("FAIRHOLD_PLANTED").unwrap_or_default();
        let named = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
        assert!(named.is_some() || name.is_empty(), "FAIRHOLD_PLANTED: there is no bug {name}");
        AtomicU8::new(named.map_or(NONE, |bug| bug as u8))
    });

    /// Plants a bug in the whole process and removes the one before; `None` only removes.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(NONE, |bug| bug as u8), Ordering::Relaxed);
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn has(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }

    /// Whether the state machine panics at an acquire of this lock, which the environment names. It is not a `Bug` because no
    /// invariant finds it: the tests check that the cluster continues.
    #[must_use]
    pub fn panics(lock: &str) -> bool {
        static LOCK: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("FAIRHOLD_PLANTED_PANIC").ok());
        LOCK.as_deref() == Some(lock)
    }

    /// Whether a node logs each token that it reads, which the environment asks for. It is not a `Bug` because no invariant
    /// finds it: the search for planted secrets does.
    #[must_use]
    pub fn tells_tokens() -> bool {
        static TELLS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FAIRHOLD_PLANTED_LEAK").is_some());
        *TELLS
    }
}

#[cfg(feature = "planted")]
pub use plot::{has, panics, plant, tells_tokens};

/// Whether a node logs each token that it reads: never.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline]
pub const fn tells_tokens() -> bool {
    false
}

/// Whether the state machine panics at an acquire of this lock: never.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline]
pub const fn panics(_: &str) -> bool {
    false
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline]
pub const fn has(_: Bug) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_bug_once_and_no_bug_is_planted_by_default() {
        for (index, bug) in Bug::ALL.into_iter().enumerate() {
            assert_eq!(bug as usize, index);
            assert!(!has(bug) || std::env::var_os("FAIRHOLD_PLANTED").is_some());
        }
    }
}

//! Bugs that are planted on purpose, one at a time, to see whether the tests find them. A product has none: without the feature
//! `planted` every question here is answered with a constant `false`, and what it guards is not compiled.

/// A bug that can be planted. Its name says what a node does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A fence passes whatever its token is.
    FenceUnchecked,
    /// A token is the revision at which its grant queued, not the one at which it was given.
    TokenOfTheQueue,
    /// An acquire that is repeated is a new grant.
    GrantsAgain,
    /// A write that is repeated is done again.
    WritesAgain,
    /// A caller that went away takes the grant from the newer attempt that has attached to it.
    AbandonsNewerAttempt,
    /// A newcomer that fits is granted although others wait.
    OvertakesWaiters,
    /// A semaphore gives out one permit too many.
    OnePermitTooMany,
    /// Readers are let in while a writer holds.
    ReadersBesideWriter,
    /// An expired session leaves its ephemeral nodes behind.
    EphemeralsStay,
    /// A snapshot is taken over without its sessions' names for ended grants.
    SnapshotForgetsKeys,
    /// A snapshot is taken over without its sessions.
    SnapshotForgetsSessions,
    /// A leader's snapshot is acknowledged and not taken over.
    SnapshotIgnored,
    /// A read asks nobody whether its state is the newest.
    ReadsWithoutBarrier,
    /// A follower applies an entry's commands in another order.
    AppliesOutOfOrder,
    /// A follower leaves out an entry now and then.
    LosesAnEntry,
    /// A member with another data directory than it had is admitted.
    AdmitsWipedMember,
    /// A keepalive is acknowledged by a node that only believes that it leads.
    KeepaliveWithoutProof,
    /// The node that led when a session was judged ends it, even if another node leads by now.
    ExpiresByOldLeader,
    /// A new leader gives sessions only a part of their timeout.
    NewLeaderIsImpatient,
    /// A leader that was paused counts the time in which it was deaf.
    PauseIsCounted,
    /// A lock delay ends at once.
    DelayEndsAtOnce,
    /// A watch that goes on begins one revision too late.
    WatchSkipsOne,
    /// A watch whose events are gone goes on with what is there.
    WatchHidesGap,
    /// A watch says that everything was told before it was.
    BookmarkTooEarly,
    /// A write is acknowledged before it is flushed.
    AcknowledgesUnflushed,
    /// A vote is given before it is flushed.
    VotesUnflushed,
    /// A crash leaves later entries and not the earlier ones.
    TailWithHoles,
    /// A cut of the log is not kept over a crash.
    ForgetsTruncation,
    /// A snapshot is acknowledged before it is flushed.
    SnapshotUnflushed,
    /// A follower's old answer counts as one to a request that was sent later.
    OldAnswersProveMore,
    /// A node whose storage has lost what it had acknowledged goes on.
    HidesLostEntries,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 31] = [
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
    /// Begins with the bug that the environment names, so that tests which know nothing of bugs can be run with one.
    static PLANTED: LazyLock<AtomicU8> = LazyLock::new(|| {
        let name = std::env::var("FAIRHOLD_PLANTED").unwrap_or_default();
        let named = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
        assert!(named.is_some() || name.is_empty(), "FAIRHOLD_PLANTED: there is no bug {name}");
        AtomicU8::new(named.map_or(NONE, |bug| bug as u8))
    });

    /// Plants a bug in the whole process, in place of the one before; or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(NONE, |bug| bug as u8), Ordering::Relaxed);
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn has(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }

    /// Whether the machine panics at an acquire of this lock: of that which the environment names. No invariant finds it, so it
    /// is none of `Bug`: what has to be seen is that the cluster goes on.
    #[must_use]
    pub fn panics(lock: &str) -> bool {
        static LOCK: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("FAIRHOLD_PLANTED_PANIC").ok());
        LOCK.as_deref() == Some(lock)
    }
}

#[cfg(feature = "planted")]
pub use plot::{has, panics, plant};

/// Whether the machine panics at an acquire of this lock: never.
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
    fn every_bug_is_among_all_once_and_none_is_planted_by_itself() {
        for (index, bug) in Bug::ALL.into_iter().enumerate() {
            assert_eq!(bug as usize, index);
            assert!(!has(bug) || std::env::var_os("FAIRHOLD_PLANTED").is_some());
        }
    }
}

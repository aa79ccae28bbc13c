//! An attempt of a caller on a grant: its outcome, and its status while the request waits.

use crate::api::GrantView;
use fairhold_state::{State, read::GrantStatus};
use fairhold_types::{EndReason, FencingToken, GrantId, GrantNumber, Revision, SessionNumber, time::WallMillis};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// An attempt after its commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommittedAcquire {
    pub(crate) number: GrantNumber,
    pub(crate) session: SessionNumber,
    /// How often this id was acquired; 1 for a new grant. Only the newest attempt may withdraw or abandon the grant.
    pub(crate) attempt: u64,
    /// The token, if the grant was granted at once.
    pub(crate) token: Option<FencingToken>,
    /// The revision of the commit.
    pub(crate) revision: Revision,
    /// The time in the command.
    pub(crate) at: WallMillis,
}

impl CommittedAcquire {
    /// Whether the grant was held before this attempt: an earlier request may have reported that.
    pub(crate) fn was_held(self) -> bool {
        self.attempt > 1 && self.token.is_some()
    }
}

/// What this request gives up if its caller disconnects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnGrant {
    /// Nothing: the acquire did nothing, or the grant belongs to another request.
    Nothing,
    /// The outcome of the acquire is unknown.
    Unknown,
    /// The grant of this attempt.
    Committed(CommittedAcquire),
}

/// The status of a grant for one attempt.
pub(crate) enum AttemptStatus {
    Waiting,
    Held,
    Ended(EndReason),
    Superseded,
}

pub(crate) fn attempt_status(state: &State, grant: &GrantId, committed: CommittedAcquire) -> AttemptStatus {
    match state.grant(grant) {
        GrantStatus::Live(contender) if contender.attempt_of(grant) > committed.attempt => AttemptStatus::Superseded,
        GrantStatus::Live(contender) if contender.granted_at.is_some() => AttemptStatus::Held,
        GrantStatus::Live(_) => AttemptStatus::Waiting,
        GrantStatus::Ended(reason) => AttemptStatus::Ended(reason),
        // The leader has applied the acquire, but this node has not yet: when it does, it wakes the request.
        GrantStatus::Unknown if state.revision().0 < committed.number.0 => AttemptStatus::Waiting,
        // The state has forgotten the grant, so it ended long ago, for an unknown reason.
        GrantStatus::Unknown => AttemptStatus::Ended(EndReason::Expired),
    }
}

/// How long an anonymous grant lives without a renewal, counted from the last confirmed keepalive.
pub(crate) fn expires_in<RT: AsyncRuntime>(state: &State, view: &GrantView, confirmed_at: RT::Instant) -> Option<Duration> {
    let session = state.session(view.session).filter(|_| view.anonymous)?;
    Some(Duration::from_millis(session.timeout_ms).saturating_sub(RT::Instant::now().saturating_duration_since(confirmed_at)))
}

//! What an acquire came to, and what its request sees of the grant when it looks while it waits.

use fairhold_state::{State, read::GrantStatus};
use fairhold_types::{EndReason, FencingToken, GrantId, GrantNumber, Revision, SessionNumber};

/// A caller's standing, once its acquire is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallerStanding {
    pub(crate) number: GrantNumber,
    pub(crate) session: SessionNumber,
    pub(crate) attempt: u64,
    /// Its token, where it was granted at once.
    pub(crate) token: Option<FencingToken>,
    /// The revision of the answer.
    pub(crate) revision: Revision,
}

impl CallerStanding {
    /// Whether the grant was held before this request was committed: an earlier one may have been answered so.
    pub(crate) fn was_held(self) -> bool {
        self.attempt > 1 && self.token.is_some()
    }
}

/// What came of an acquire.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnGrant {
    /// Nothing stands in a queue because of it, or it stands there for somebody else.
    Nothing,
    /// It may stand there, or come to.
    Unknown,
    /// It stands there.
    Committed(CallerStanding),
}

/// What a waiting request sees of its grant.
pub(crate) enum GrantLook {
    Waiting,
    Held,
    Ended(EndReason),
    Superseded,
}

pub(crate) fn look(state: &State, grant: &GrantId, standing: CallerStanding) -> GrantLook {
    match state.grant(grant) {
        GrantStatus::Live(contender) if contender.attempt_of(grant) > standing.attempt => GrantLook::Superseded,
        GrantStatus::Live(contender) if contender.granted_at.is_some() => GrantLook::Held,
        GrantStatus::Live(_) => GrantLook::Waiting,
        GrantStatus::Ended(reason) => GrantLook::Ended(reason),
        // This node has not applied the acquire yet, which the leader has: it will, and wakes us then.
        GrantStatus::Unknown if state.revision().0 < standing.number.0 => GrantLook::Waiting,
        // Remembered no more, so it ended long ago; how is not known.
        GrantStatus::Unknown => GrantLook::Ended(EndReason::Expired),
    }
}

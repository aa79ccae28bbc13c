//! What an acquire came to, and what its request sees of the grant when it looks while it waits.

use fairhold_state::{State, read::GrantStatus};
use fairhold_types::{EndReason, FencingToken, GrantId, GrantNumber, Revision, SessionNumber};

/// A caller's standing, once its acquire is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) number: GrantNumber,
    pub(crate) session: SessionNumber,
    pub(crate) attempt: u64,
    /// Its token, where it was granted at once.
    pub(crate) token: Option<FencingToken>,
    /// The revision of the answer.
    pub(crate) revision: Revision,
}

impl Standing {
    /// Whether the grant was held before this request was committed: an earlier one may have been answered so.
    pub(crate) fn was_held(self) -> bool {
        self.attempt > 1 && self.token.is_some()
    }
}

/// What came of an acquire.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    /// Nothing stands in a queue because of it, or it stands there for somebody else.
    Nothing,
    /// It may stand there, or come to.
    Unknown,
    /// It stands there.
    Committed(Standing),
}

/// What a waiting request sees of its grant.
pub(crate) enum Look {
    Waiting,
    Held,
    Ended(EndReason),
    Superseded,
}

pub(crate) fn look(state: &State, grant: &GrantId, standing: Standing) -> Look {
    match state.grant(grant) {
        GrantStatus::Live(contender) if contender.attempt_of(grant) > standing.attempt => Look::Superseded,
        GrantStatus::Live(contender) if contender.granted_at.is_some() => Look::Held,
        GrantStatus::Live(_) => Look::Waiting,
        GrantStatus::Ended(reason) => Look::Ended(reason),
        // This node has not applied the acquire yet, which the leader has: it will, and wakes us then.
        GrantStatus::Unknown if state.revision().0 < standing.number.0 => Look::Waiting,
        // Remembered no more, so it ended long ago; how is not known.
        GrantStatus::Unknown => Look::Ended(EndReason::Expired),
    }
}

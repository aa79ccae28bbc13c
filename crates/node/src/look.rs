//! What a waiting request sees of its grant when it looks.

use crate::acquire::Standing;
use fairhold_state::{State, read::GrantStatus};
use fairhold_types::{EndReason, GrantId};

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

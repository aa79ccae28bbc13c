//! When a session expires, as a pure state machine.
//!
//! 1. **Due**: the deadline of the session has passed (`take_due`).
//! 2. **Leadership confirmed**: a read barrier that started after step 1 proves that this node still leads (`confirm`).
//! 3. **Still due at the next tick** (`take_expirable`): a keepalive that arrived in the meantime has moved the
//!    deadline, and so has the tick itself if the process was paused.
//! 4. **Proposed**: the expiry is on its way into the log. The keepalives of the session get no acknowledgement any
//!    more.
//! 5. **Answered** (`answered`): the expiry was committed, or failed. A session that is still alive starts again at
//!    step 1.

use crate::leader::deadlines::Deadlines;
use fairhold_types::SessionNumber;
use std::{collections::BTreeSet, ops::Add, time::Duration};

/// Expiries in flight at a time: each is a separate log entry.
const EXPIRIES_IN_FLIGHT_MAX: usize = 1_024;

/// The deadlines of all sessions, and how far the expiry of each has come.
pub(crate) struct SessionDeadlines<I> {
    deadlines: Deadlines<SessionNumber, I>,
    /// Whether a confirmation of the leadership is in flight.
    is_confirming: bool,
    /// Sessions that were due before a confirmation that succeeded: they expire if they are still due at the next tick.
    confirmed: BTreeSet<SessionNumber>,
    /// Sessions with an expiry that is proposed and not answered yet.
    expiring: BTreeSet<SessionNumber>,
}

/// The effect of a keepalive on a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The deadline moved: the session has this timeout again in full.
    Moved(Duration),
    /// The expiry of the session is in flight.
    Expiring,
    /// The clock does not know the session.
    Unknown,
}

impl<I: Copy + Ord + Add<Duration, Output = I>> SessionDeadlines<I> {
    pub(crate) fn new() -> Self {
        SessionDeadlines {
            deadlines: Deadlines::new(),
            is_confirming: false,
            confirmed: BTreeSet::new(),
            expiring: BTreeSet::new(),
        }
    }

    /// A session was opened, or got another timeout.
    pub(crate) fn insert(&mut self, session: SessionNumber, timeout: Duration, now: I) {
        self.deadlines.insert(session, timeout, now);
    }

    /// A session has ended.
    pub(crate) fn remove(&mut self, session: SessionNumber) {
        self.deadlines.remove(session);
    }

    /// A keepalive arrived.
    pub(crate) fn touch(&mut self, session: SessionNumber, now: I) -> Touched {
        if self.is_expiring(session) {
            return Touched::Expiring;
        }
        self.deadlines.touch(session, now).map_or(Touched::Unknown, Touched::Moved)
    }

    /// The current deadline of a session, and its timeout.
    pub(crate) fn deadline(&self, session: SessionNumber) -> Option<(I, Duration)> {
        self.deadlines.deadline(&session)
    }

    /// Whether an expiry of the session is proposed and not answered yet.
    pub(crate) fn is_expiring(&self, session: SessionNumber) -> bool {
        self.expiring.contains(&session)
    }

    /// The sessions that are due, to be confirmed next; none while a confirmation is in flight.
    pub(crate) fn take_due(&mut self, now: I) -> Vec<SessionNumber> {
        if self.is_confirming {
            return Vec::new();
        }
        let due = self.deadlines.due(now).into_iter();
        let due: Vec<_> = due.filter(|session| !self.expiring.contains(session)).collect();
        self.is_confirming = !due.is_empty();
        due
    }

    /// The confirmation for these sessions has succeeded or failed.
    pub(crate) fn confirm(&mut self, due: Vec<SessionNumber>, leads: bool) {
        self.is_confirming = false;
        if leads {
            self.confirmed.extend(due);
        }
    }

    /// The confirmed sessions that are still due, as many as may be in flight. The others become due again.
    pub(crate) fn take_expirable(&mut self, now: I) -> Vec<SessionNumber> {
        let room = EXPIRIES_IN_FLIGHT_MAX.saturating_sub(self.expiring.len());
        let confirmed = std::mem::take(&mut self.confirmed).into_iter();
        let expirable: Vec<_> = confirmed.filter(|session| self.deadlines.is_due(*session, now)).take(room).collect();
        self.expiring.extend(expirable.iter().copied());
        expirable
    }

    /// The expiry of a session was answered, or has failed.
    pub(crate) fn answered(&mut self, session: SessionNumber) {
        self.expiring.remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_clock::AtOffset;

    const TIMEOUT: Duration = Duration::from_secs(5);
    const LATE: AtOffset = AtOffset(6);

    fn sessions(count: usize) -> SessionDeadlines<AtOffset> {
        let mut sessions = SessionDeadlines::new();
        (0..count as u64).for_each(|number| sessions.insert(SessionNumber(number), TIMEOUT, AtOffset(0)));
        sessions
    }

    fn expire(sessions: &mut SessionDeadlines<AtOffset>) -> Vec<SessionNumber> {
        let due = sessions.take_due(LATE);
        sessions.confirm(due, true);
        sessions.take_expirable(LATE)
    }

    #[test]
    fn a_limited_number_of_expiries_is_in_flight_at_a_time() {
        let mut sessions = sessions(EXPIRIES_IN_FLIGHT_MAX + 1);
        let first = expire(&mut sessions);
        assert_eq!(first.len(), EXPIRIES_IN_FLIGHT_MAX);
        assert_eq!(expire(&mut sessions), [], "there is no room for another one");
        sessions.answered(first[0]);
        assert_eq!(expire(&mut sessions).len(), 1);
    }

    #[test]
    fn a_session_does_not_expire_without_a_confirmation_or_after_a_late_keepalive() {
        let mut sessions = sessions(1);
        let due = sessions.take_due(LATE);
        assert_eq!(due.len(), 1);
        assert_eq!(sessions.take_due(LATE), [], "a confirmation is in flight");
        sessions.confirm(due, false);
        assert_eq!(sessions.take_expirable(LATE), [], "this node may not lead any more");
        let due = sessions.take_due(LATE);
        assert_eq!(sessions.touch(SessionNumber(0), LATE), Touched::Moved(TIMEOUT));
        sessions.confirm(due, true);
        assert_eq!(sessions.take_expirable(LATE), [], "it has its full timeout again");
    }

    #[test]
    fn a_session_that_is_expiring_cannot_be_kept_alive() {
        let mut sessions = sessions(1);
        assert_eq!(expire(&mut sessions), [SessionNumber(0)]);
        assert_eq!(sessions.touch(SessionNumber(0), LATE), Touched::Expiring);
        sessions.answered(SessionNumber(0));
        assert_eq!(sessions.touch(SessionNumber(0), LATE), Touched::Moved(TIMEOUT));
    }
}

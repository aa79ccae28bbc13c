//! A grant that expires while its session is alive was held for its full maximum time.

use super::invariant::Invariant;
use crate::facts::{Applied, Physics};
use fairhold_state::{State, command::Event};
use fairhold_types::{EndReason, GrantNumber, SessionNumber};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub(crate) struct Bounds {
    rate_max: u64,
    /// Until when each grant may be held at least.
    bounded: BTreeMap<GrantNumber, (SessionNumber, Duration)>,
    /// The session of each grant, and the expired sessions. A session with many grants ends before them: they follow in
    /// pieces.
    sessions: BTreeMap<GrantNumber, SessionNumber>,
    expired: BTreeSet<SessionNumber>,
}

/// The grants that ended by their maximum hold time: they expired, but their session did not.
pub(super) fn ended_by_a_bound(events: &[Event]) -> impl Iterator<Item = GrantNumber> + '_ {
    let expired = events.iter().any(|event| matches!(event, Event::SessionExpired { .. }));
    let bounded = events.iter().filter_map(|event| {
        if let Event::Ended { grant, reason: EndReason::Expired, .. } | Event::Cooling { grant, .. } = event {
            Some(*grant)
        } else {
            None
        }
    });
    bounded.filter(move |_| !expired)
}

impl Bounds {
    pub(crate) fn new(physics: Physics) -> Bounds {
        Bounds { rate_max: physics.rate_max, bounded: BTreeMap::new(), sessions: BTreeMap::new(), expired: BTreeSet::new() }
    }

    fn granted(&mut self, grant: GrantNumber, at: Duration, state: &State) {
        if let Some(contender) = state.contender(grant) {
            self.sessions.insert(grant, contender.session);
            // An upgrade restarts the time.
            match contender.hold_ms {
                Some(hold_ms) => {
                    let until = at + Duration::from_millis(hold_ms * 1_000 / self.rate_max);
                    self.bounded.insert(grant, (contender.session, until));
                }
                None => drop(self.bounded.remove(&grant)),
            }
        }
    }

    fn ended(&self, grant: GrantNumber, at: Duration) -> Result<(), String> {
        if self.sessions.get(&grant).is_some_and(|session| self.expired.contains(session)) {
            return Ok(());
        }
        match self.bounded.get(&grant) {
            Some((_, until)) if at >= *until => Ok(()),
            Some((_, until)) => Err(format!("#{grant} was ended at {at:?}, but may be held until {until:?}")),
            None => Err(format!("#{grant} was ended at {at:?}, although its session is alive and it has no maximum hold time")),
        }
    }
}

impl Invariant for Bounds {
    fn name(&self) -> &'static str {
        "holds last as long as they may"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        ended_by_a_bound(applied.events).try_for_each(|grant| self.ended(grant, applied.at))?;
        for event in applied.events {
            if let Event::SessionExpired { session } = event {
                self.expired.insert(*session);
            }
            if let Event::Granted { grant, .. } = event {
                self.granted(*grant, applied.at, applied.state);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::LockName;

    #[test]
    fn a_hold_that_ends_before_its_bound_or_without_one_is_found() {
        let mut bounds = Bounds::new(Physics { rate_max: 1_000 });
        bounds.bounded.insert(GrantNumber(3), (SessionNumber(3), Duration::from_secs(5)));
        assert!(bounds.ended(GrantNumber(3), Duration::from_secs(5)).is_ok());
        assert!(bounds.ended(GrantNumber(3), Duration::from_secs(4)).is_err());
        assert!(bounds.ended(GrantNumber(4), Duration::from_secs(5)).is_err());
    }

    #[test]
    fn a_grant_that_ends_after_its_session_did_not_reach_its_bound() {
        let mut bounds = Bounds::new(Physics { rate_max: 1_000 });
        bounds.sessions.insert(GrantNumber(3), SessionNumber(2));
        assert!(bounds.ended(GrantNumber(3), Duration::from_secs(4)).is_err());
        bounds.expired.insert(SessionNumber(2));
        assert!(bounds.ended(GrantNumber(3), Duration::from_secs(4)).is_ok());
    }

    #[test]
    fn a_grant_that_ends_with_its_session_did_not_reach_its_bound() {
        let (lock, grant, session) = (LockName::parse("a").unwrap(), GrantNumber(3), SessionNumber(3));
        let ended = Event::Ended { lock, grant, session, reason: EndReason::Expired };
        assert_eq!(ended_by_a_bound(std::slice::from_ref(&ended)).collect::<Vec<_>>(), [grant]);
        assert_eq!(ended_by_a_bound(&[ended, Event::SessionExpired { session }]).count(), 0);
    }
}

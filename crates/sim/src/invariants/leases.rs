//! A session never ends sooner than its full timeout after an acknowledged renewal, unless its client lets go of it.
//!
//! The timeout runs on the leader's clock. Where that may be fast, as much less true time has to pass.

use super::Invariant;
use crate::oracle::{Applied, Fact, Physics};
use fairhold_state::command::Event;
use fairhold_types::SessionNumber;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub(crate) struct Leases {
    rate_max: u64,
    /// Until when each session lives at least.
    lives: BTreeMap<SessionNumber, Duration>,
    expired: BTreeMap<SessionNumber, Duration>,
    let_go: BTreeSet<SessionNumber>,
}

impl Leases {
    pub(crate) fn new(physics: Physics) -> Leases {
        Leases { rate_max: physics.rate_max, lives: BTreeMap::new(), expired: BTreeMap::new(), let_go: BTreeSet::new() }
    }

    fn expires(&mut self, session: SessionNumber, at: Duration) -> Result<(), String> {
        self.expired.insert(session, at);
        self.compare(session)
    }

    fn renewed(&mut self, session: SessionNumber, sent: Duration, ttl: Duration) -> Result<(), String> {
        let rate = u32::try_from(self.rate_max).unwrap_or(u32::MAX);
        let until = sent + ttl * 1_000 / rate;
        let known = self.lives.entry(session).or_default();
        *known = until.max(*known);
        self.compare(session)
    }

    fn compare(&self, session: SessionNumber) -> Result<(), String> {
        match (self.lives.get(&session), self.expired.get(&session)) {
            (Some(until), Some(at)) if at < until => {
                Err(format!("session {session} ended at {at:?}, and a renewal was acknowledged that reaches until {until:?}"))
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

impl Invariant for Leases {
    fn name(&self) -> &'static str {
        "sessions live as long as they were told"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::SessionExpired { session } = event {
                self.expires(*session, applied.at)?;
            }
            if let Event::SessionClosed { session } = event
                && !self.let_go.contains(session)
            {
                self.expires(*session, applied.at)?;
            }
        }
        Ok(())
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Renewed { session, sent, ttl } => self.renewed(*session, *sent, *ttl),
            Fact::LettingGo { session } => {
                self.let_go.insert(*session);
                Ok(())
            }
            Fact::Answered { .. }
            | Fact::Wrote { .. }
            | Fact::Read { .. }
            | Fact::Held { .. }
            | Fact::Fenced { .. }
            | Fact::Believed { .. }
            | Fact::WatchBegan { .. }
            | Fact::WatchTold { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_is_found_whether_the_renewal_is_told_before_or_after_it() {
        let (session, second) = (SessionNumber(1), Duration::from_secs(1));
        let mut leases = Leases::new(Physics { rate_max: 1_000 });
        assert!(leases.renewed(session, second, second * 3).is_ok());
        assert!(leases.expires(session, second * 3).is_err());
        let mut leases = Leases::new(Physics { rate_max: 1_000 });
        assert!(leases.expires(session, second * 3).is_ok());
        assert!(leases.renewed(session, second, second * 3).is_err());
        let mut leases = Leases::new(Physics { rate_max: 2_000 });
        assert!(leases.renewed(session, second, second * 3).is_ok());
        assert!(leases.expires(session, second * 3).is_ok(), "a fast clock may end it sooner");
    }
}

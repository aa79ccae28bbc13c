//! A session never ends before its full timeout after an acknowledged renewal, unless its client closes it.
//!
//! The timeout runs on the leader's clock. If that clock may be fast, correspondingly less true time must pass. The
//! time of a pause, in which the leader receives no renewals, does not count if it still leads afterwards.

use super::{bounds::ended_by_a_bound, invariant::Invariant};
use crate::{
    facts::{Applied, Fact, Physics},
    host::TRUE_RATE,
};
use fairhold_state::State;
use fairhold_state::command::Event;
use fairhold_types::{EndReason, SessionNumber};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The leader checks its clock this often, and twice before a session ends. Shorter pauses do not count.
const TICKS: Duration = Duration::from_millis(350);

/// A pause of a leader: its end, its length, and until when it still led.
struct Pause {
    until: Duration,
    paused_for: Duration,
    led_until: Duration,
}

/// An acknowledged renewal: when it was sent, and until when it lasts.
type Renewed = (Duration, Duration);

pub(crate) struct Leases {
    rate_max: u64,
    /// The minimum life of each session.
    lives: BTreeMap<SessionNumber, Renewed>,
    expired: BTreeMap<SessionNumber, Duration>,
    closing: BTreeSet<SessionNumber>,
    /// The sessions that expired by the leader's clock.
    timed_out: BTreeMap<SessionNumber, Duration>,
    pauses: Vec<Pause>,
}

/// Whether an administrator or a maximum hold time ended a grant, and with it its own session.
fn ended_otherwise(events: &[Event]) -> bool {
    let broken = events.iter().any(|event| matches!(event, Event::Ended { reason: EndReason::Broken, .. }));
    broken || ended_by_a_bound(events).next().is_some()
}

impl Leases {
    pub(crate) fn new(physics: Physics) -> Leases {
        Leases {
            rate_max: physics.rate_max,
            lives: BTreeMap::new(),
            expired: BTreeMap::new(),
            closing: BTreeSet::new(),
            timed_out: BTreeMap::new(),
            pauses: Vec::new(),
        }
    }

    fn expires(&mut self, session: SessionNumber, at: Duration) -> Result<(), String> {
        self.expired.insert(session, at);
        self.compare(session)
    }

    fn renewed(&mut self, session: SessionNumber, sent: Duration, ttl: Duration) -> Result<(), String> {
        let rate = u32::try_from(self.rate_max).unwrap_or(u32::MAX);
        let until = sent + ttl * 1_000 / rate;
        let known = self.lives.entry(session).or_default();
        if until > known.1 {
            *known = (sent, until);
        }
        self.compare(session)
    }

    /// A change of the timeout was requested: from then on the session may end by the new timeout.
    fn retimed(&mut self, session: SessionNumber, sent: Duration, ttl: Duration) {
        let rate = u32::try_from(self.rate_max).unwrap_or(u32::MAX);
        if let Some(known) = self.lives.get_mut(&session) {
            known.1 = known.1.min(sent + ttl * 1_000 / rate);
        }
    }

    /// If a leader was paused after a renewal and before its end, it ends the session later by that pause.
    fn compare_with_pauses(&self) -> Result<(), String> {
        for (session, at) in &self.timed_out {
            let Some((sent, until)) = self.lives.get(session) else { continue };
            let overlaps = |sleep: &&Pause| {
                let from = sleep.until.saturating_sub(sleep.paused_for);
                *sent < from && from <= *until && sleep.until <= *at && *at <= sleep.led_until
            };
            if let Some(sleep) = self.pauses.iter().find(|sleep| overlaps(sleep) && *at + TICKS < *until + sleep.paused_for) {
                return Err(format!(
                    "session {session} ended at {at:?}: it was renewed until {until:?}, its leader paused for {:?} until {:?}",
                    sleep.paused_for, sleep.until
                ));
            }
        }
        Ok(())
    }

    fn compare(&self, session: SessionNumber) -> Result<(), String> {
        match (self.lives.get(&session), self.expired.get(&session)) {
            (Some((_, until)), Some(at)) if at < until => {
                Err(format!("session {session} ended at {at:?}, but an acknowledged renewal lasts until {until:?}"))
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
                self.timed_out.insert(*session, applied.at);
                self.expires(*session, applied.at)?;
            }
            if let Event::SessionClosed { session } = event
                && !self.closing.contains(session)
                && !ended_otherwise(applied.events)
            {
                self.expires(*session, applied.at)?;
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::Renewed { session, sent, ttl } = fact {
            return self.renewed(*session, *sent, *ttl);
        }
        if let Fact::Retiming { session, sent, ttl } = fact {
            self.retimed(*session, *sent, *ttl);
        }
        if let Fact::Closing { session } = fact {
            self.closing.insert(*session);
        }
        if let Fact::LeaderPaused { until, paused_for, led_until } = fact {
            self.pauses.push(Pause { until: *until, paused_for: *paused_for, led_until: *led_until });
        }
        Ok(())
    }

    fn finished(&mut self, _: &State) -> Result<(), String> {
        if self.rate_max == TRUE_RATE { self.compare_with_pauses() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_is_found_before_or_after_the_report_of_the_renewal() {
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

    #[test]
    fn a_shorter_timeout_counts_from_its_request_on() {
        let (session, second) = (SessionNumber(1), Duration::from_secs(1));
        let retimed = |ends: u32| {
            let mut leases = Leases::new(Physics { rate_max: 1_000 });
            leases.renewed(session, second, second * 9).unwrap();
            leases.observe(&Fact::Retiming { session, sent: second * 2, ttl: second * 3 }).unwrap();
            leases.expires(session, second * ends)
        };
        assert!(retimed(4).is_err() && retimed(5).is_ok());
    }

    #[test]
    fn a_session_that_ends_although_its_leader_was_paused_is_found() {
        let (session, second) = (SessionNumber(1), Duration::from_secs(1));
        let ends = |at: Duration| {
            let mut leases = Leases::new(Physics { rate_max: TRUE_RATE });
            leases.renewed(session, second, second * 3).unwrap();
            leases.timed_out.insert(session, at);
            leases.pauses.push(Pause { until: second * 6, paused_for: second * 4, led_until: second * 10 });
            leases.finished(&State::new())
        };
        assert!(ends(second * 6).is_err(), "renewed until 4 s, and paused from 2 s to 6 s");
        assert!(ends(second * 8).is_ok());
        assert!(ends(second * 11).is_ok(), "another leader may have ended it");
    }
}

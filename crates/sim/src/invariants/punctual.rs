//! Without faults, a hold past its maximum and a lock delay past its end are ended soon. A new leader restarts their
//! timers.

use super::invariant::Invariant;
use crate::facts::{Applied, Fact};
use fairhold_state::command::Event;
use fairhold_types::GrantNumber;
use std::{collections::BTreeMap, time::Duration};

/// How late a verdict may be, on the slowest disks for which a promise applies.
const LATE: Duration = Duration::from_secs(4);

#[derive(Default)]
pub(crate) struct Punctual {
    /// Since when each grant is held or cooling, and how long it may be.
    over: BTreeMap<GrantNumber, (Duration, Duration)>,
    term: u64,
    /// Since when the leader of that term leads.
    led_since: Duration,
}

impl Punctual {
    fn happened(&mut self, event: &Event, applied: &Applied<'_>) {
        if let Event::Granted { grant, .. } = event {
            let hold_ms = applied.state.contender(*grant).and_then(|contender| contender.hold_ms);
            match hold_ms {
                Some(ms) => drop(self.over.insert(*grant, (applied.at, Duration::from_millis(ms)))),
                None => drop(self.over.remove(grant)),
            }
        } else if let Event::Cooling { grant, delay_ms, .. } = event {
            self.over.insert(*grant, (applied.at, Duration::from_millis(*delay_ms)));
        } else if let Event::Ended { grant, .. } | Event::Cooled { grant, .. } = event {
            self.over.remove(grant);
        }
    }

    fn late(&self, now: Duration) -> Result<(), String> {
        let is_late = |since: &Duration, span: &Duration| now > (*since).max(self.led_since) + *span + LATE;
        match self.over.iter().find(|(_, (since, span))| is_late(since, span)) {
            Some((grant, (since, span))) => {
                Err(format!("#{grant} is held or cooling since {since:?}, for at most {span:?}, but still at {now:?}"))
            }
            None => Ok(()),
        }
    }
}

impl Invariant for Punctual {
    fn name(&self) -> &'static str {
        "what is over ends soon"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if applied.first {
            applied.events.iter().for_each(|event| self.happened(event, applied));
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Term { term, calm, at } = fact else { return Ok(()) };
        if std::mem::replace(&mut self.term, *term) != *term {
            self.led_since = *at;
        }
        if *calm { self.late(*at) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_late_end_under_one_leader_without_faults_is_found() {
        let second = Duration::from_secs;
        let mut punctual = Punctual::default();
        punctual.over.insert(GrantNumber(3), (second(10), second(2)));
        let term = |term, calm, at| Fact::Term { term, calm, at: second(at) };
        assert!(punctual.observe(&term(1, true, 16)).is_ok());
        assert!(punctual.observe(&term(1, false, 30)).is_ok(), "a fault is in effect");
        assert!(punctual.observe(&term(2, true, 31)).is_ok(), "its leader was just elected");
        assert!(punctual.observe(&term(2, true, 37)).is_ok());
        assert!(punctual.observe(&term(2, true, 38)).is_err());
    }
}

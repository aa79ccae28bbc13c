//! A lock delay lasts its full time, even if the leader changes. Only an administrator that breaks the lock ends it early.

use super::invariant::Invariant;
use crate::facts::{Applied, Physics};
use fairhold_state::command::Event;
use fairhold_types::GrantNumber;
use std::{collections::BTreeMap, time::Duration};

pub(crate) struct Delays {
    rate_max: u64,
    /// Until when each cooling grant blocks its lock at least.
    cooling: BTreeMap<GrantNumber, Duration>,
}

impl Delays {
    pub(crate) fn new(physics: Physics) -> Delays {
        Delays { rate_max: physics.rate_max, cooling: BTreeMap::new() }
    }

    /// The events of one command.
    fn all_happened(&mut self, events: &[Event], at: Duration) -> Result<(), String> {
        for event in events {
            if let Event::Cooled { lock, grant } = event
                && events.iter().any(|event| matches!(event, Event::Broken { lock: broken, .. } if broken == lock))
            {
                self.cooling.remove(grant);
            }
            self.happened(event, at)?;
        }
        Ok(())
    }

    fn happened(&mut self, event: &Event, at: Duration) -> Result<(), String> {
        if let Event::Cooling { grant, delay_ms, .. } = event {
            self.cooling.insert(*grant, at + Duration::from_millis(delay_ms * 1_000 / self.rate_max));
        }
        if let Event::Cooled { lock, grant } = event
            && let Some(until) = self.cooling.remove(grant)
            && at < until
        {
            return Err(format!("{lock} was free at {at:?} after #{grant}, but its delay lasts until {until:?}"));
        }
        Ok(())
    }
}

impl Invariant for Delays {
    fn name(&self) -> &'static str {
        "delays last"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        self.all_happened(applied.events, applied.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::LockName;

    #[test]
    fn a_delay_that_ends_early_is_found() {
        let (lock, grant, second) = (LockName::parse("a").unwrap(), GrantNumber(4), Duration::from_secs(1));
        let ends = |after: Duration| {
            let mut delays = Delays::new(Physics { rate_max: 1_000 });
            let cooling = Event::Cooling { lock: lock.clone(), grant, delay_ms: 2_000 };
            assert!(delays.happened(&cooling, second).is_ok());
            delays.all_happened(&[Event::Cooled { lock: lock.clone(), grant }], second + after)
        };
        assert!(ends(second * 2).is_ok());
        assert!(ends(second).is_err());
    }

    /// Seed 9400049: the second try of a break whose first try was lost came when the grant had expired by itself.
    #[test]
    fn an_administrator_ends_the_delay_of_the_lock_that_it_breaks() {
        let name = |name: &str| LockName::parse(name).unwrap();
        let ends = |broken: &str| {
            let mut delays = Delays::new(Physics { rate_max: 1_000 });
            let grant = GrantNumber(4);
            delays.happened(&Event::Cooling { lock: name("a"), grant, delay_ms: 2_000 }, Duration::from_secs(1)).unwrap();
            let broken = Event::Broken { lock: name(broken), by: String::new(), reason: String::new() };
            delays.all_happened(&[broken, Event::Cooled { lock: name("a"), grant }], Duration::from_secs(2))
        };
        assert!(ends("a").is_ok());
        assert!(ends("b").is_err());
    }
}

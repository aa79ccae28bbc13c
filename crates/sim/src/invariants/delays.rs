//! A lock delay lasts its full time, even if the leader changes.

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
        applied.events.iter().try_for_each(|event| self.happened(event, applied.at))
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
            delays.happened(&Event::Cooled { lock: lock.clone(), grant }, second + after)
        };
        assert!(ends(second * 2).is_ok());
        assert!(ends(second).is_err());
    }
}

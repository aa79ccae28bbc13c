//! No waiter is granted before a waiter that is ahead of it in the queue.

use super::invariant::Invariant;
use crate::facts::Applied;
use fairhold_state::command::Event;
use fairhold_types::{GrantNumber, LockName};
use std::{cmp::Reverse, collections::BTreeSet};

#[derive(Default)]
pub(crate) struct Order {
    /// The current holders. A holder that is granted again by an upgrade does not overtake: holders precede all
    /// waiters.
    holding: BTreeSet<(GrantNumber, LockName)>,
}

/// A place in a queue: higher priority first, then earlier arrival. The priority includes aging.
type Place = (Reverse<i32>, u64);

fn overtaken(granted: Place, waiting: &[Place]) -> Option<Place> {
    waiting.iter().copied().find(|place| *place < granted)
}

impl Order {
    fn granted(&mut self, lock: &LockName, grant: GrantNumber, applied: &Applied<'_>) -> Result<(), String> {
        if !self.holding.insert((grant, lock.clone())) {
            return Ok(());
        }
        let Some(granted) = applied.state.contender_in(lock, grant) else { return Ok(()) };
        let queue = applied.state.queue(lock);
        let waiting = queue.iter().map(|entry| entry.contender).filter(|contender| contender.granted_at.is_none());
        let waiting: Vec<Place> = waiting.map(|waiter| (Reverse(waiter.effective_priority), waiter.number.0)).collect();
        match overtaken((Reverse(granted.effective_priority), grant.0), &waiting) {
            Some((_, number)) => Err(format!("{lock} at revision {}: #{grant} was granted before #{number}", applied.revision)),
            None => Ok(()),
        }
    }
}

impl Invariant for Order {
    fn name(&self) -> &'static str {
        "nobody is overtaken"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::Ended { lock, grant, .. } | Event::Cooling { lock, grant, .. } = event {
                self.holding.remove(&(*grant, lock.clone()));
            }
            if let Event::Granted { lock, grant, .. } = event {
                self.granted(lock, *grant, applied)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_that_came_earlier_or_has_a_higher_priority_is_not_overtaken() {
        let place = |priority, number| (Reverse(priority), number);
        assert_eq!(overtaken(place(0, 7), &[place(0, 9), place(0, 5)]), Some(place(0, 5)));
        assert_eq!(overtaken(place(0, 3), &[place(1, 9)]), Some(place(1, 9)));
        assert_eq!(overtaken(place(1, 9), &[place(0, 3), place(1, 10)]), None);
    }
}

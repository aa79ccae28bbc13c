//! Nobody is granted before someone who stands earlier in line.

use super::Invariant;
use crate::oracle::Applied;
use fairhold_state::command::Event;
use std::cmp::Reverse;

pub(crate) struct Order;

/// A place in a line: higher priority first, then who came first.
type Place = (Reverse<i32>, u64);

fn overtaken(granted: Place, waiting: &[Place]) -> Option<Place> {
    waiting.iter().copied().find(|place| *place < granted)
}

impl Invariant for Order {
    fn name(&self) -> &'static str {
        "nobody is overtaken"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        for event in applied.events {
            let Event::Granted { lock, grant, .. } = event else { continue };
            let Some(granted) = applied.state.contender(*grant) else { continue };
            let queue = applied.state.queue(lock);
            let waiting = queue.iter().map(|entry| entry.contender).filter(|contender| contender.granted_at.is_none());
            let waiting: Vec<Place> = waiting.map(|waiter| (Reverse(waiter.priority), waiter.number.0)).collect();
            if let Some((_, number)) = overtaken((Reverse(granted.priority), grant.0), &waiting) {
                return Err(format!("{lock} at revision {}: #{grant} was granted before #{number}", applied.revision));
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

//! A lock has one exclusive holder, or only shared holders, or permits within its limit. A change of mode or of the
//! limit keeps this true.

use super::invariant::Invariant;
use crate::{facts::Applied, watch_events::lock_of};
use fairhold_state::command::Event;
use fairhold_types::{LockName, Mode};
use std::collections::BTreeSet;

#[derive(Default)]
pub(crate) struct Holders {
    /// Locks with settings from an administrator. Their holders keep their permits even if a new limit is lower.
    set: BTreeSet<LockName>,
}

/// Checks that these holders, each with mode and permits, are compatible under a limit.
fn compatible(holders: &[(Mode, u32)], limit: u32) -> Result<(), String> {
    let exclusive = holders.iter().filter(|(mode, _)| *mode == Mode::Exclusive).count();
    if limit == 1 && exclusive > 0 && holders.len() > 1 {
        return Err(format!("{exclusive} hold exclusively among {} holders", holders.len()));
    }
    if limit > 1 && exclusive < holders.len() {
        return Err(format!("{} share a lock that has {limit} permits", holders.len() - exclusive));
    }
    let permits: u64 = holders.iter().map(|(_, permits)| u64::from(*permits)).sum();
    if limit > 1 && permits > u64::from(limit) {
        return Err(format!("{permits} permits of {limit} are held"));
    }
    Ok(())
}

/// Whether the holders must be compatible after this event. Once an administrator sets a limit, only a new grant must
/// fit it.
fn judged(event: &Event, set: &BTreeSet<LockName>) -> bool {
    let comes = matches!(event, Event::Granted { .. } | Event::Downgraded { .. });
    lock_of(event).is_some_and(|lock| comes || !set.contains(lock))
}

impl Invariant for Holders {
    fn name(&self) -> &'static str {
        "holders are compatible"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        for event in applied.events {
            if let Event::LockSet { lock, .. } = event {
                self.set.insert(lock.clone());
            }
        }
        for event in applied.events.iter().filter(|event| judged(event, &self.set)) {
            let Some(lock) = lock_of(event) else { continue };
            let view = applied.state.lock(lock);
            let holders: Vec<_> = view.holders.iter().map(|holder| (holder.mode, holder.permits)).collect();
            compatible(&holders, view.limit.unwrap_or(1))
                .map_err(|error| format!("{lock} on node {} at revision {}: {error}", applied.node, applied.revision))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{EndReason, FencingToken, GrantNumber, SessionNumber};

    #[test]
    fn two_exclusive_holders_a_writer_among_readers_and_too_many_permits_are_found() {
        let (exclusive, shared) = ((Mode::Exclusive, 1), (Mode::Shared, 1));
        assert!(compatible(&[exclusive, exclusive], 1).is_err());
        assert!(compatible(&[shared, exclusive], 1).is_err());
        assert!(compatible(&[(Mode::Exclusive, 2), (Mode::Exclusive, 2)], 3).is_err());
        assert!(compatible(&[shared, exclusive], 3).is_err());
        assert!(compatible(&[shared, shared], 1).is_ok());
        assert!(compatible(&[exclusive], 1).is_ok());
        assert!(compatible(&[(Mode::Exclusive, 2), exclusive], 3).is_ok());
    }

    #[test]
    fn after_a_limit_is_lowered_only_new_grants_must_fit() {
        let (lock, grant) = (LockName::parse("a").unwrap(), GrantNumber(3));
        let granted = Event::Granted { lock: lock.clone(), grant, token: FencingToken(3) };
        let (session, reason) = (SessionNumber(3), EndReason::Released);
        let ended = Event::Ended { lock: lock.clone(), grant, session, reason };
        assert!(judged(&ended, &BTreeSet::new()) && judged(&granted, &BTreeSet::new()));
        assert!(!judged(&ended, &BTreeSet::from([lock.clone()])) && judged(&granted, &BTreeSet::from([lock])));
    }
}

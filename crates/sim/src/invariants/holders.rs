//! A lock's holders are one exclusive, or all shared, or permits within the limit.

use super::Invariant;
use crate::oracle::Applied;
use fairhold_state::command::Event;
use fairhold_types::Mode;

pub(crate) struct Holders;

/// What may hold together: each holder's mode and permits, under a limit.
fn together(holders: &[(Mode, u32)], limit: u32) -> Result<(), String> {
    let exclusive = holders.iter().filter(|(mode, _)| *mode == Mode::Exclusive).count();
    if limit == 1 && exclusive > 0 && holders.len() > 1 {
        return Err(format!("{exclusive} hold exclusively among {} holders", holders.len()));
    }
    let permits: u64 = holders.iter().map(|(_, permits)| u64::from(*permits)).sum();
    if limit > 1 && permits > u64::from(limit) {
        return Err(format!("{permits} permits of {limit} are held"));
    }
    Ok(())
}

impl Invariant for Holders {
    fn name(&self) -> &'static str {
        "holders are compatible"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        for event in applied.events {
            let Event::Granted { lock, .. } = event else { continue };
            let view = applied.state.lock(lock);
            let holders: Vec<_> = view.holders.iter().map(|holder| (holder.mode, holder.permits)).collect();
            together(&holders, view.limit.unwrap_or(1))
                .map_err(|error| format!("{lock} on node {} at revision {}: {error}", applied.node, applied.revision))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_exclusive_holders_a_writer_among_readers_and_too_many_permits_are_found() {
        let (exclusive, shared) = ((Mode::Exclusive, 1), (Mode::Shared, 1));
        assert!(together(&[exclusive, exclusive], 1).is_err());
        assert!(together(&[shared, exclusive], 1).is_err());
        assert!(together(&[(Mode::Exclusive, 2), (Mode::Exclusive, 2)], 3).is_err());
        assert!(together(&[shared, shared], 1).is_ok());
        assert!(together(&[exclusive], 1).is_ok());
        assert!(together(&[(Mode::Exclusive, 2), exclusive], 3).is_ok());
    }
}

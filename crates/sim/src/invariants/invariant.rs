//! The interface of an invariant.

use crate::facts::{Applied, Fact};
use fairhold_state::State;

/// A property that must always hold. The error describes the violation.
pub(crate) trait Invariant: Send {
    /// Its short name.
    fn name(&self) -> &'static str;

    /// A node applied a change.
    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let _: &Applied<'_> = applied;
        Ok(())
    }

    /// The oracle received a fact.
    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let _: &Fact = fact;
        Ok(())
    }

    /// All clients have ended, and all faults are healed.
    fn finished(&mut self, state: &State) -> Result<(), String> {
        let _: &State = state;
        Ok(())
    }
}

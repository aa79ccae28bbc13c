//! The state is consistent after every change: every index agrees with the tree, and an ephemeral node exists only
//! while its session does.

use super::invariant::Invariant;
use crate::facts::Applied;

pub(crate) struct Machine;

impl Invariant for Machine {
    fn name(&self) -> &'static str {
        "the state is sound"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.whole {
            return Ok(());
        }
        applied.state.check().map_err(|error| format!("node {} at revision {}: {error}", applied.node, applied.revision))
    }
}

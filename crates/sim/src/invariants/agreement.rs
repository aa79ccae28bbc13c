//! Every node emits the same events at the same revision, and has the same state after it.

use super::invariant::Invariant;
use crate::facts::Applied;
use fairhold_types::NodeId;
use std::collections::BTreeMap;

/// The first node that reported a revision, its events, and its digest.
type Reported = (NodeId, String, String);

#[derive(Default)]
pub(crate) struct Agreement {
    reported: BTreeMap<u64, Reported>,
}

impl Agreement {
    fn report(&mut self, node: NodeId, revision: u64, events: String, digest: String) -> Result<(), String> {
        let (first, known, state) = self.reported.entry(revision).or_insert_with(|| (node, events.clone(), digest.clone()));
        if *known != events {
            return Err(format!("revision {revision}: node {first} emitted {known}, node {node} emitted {events}"));
        }
        // A large state has no digest at most revisions.
        if !state.is_empty() && !digest.is_empty() && *state != digest {
            return Err(format!("revision {revision}: nodes {first} and {node} have different states after {events}"));
        }
        Ok(())
    }
}

impl Invariant for Agreement {
    fn name(&self) -> &'static str {
        "nodes agree"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let events = format!("{:?}", applied.events);
        let digest = if applied.whole { applied.state.digest() } else { String::new() };
        self.report(applied.node, applied.revision.0, events, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_event_and_a_different_state_are_found() {
        let mut agreement = Agreement::default();
        let text = |text: &str| text.to_owned();
        assert!(agreement.report(1, 7, text("a"), text("x")).is_ok());
        assert!(agreement.report(2, 7, text("a"), text("x")).is_ok());
        assert!(agreement.report(3, 7, text("b"), text("x")).is_err());
        assert!(agreement.report(3, 7, text("a"), text("y")).is_err());
    }
}

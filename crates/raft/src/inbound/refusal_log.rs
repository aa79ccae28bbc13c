//! Decides which refusals to log: a node that retries again and again is logged once.

use crate::base::peer::Refusal;
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
};

/// The last logged refusal of each node.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<BTreeMap<NodeId, Refusal>>);

impl RefusalLog {
    /// Whether to log this refusal. A repetition of it is not logged.
    pub(super) fn should_log(&self, configured: &BTreeSet<NodeId>, other: NodeId, refusal: &Refusal) -> bool {
        // `LostEntries` is this node's own condition: the node logs it when it ends.
        if matches!(refusal, Refusal::Starting | Refusal::LostEntries(_)) {
            return false;
        }
        // Anyone may claim any id: all nodes that are not configured share one entry, so that they cannot grow the map.
        let stranger = !configured.contains(&other);
        let key = if stranger { NodeId::MAX } else { other };
        let before = self.0.lock().insert(key, refusal.clone());
        before.is_none_or(|before| if stranger { discriminant(&before) != discriminant(refusal) } else { before != *refusal })
    }

    /// Forgets an admitted node: its next refusal is logged again.
    pub(super) fn forget(&self, other: NodeId) {
        self.0.lock().remove(&other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Incarnation;

    #[test]
    fn a_node_that_retries_is_logged_once_and_unknown_nodes_share_one_line() {
        let refused = RefusalLog::default();
        let configured = BTreeSet::from([1, 2, 3]);
        let should_log = |other, refusal: &Refusal| refused.should_log(&configured, other, refusal);
        let wiped = |found| Refusal::Incarnation { id: 2, expected: Incarnation(1), found: Incarnation(found) };
        assert!(!should_log(2, &Refusal::Starting), "it is temporary");
        assert!(should_log(2, &wiped(7)) && !should_log(2, &wiped(7)));
        assert!(should_log(2, &wiped(8)), "it has another data directory");
        assert!(should_log(3, &Refusal::NotAMember { id: 3 }), "it is another node");
        refused.forget(2);
        assert!(should_log(2, &wiped(8)), "it was admitted in between");
        assert!(should_log(77, &Refusal::NotAMember { id: 77 }) && !should_log(78, &Refusal::NotAMember { id: 78 }));
        assert!(should_log(79, &wiped(9)), "it is another kind of refusal");
    }
}

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
    pub(super) fn is_news(&self, configured: &BTreeSet<NodeId>, other: NodeId, refusal: &Refusal) -> bool {
        // `LostEntries` is this node's own condition: the node logs it when it ends.
        if matches!(refusal, Refusal::Starting | Refusal::LostEntries(_)) {
            return false;
        }
        // A stranger may claim any id: all strangers share one entry, so that they cannot grow the map at will.
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
    fn a_node_that_retries_is_logged_once_and_strangers_share_one_line() {
        let refused = RefusalLog::default();
        let configured = BTreeSet::from([1, 2, 3]);
        let is_news = |other, refusal: &Refusal| refused.is_news(&configured, other, refusal);
        let wiped = |found| Refusal::Incarnation { id: 2, expected: Incarnation(1), found: Incarnation(found) };
        assert!(!is_news(2, &Refusal::Starting), "it passes in a moment");
        assert!(is_news(2, &wiped(7)) && !is_news(2, &wiped(7)));
        assert!(is_news(2, &wiped(8)), "it has another data directory");
        assert!(is_news(3, &Refusal::Stranger { id: 3 }), "it is another node");
        refused.forget(2);
        assert!(is_news(2, &wiped(8)), "it was admitted in between");
        assert!(is_news(77, &Refusal::Stranger { id: 77 }) && !is_news(78, &Refusal::Stranger { id: 78 }));
        assert!(is_news(79, &wiped(9)), "it is another kind of refusal");
    }
}

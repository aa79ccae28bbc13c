//! Which refusals are worth a line in the log: a node that tries again and again is told of once.

use crate::base::peer::Refusal;
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
};

/// The last refusal of each node that was told.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<BTreeMap<NodeId, Refusal>>);

impl Refused {
    /// Whether to tell of this refusal; a next one like it is known then.
    pub(super) fn is_news(&self, configured: &BTreeSet<NodeId>, other: NodeId, refusal: &Refusal) -> bool {
        // The second one is this node's own affair: it says so when it ends.
        if matches!(refusal, Refusal::Starting | Refusal::LostEntries(_)) {
            return false;
        }
        // A stranger may claim any id: all strangers share one entry, or they could grow the list at will.
        let stranger = !configured.contains(&other);
        let key = if stranger { NodeId::MAX } else { other };
        let before = self.0.lock().insert(key, refusal.clone());
        before.is_none_or(|before| if stranger { discriminant(&before) != discriminant(refusal) } else { before != *refusal })
    }

    /// The node was admitted: the next refusal is news again.
    pub(super) fn forget(&self, other: NodeId) {
        self.0.lock().remove(&other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Incarnation;

    #[test]
    fn a_node_that_tries_again_and_again_is_told_of_once_and_strangers_share_one_line() {
        let (refused, configured) = (Refused::default(), BTreeSet::from([1, 2, 3]));
        let is_news = |other, refusal: &Refusal| refused.is_news(&configured, other, refusal);
        let wiped = |found| Refusal::Incarnation { id: 2, expected: Incarnation(1), found: Incarnation(found) };
        assert!(!is_news(2, &Refusal::Starting), "it is over in a moment");
        assert!(is_news(2, &wiped(7)) && !is_news(2, &wiped(7)));
        assert!(is_news(2, &wiped(8)), "another data directory is other news");
        assert!(is_news(3, &Refusal::Stranger { id: 3 }), "of another node");
        refused.forget(2);
        assert!(is_news(2, &wiped(8)), "it was admitted in between");
        assert!(is_news(77, &Refusal::Stranger { id: 77 }) && !is_news(78, &Refusal::Stranger { id: 78 }));
        assert!(is_news(79, &wiped(9)), "another kind");
    }
}

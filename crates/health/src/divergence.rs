//! Nodes with different states, although they have applied the same log entries. That must not happen: a disk lied, a copy of
//! a data directory led, or the state machine has a defect.

use crate::{cluster_probe::majority, text::named};
use fairhold_types::{NodeId, Revision};
use std::collections::BTreeSet;

/// Nodes that have different states at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The revision at which their states were compared.
    pub revision: Revision,
    /// The nodes of each state: at least two states.
    pub states: Vec<BTreeSet<NodeId>>,
}

impl Divergence {
    /// What is left of it among the members: nothing if all of them have the same state.
    #[must_use]
    pub fn among(&self, members: &BTreeSet<NodeId>) -> Option<Divergence> {
        let states = self.states.iter().map(|nodes| nodes & members).filter(|nodes| !nodes.is_empty());
        let states: Vec<BTreeSet<NodeId>> = states.collect();
        (states.len() > 1).then_some(Divergence { revision: self.revision, states })
    }

    /// The nodes whose state is not that of a majority of the voters; `None` if no state has a majority.
    #[must_use]
    pub fn odd(&self, voters: &BTreeSet<NodeId>) -> Option<BTreeSet<NodeId>> {
        let good = with_majority(&self.states, voters)?;
        Some(self.states.iter().flatten().copied().filter(|id| !good.contains(id)).collect())
    }
}

fn with_majority<'a>(states: &'a [BTreeSet<NodeId>], voters: &BTreeSet<NodeId>) -> Option<&'a BTreeSet<NodeId>> {
    states.iter().find(|nodes| nodes.intersection(voters).count() >= majority(voters.len()))
}

/// What is wrong, and what to do about it. `point` is the place in the history at which these states were compared.
pub(crate) fn describe(
    point: &str,
    states: &[BTreeSet<NodeId>],
    voters: &BTreeSet<NodeId>,
    leader: Option<NodeId>,
) -> (String, String) {
    let list = |nodes: &BTreeSet<NodeId>| named(&nodes.iter().copied().collect::<Vec<_>>());
    let text = states.iter().map(list).collect::<Vec<_>>().join(" | ");
    let seen = format!("nodes have different states at {point}, which must not happen: {text}");
    let Some(good) = with_majority(states, voters) else {
        let advice = "no state has a majority. Stop your clients, and save the state of each node before you change anything: \
                      fairhold backup save FILE --local -e URL. Then choose one of them, and restore it: \
                      docs/guides/back-up-and-restore.md";
        return (seen, advice.to_owned());
    };
    let odd: BTreeSet<NodeId> = states.iter().flatten().copied().filter(|id| !good.contains(id)).collect();
    let leads = leader.is_some_and(|leader| odd.contains(&leader));
    let next = good.iter().find(|id| voters.contains(id)).filter(|_| leads);
    let hand_over = next.map_or_else(String::new, |id| format!("fairhold cluster transfer-leader {id}, and then "));
    let replace = odd.iter().map(|id| format!("fairhold cluster replace {id}")).collect::<Vec<_>>().join(", then ");
    let advice = format!(
        "stop your clients; {} may have given them other answers. Save its state for the report of the defect: fairhold \
         backup save FILE --local -e URL. The state of {} has a majority, so keep it: {hand_over}{replace}",
        list(&odd),
        list(good),
    );
    (seen, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divergence(states: &[&[NodeId]]) -> Divergence {
        let states = states.iter().map(|nodes| nodes.iter().copied().collect()).collect();
        Divergence { revision: Revision(7), states }
    }

    #[test]
    fn the_odd_nodes_are_those_without_the_state_of_a_majority_of_the_voters() {
        let odd = |states: &[&[NodeId]], voters: u64| divergence(states).odd(&(1..=voters).collect()).map(Vec::from_iter);
        assert_eq!(odd(&[&[1, 2], &[3]], 3), Some(vec![3]));
        assert_eq!(odd(&[&[1], &[2, 3]], 3), Some(vec![1]));
        assert_eq!(odd(&[&[1], &[2]], 2), None, "one against one");
        assert_eq!(odd(&[&[1, 2], &[3]], 5), None, "two of five voters did not answer");
        assert_eq!(odd(&[&[1, 2], &[3, 4]], 3), Some(vec![3, 4]), "node 4 is a learner");
    }

    #[test]
    fn nodes_that_are_no_members_any_more_do_not_count() {
        let members = |ids: &[NodeId]| ids.iter().copied().collect();
        let found = divergence(&[&[1, 2], &[3]]);
        assert_eq!(found.among(&members(&[1, 2, 3])), Some(found.clone()));
        assert_eq!(found.among(&members(&[2, 3, 4])), Some(divergence(&[&[2], &[3]])));
        assert_eq!(found.among(&members(&[1, 2, 4])), None, "node 3 was replaced");
    }
}

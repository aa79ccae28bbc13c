//! The members change safely. An id belongs to one data directory for ever. A removed node is not admitted. The voters before
//! and after each change have a majority in common. A node votes only once it has caught up. After a change, a majority of the
//! voters is on. No node leaves unless that was requested. Joint voters do not last. Every join ends.

use super::invariant::Invariant;
use crate::{
    disk::Position,
    facts::{Applied, Fact, MembersSet, Physics},
    host::TRUE_RATE,
    member_list::MemberList,
};
use fairhold_state::State;
use fairhold_types::{Incarnation, NodeId};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How many entries a new voter may lack: the product allows 256, and a few more may be written before its own look.
const LAG_MAX: u64 = 300;
/// A leader does not count on a machine that has been off for longer, by any clock of the simulator, even after a delay.
const OFF_FOR: Duration = Duration::from_secs(6);
/// How long voters may be joint under one leader without faults. After 2 s, a leader ends a change of another one.
const JOINT_FOR: Duration = Duration::from_secs(5);

pub(crate) struct Members {
    rate_max: u64,
    /// The data directory of each id that was ever given, and the other way round.
    given: BTreeMap<NodeId, Incarnation>,
    owners: BTreeMap<Incarnation, NodeId>,
    /// The ids that machines got when they joined.
    joined: BTreeSet<NodeId>,
    /// The members that were to leave, or that another node was to replace.
    leaving: BTreeSet<NodeId>,
    /// The entries that set the members, as first written.
    seen: BTreeSet<Position>,
    /// The members after the newest of these entries.
    newest: MemberList,
    newest_at: Position,
    /// The term of the leader whose voters are joint, and since when without faults.
    joint: Option<(u64, Duration)>,
}

impl Members {
    pub(crate) fn new(physics: Physics) -> Members {
        Members {
            rate_max: physics.rate_max,
            given: BTreeMap::new(),
            owners: BTreeMap::new(),
            joined: BTreeSet::new(),
            leaving: BTreeSet::new(),
            seen: BTreeSet::new(),
            newest: MemberList::default(),
            newest_at: (0, 0),
            joint: None,
        }
    }

    /// An id belongs to one data directory, and a data directory has one id.
    fn give(&mut self, node: NodeId, incarnation: Incarnation) -> Result<(), String> {
        let known = *self.given.entry(node).or_insert(incarnation);
        if known != incarnation {
            return Err(format!("id {node} was given to data directory {known} and to {incarnation}"));
        }
        let owner = *self.owners.entry(incarnation).or_insert(node);
        if owner != node {
            return Err(format!("data directory {incarnation} has the ids {owner} and {node}"));
        }
        Ok(())
    }

    fn check_state(&mut self, state: &State) -> Result<(), String> {
        let membership = state.membership();
        for (node, join) in membership.joins() {
            self.give(node, join.incarnation)?;
            if membership.removed_node(node).is_some() {
                return Err(format!("node {node} joins, although its id belongs to a removed node"));
            }
            self.leaving.extend(join.replaces);
        }
        for (node, removed) in membership.removed() {
            removed.incarnation.map_or(Ok(()), |incarnation| self.give(node, incarnation))?;
        }
        Ok(())
    }

    fn set(&mut self, set: &MembersSet) -> Result<(), String> {
        if !self.seen.insert(set.log_id) {
            return Ok(());
        }
        if set.log_id > self.newest_at {
            self.newest_at = set.log_id;
            self.newest = set.members.clone();
        }
        set.members.nodes.iter().try_for_each(|(node, incarnation)| self.give(*node, *incarnation))?;
        let Some(before) = &set.before else { return Ok(()) };
        self.check_leavers(before, &set.members)?;
        check_quorums(before, &set.members)?;
        let (old, new) = (before.next_voters(), set.members.next_voters());
        // The second half of a change, or its end by another leader, decides nothing.
        if old == new {
            return Ok(());
        }
        check_health(set, &new)?;
        new.difference(&old).try_for_each(|voter| self.check_new_voter(set, before, *voter))
    }

    fn check_leavers(&self, before: &MemberList, after: &MemberList) -> Result<(), String> {
        let voters: BTreeSet<NodeId> = before.next_voters();
        let gone = before.nodes.keys().filter(|node| !after.nodes.contains_key(node));
        let demoted = voters.iter().filter(|voter| !after.next_voters().contains(voter));
        match gone.chain(demoted).find(|node| !self.leaving.contains(node)) {
            Some(node) => Err(format!("node {node} leaves, but nobody asked for it: from {before:?} to {after:?}")),
            None => Ok(()),
        }
    }

    fn check_new_voter(&self, set: &MembersSet, before: &MemberList, voter: NodeId) -> Result<(), String> {
        if !before.nodes.contains_key(&voter) {
            return Err(format!("node {voter} becomes a voter, but was no learner"));
        }
        let index = set.log_id.1;
        match set.flushed.get(&voter) {
            Some(flushed) if flushed + LAG_MAX * self.rate_max / TRUE_RATE >= index => Ok(()),
            flushed => Err(format!("node {voter} becomes a voter at entry {index}, but the last one on its disk is {flushed:?}")),
        }
    }

    fn check_joint(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Voters { term, joint, quiet, at } = fact else { return Ok(()) };
        if !*joint || !*quiet {
            self.joint = None;
            return Ok(());
        }
        let (same, since) = self.joint.filter(|(same, _)| same == term).unwrap_or((*term, *at));
        self.joint = Some((same, since));
        if *at > since + JOINT_FOR {
            return Err(format!("the voters are joint since {since:?} under the leader of term {term}, and still at {at:?}"));
        }
        Ok(())
    }
}

/// Every majority of the voters before has a node in common with every majority of the voters after.
fn check_quorums(before: &MemberList, after: &MemberList) -> Result<(), String> {
    if before.voters.is_empty() || before.voters.iter().any(|voters| after.voters.contains(voters)) {
        return Ok(());
    }
    Err(format!("the voters change without a common majority: from {:?} to {:?}", before.voters, after.voters))
}

/// After the change, a majority of the voters may answer.
fn check_health(set: &MembersSet, voters: &BTreeSet<NodeId>) -> Result<(), String> {
    let is_off = |voter: &&NodeId| set.off_for.get(voter).is_none_or(|off_for| *off_for > OFF_FOR);
    let off: Vec<NodeId> = voters.iter().filter(is_off).copied().collect();
    if off.len() * 2 < voters.len() {
        return Ok(());
    }
    Err(format!("node {} makes {voters:?} the voters, but {off:?} of them are off", set.node))
}

impl Invariant for Members {
    fn name(&self) -> &'static str {
        "members change safely"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if applied.first { self.check_state(applied.state) } else { Ok(()) }
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::AskedToLeave { node } = fact {
            self.leaving.insert(*node);
        }
        if let Fact::Joined { node, incarnation } = fact {
            self.joined.insert(*node);
            return self.give(*node, *incarnation);
        }
        if let Fact::Admitted { by, other, removed: true } = fact {
            return Err(format!("node {by} admits node {other}, although it knows that this node was removed"));
        }
        if let Fact::MembersSet(set) = fact {
            return self.set(set);
        }
        self.check_joint(fact)
    }

    fn finished(&mut self, state: &State) -> Result<(), String> {
        let membership = state.membership();
        let lost = |node: &&NodeId| {
            let is_known = self.newest.nodes.contains_key(node) || membership.removed_node(**node).is_some();
            !is_known && membership.join(**node).is_none()
        };
        if let Some(node) = self.joined.iter().find(lost) {
            return Err(format!("node {node} joined, but is neither a member nor removed"));
        }
        let removed = self.newest.nodes.keys().find(|node| membership.removed_node(**node).is_some());
        if let Some(node) = removed {
            return Err(format!("node {node} is a member, but its removal is recorded"));
        }
        if !membership.is_settled() || self.newest.is_joint() {
            return Err(format!("a change of the members did not end: {:?}, {membership:?}", self.newest));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn list(voters: &[&[NodeId]], learners: &[NodeId]) -> MemberList {
        let voters: Vec<BTreeSet<NodeId>> = voters.iter().map(|voters| voters.iter().copied().collect()).collect();
        let ids = voters.iter().flatten().chain(learners);
        let nodes = ids.map(|id| (*id, Incarnation(u128::from(*id)))).collect();
        MemberList { voters, nodes }
    }

    fn set(before: MemberList, members: MemberList) -> MembersSet {
        let off_for = members.nodes.keys().map(|id| (*id, Duration::ZERO)).collect();
        let flushed = members.nodes.keys().map(|id| (*id, 899)).collect();
        MembersSet { node: 1, log_id: (1, 900), members, before: Some(before), flushed, off_for }
    }

    fn members() -> Members {
        Members::new(Physics { rate_max: TRUE_RATE })
    }

    fn observed(members: &mut Members, set: MembersSet) -> Result<(), String> {
        members.observe(&Fact::MembersSet(Box::new(set)))
    }

    #[test]
    fn an_id_of_two_data_directories_is_found() {
        let mut members = members();
        let joined = |node, incarnation| Fact::Joined { node, incarnation: Incarnation(incarnation) };
        assert!(members.observe(&joined(4, 40)).is_ok() && members.observe(&joined(4, 40)).is_ok());
        assert!(members.observe(&joined(4, 50)).is_err());
        assert!(members.observe(&joined(5, 40)).is_err());
    }

    #[test]
    fn a_removed_node_that_is_admitted_is_found() {
        let admitted = |removed| Fact::Admitted { by: 1, other: 4, removed };
        assert!(members().observe(&admitted(false)).is_ok());
        assert!(members().observe(&admitted(true)).is_err());
    }

    #[test]
    fn voters_without_a_common_majority_are_found() {
        let (old, new) = (list(&[&[1, 2, 3]], &[4]), list(&[&[1, 2, 3], &[1, 2, 3, 4]], &[]));
        assert!(observed(&mut members(), set(old.clone(), new.clone())).is_ok());
        let mut later = members();
        assert!(observed(&mut later, MembersSet { log_id: (2, 901), ..set(new, list(&[&[1, 2, 3, 4]], &[])) }).is_ok());
        let error = observed(&mut members(), set(old, list(&[&[1, 2, 3, 4]], &[]))).unwrap_err();
        assert!(error.contains("without a common majority"), "{error}");
    }

    #[test]
    fn a_voter_that_has_not_caught_up_is_found() {
        let (old, new) = (list(&[&[1, 2, 3]], &[4]), list(&[&[1, 2, 3], &[1, 2, 3, 4]], &[]));
        for flushed in [None, Some(500)] {
            let mut late = set(old.clone(), new.clone());
            late.flushed.remove(&4);
            late.flushed.extend(flushed.map(|flushed| (4, flushed)));
            let error = observed(&mut members(), late).unwrap_err();
            assert!(error.contains("on its disk"), "{error}");
        }
        let error = observed(&mut members(), set(list(&[&[1, 2, 3]], &[]), new)).unwrap_err();
        assert!(error.contains("was no learner"), "{error}");
    }

    #[test]
    fn a_change_without_a_majority_after_it_is_found() {
        let (old, new) = (list(&[&[1, 2, 3]], &[]), list(&[&[1, 2, 3], &[1, 2]], &[]));
        let mut asked = members();
        asked.observe(&Fact::AskedToLeave { node: 3 }).unwrap();
        let mut off = set(old, new);
        off.off_for.insert(2, SECOND * 7);
        let error = observed(&mut asked, off).unwrap_err();
        assert!(error.contains("[2] of them are off"), "{error}");
    }

    #[test]
    fn a_member_that_leaves_without_a_request_is_found() {
        let (old, new) = (list(&[&[1, 2, 3]], &[]), list(&[&[1, 2, 3], &[1, 2]], &[]));
        let error = observed(&mut members(), set(old.clone(), new.clone())).unwrap_err();
        assert!(error.contains("nobody asked"), "{error}");
        let mut asked = members();
        asked.observe(&Fact::AskedToLeave { node: 3 }).unwrap();
        assert!(observed(&mut asked, set(old, new)).is_ok());
    }

    #[test]
    fn voters_that_stay_joint_are_found() {
        let mut members = members();
        let mut joint = |term, quiet, at| members.observe(&Fact::Voters { term, joint: true, quiet, at: SECOND * at });
        assert!(joint(1, true, 1).is_ok() && joint(1, true, 6).is_ok() && joint(2, true, 7).is_ok());
        assert!(joint(2, false, 13).is_ok(), "a fault is in effect");
        assert!(joint(2, true, 14).is_ok() && joint(2, true, 19).is_ok());
        assert!(joint(2, true, 20).is_err());
    }

    #[test]
    fn a_join_that_vanished_is_found() {
        let mut members = members();
        assert!(members.finished(&State::new()).is_ok());
        members.observe(&Fact::Joined { node: 4, incarnation: Incarnation(4) }).unwrap();
        assert!(members.finished(&State::new()).is_err());
    }
}

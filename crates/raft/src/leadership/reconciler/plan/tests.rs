//! The next step for each situation.

use super::*;

const UP: Seen = Seen { healthy: true, lag: Some(0), caught_up: true };
const DOWN: Seen = Seen { healthy: false, lag: Some(0), caught_up: false };

/// Node 1 leads these voters, and all are healthy.
fn view(voters: &[NodeId], learners: &[NodeId]) -> View {
    View {
        leader: 1,
        voters: voters.iter().copied().collect(),
        learners: learners.iter().copied().collect(),
        phase: Phase::Uniform,
        seen: voters.iter().chain(learners).map(|node| (*node, UP)).collect(),
        joins: BTreeMap::new(),
        removals: BTreeSet::new(),
    }
}

impl View {
    fn with_join(mut self, node: NodeId, role: MemberRole, replaces: Option<NodeId>) -> View {
        self.joins.insert(node, PendingJoin { role, replaces, is_replaced_recorded: false });
        self
    }

    fn with_removal(mut self, node: NodeId) -> View {
        self.removals.insert(node);
        self
    }

    fn with_seen(mut self, node: NodeId, seen: Seen) -> View {
        self.seen.insert(node, seen);
        self
    }

    fn in_phase(mut self, phase: Phase) -> View {
        self.phase = phase;
        self
    }

    fn with_replaced_recorded(mut self) -> View {
        self.joins.values_mut().for_each(|join| join.is_replaced_recorded = true);
        self
    }
}

#[test]
fn a_node_joins_as_a_learner_catches_up_votes_and_is_settled() {
    let joining = |voters: &[NodeId], learners: &[NodeId]| view(voters, learners).with_join(4, MemberRole::Voter, None);
    assert_eq!(next_step(&joining(&[1, 2, 3], &[])), Some(Step::AddLearner { node: 4 }));
    let behind = joining(&[1, 2, 3], &[4]).with_seen(4, Seen { healthy: true, lag: Some(1_000), caught_up: false });
    assert_eq!(next_step(&behind), None);
    assert_eq!(join(&behind, 4, behind.joins[&4]), Err("it is 1000 log entries behind the leader".to_owned()));
    assert_eq!(next_step(&joining(&[1, 2, 3], &[4])), Some(Step::Promote { node: 4 }));
    assert_eq!(next_step(&joining(&[1, 2, 3, 4], &[])), Some(Step::Settle { node: 4 }));
    let alone = joining(&[1], &[4]);
    assert_eq!(next_step(&alone), Some(Step::Promote { node: 4 }), "two voters, and both are healthy");
}

#[test]
fn a_node_that_replaces_the_only_voter_votes_before_that_one_leaves() {
    let replacing = |voters: &[NodeId], learners: &[NodeId]| view(voters, learners).with_join(4, MemberRole::Voter, Some(1));
    assert_eq!(next_step(&replacing(&[1], &[4])), Some(Step::Promote { node: 4 }));
    assert_eq!(next_step(&replacing(&[1, 4], &[])), Some(Step::HandOver { to: 4 }));
    let handed_over = View { leader: 4, ..replacing(&[1, 4], &[]) };
    assert_eq!(next_step(&handed_over), Some(Step::RemoveMember { node: 1 }));
}

#[test]
fn a_learner_is_settled_once_it_answers() {
    let joined = view(&[1, 2, 3], &[4]).with_join(4, MemberRole::Learner, None);
    assert_eq!(next_step(&joined), Some(Step::Settle { node: 4 }));
    let silent = joined.with_seen(4, Seen { healthy: false, lag: None, caught_up: false });
    assert_eq!(next_step(&silent), None);
    assert!(join(&silent, 4, silent.joins[&4]).unwrap_err().contains("does not answer the leader"));
}

#[test]
fn a_dead_voter_is_replaced_in_one_change_and_its_removal_is_recorded() {
    let dead = |voters: &[NodeId], learners: &[NodeId]| {
        view(voters, learners).with_join(4, MemberRole::Voter, Some(2)).with_seen(2, DOWN)
    };
    assert_eq!(next_step(&dead(&[1, 2, 3], &[4])), Some(Step::Replace { new: 4, old: 2 }));
    assert_eq!(next_step(&dead(&[1, 3, 4], &[])), Some(Step::RecordRemoval { node: 2 }));
    let recorded = dead(&[1, 3, 4], &[]).with_replaced_recorded();
    assert_eq!(next_step(&recorded), Some(Step::Settle { node: 4 }));
    let two_down = dead(&[1, 2, 3], &[4]).with_seen(3, DOWN).with_seen(4, UP);
    assert_eq!(next_step(&two_down), None, "nodes 1 and 4 of 1, 3 and 4 are healthy, but only node 1 of 1, 2 and 3");
    let half_of_five = view(&[1, 2, 3, 4, 5], &[6]).with_join(6, MemberRole::Voter, Some(2));
    let half_of_five = half_of_five.with_seen(3, DOWN).with_seen(4, DOWN).with_seen(5, DOWN);
    assert_eq!(next_step(&half_of_five), None);
}

#[test]
fn a_node_that_lost_its_data_directory_during_its_join_is_replaced() {
    let lost = |voters: &[NodeId], learners: &[NodeId]| {
        let joining = view(voters, learners).with_join(4, MemberRole::Voter, None).with_join(5, MemberRole::Voter, Some(4));
        joining.with_seen(4, DOWN)
    };
    assert_eq!(next_step(&lost(&[1, 2, 3], &[4])), Some(Step::AddLearner { node: 5 }));
    assert_eq!(next_step(&lost(&[1, 2, 3], &[4, 5])), Some(Step::Promote { node: 5 }));
    assert_eq!(next_step(&lost(&[1, 2, 3, 5], &[4])), Some(Step::RemoveMember { node: 4 }));
    let mut left = lost(&[1, 2, 3, 5], &[]);
    assert_eq!(next_step(&left), Some(Step::RecordRemoval { node: 4 }), "its own join does not add it again");
    left.joins.remove(&4);
    assert_eq!(next_step(&left.with_replaced_recorded()), Some(Step::Settle { node: 5 }));
    let waits = lost(&[1, 2, 3], &[4, 5]);
    assert_eq!(join(&waits, 4, waits.joins[&4]), Err("node 5 replaces it".to_owned()));
}

#[test]
fn a_replacement_continues_wherever_it_was_left() {
    // The change was ended by another leader: the old voter is a learner now.
    let kept = view(&[1, 3, 4], &[2]).with_join(4, MemberRole::Voter, Some(2));
    assert_eq!(next_step(&kept), Some(Step::RemoveMember { node: 2 }));
    // Both are learners.
    let both = view(&[1, 3], &[2, 4]).with_join(4, MemberRole::Voter, Some(2));
    assert_eq!(next_step(&both), Some(Step::Promote { node: 4 }));
    // The old one is gone already.
    let gone = view(&[1, 3], &[4]).with_join(4, MemberRole::Voter, Some(2)).with_replaced_recorded();
    assert_eq!(next_step(&gone), Some(Step::Promote { node: 4 }));
    // A learner replaces a learner.
    let learner = view(&[1, 2, 3], &[5, 6]).with_join(6, MemberRole::Learner, Some(5));
    assert_eq!(next_step(&learner), Some(Step::RemoveMember { node: 5 }));
}

#[test]
fn a_leader_that_is_to_go_hands_over_first() {
    let replaced = view(&[1, 2, 3], &[4]).with_join(4, MemberRole::Voter, Some(1));
    let behind = Seen { lag: Some(10), ..UP };
    assert_eq!(next_step(&replaced.clone().with_seen(2, behind)), Some(Step::HandOver { to: 3 }));
    assert_eq!(next_step(&replaced.with_seen(2, DOWN).with_seen(3, DOWN)), None, "no majority would be healthy");
    let removed = view(&[1, 2, 3], &[]).with_removal(1);
    assert_eq!(next_step(&removed), Some(Step::HandOver { to: 2 }));
    let far_behind = Seen { lag: Some(SUCCESSOR_LAG_MAX + 1), ..UP };
    let nobody = removed.with_seen(2, far_behind).with_seen(3, far_behind);
    assert_eq!(removal(&nobody, 1), Err("no other voter can take over the leadership".to_owned()));
    let both_go = view(&[1, 2, 3], &[]).with_removal(1).with_removal(2);
    assert_eq!(next_step(&both_go), Some(Step::HandOver { to: 3 }), "node 2 is to go too");
}

#[test]
fn a_member_is_removed_only_if_a_majority_of_the_others_is_healthy() {
    let healthy = view(&[1, 2, 3], &[]).with_removal(3);
    assert_eq!(next_step(&healthy), Some(Step::RemoveMember { node: 3 }));
    assert_eq!(next_step(&healthy.clone().with_seen(3, DOWN)), Some(Step::RemoveMember { node: 3 }));
    let other_down = healthy.with_seen(2, DOWN);
    assert_eq!(next_step(&other_down), None);
    assert_eq!(other_down.health(&BTreeSet::from([1, 2])), Health { voters: 2, healthy: 1, needed: 2 });
    assert!(removal(&other_down, 3).unwrap_err().contains("only 1 of 2 voters"));
    assert_eq!(other_down.health_on_the_way_to(&BTreeSet::from([1, 2])), Health { voters: 2, healthy: 1, needed: 2 });
    let both_down = other_down.clone().with_seen(3, DOWN);
    let alone = BTreeSet::from([1]);
    assert_eq!(both_down.health_on_the_way_to(&alone), Health { voters: 3, healthy: 1, needed: 2 }, "they decide until then");
    assert_eq!(removal(&view(&[1], &[]).with_removal(1), 1), Err("node 1 is the last voter".to_owned()));
    assert_eq!(next_step(&view(&[1, 2], &[5]).with_removal(5)), Some(Step::RemoveMember { node: 5 }));
    assert_eq!(next_step(&view(&[1, 2], &[]).with_removal(5)), Some(Step::RecordRemoval { node: 5 }));
}

#[test]
fn a_removed_join_goes_no_further() {
    let given_up = view(&[1, 2, 3], &[4]).with_join(4, MemberRole::Voter, None).with_removal(4);
    assert_eq!(next_step(&given_up), Some(Step::RemoveMember { node: 4 }));
    let gone = view(&[1, 2, 3], &[]).with_join(4, MemberRole::Voter, None).with_removal(4);
    assert_eq!(next_step(&gone), Some(Step::RecordRemoval { node: 4 }), "it is not added again");
}

#[test]
fn one_request_that_waits_does_not_hold_up_another() {
    let behind = Seen { healthy: true, lag: Some(9_999), caught_up: false };
    let slow = view(&[1, 2, 3], &[4]).with_join(4, MemberRole::Voter, None).with_seen(4, behind);
    assert_eq!(next_step(&slow.with_join(5, MemberRole::Voter, None)), Some(Step::AddLearner { node: 5 }));
}

#[test]
fn nothing_begins_before_the_last_change_has_ended() {
    let joining = || view(&[1, 2, 3], &[]).with_join(4, MemberRole::Voter, None);
    assert_eq!(next_step(&joining().in_phase(Phase::Uncommitted)), None);
    assert_eq!(next_step(&joining().in_phase(Phase::Joint { abandoned: false })), None);
    assert_eq!(next_step(&joining().in_phase(Phase::Joint { abandoned: true })), Some(Step::FlattenJoint));
}

#[test]
fn a_voter_that_cannot_be_reached_does_not_count() {
    let all = view(&[1, 2, 3], &[4]);
    assert_eq!(all.health_without(2), Health { voters: 3, healthy: 2, needed: 2 });
    assert_eq!(all.health_without(4), Health { voters: 3, healthy: 3, needed: 2 }, "a learner does not vote");
    let down = all.with_seen(3, DOWN);
    assert!(down.health_without(3).is_enough() && !down.health_without(2).is_enough());
}

#[test]
fn only_steps_that_move_votes_ask_the_voters_again() {
    let three = view(&[1, 2, 3], &[4]);
    for step in [Step::Promote { node: 4 }, Step::Replace { new: 4, old: 2 }, Step::HandOver { to: 2 }] {
        assert!(step.depends_on_votes(&three), "{step:?}");
    }
    assert!(Step::RemoveMember { node: 2 }.depends_on_votes(&three));
    for step in [Step::RemoveMember { node: 4 }, Step::AddLearner { node: 5 }, Step::Settle { node: 4 }, Step::FlattenJoint] {
        assert!(!step.depends_on_votes(&three), "{step:?}");
    }
}

/// Six voters, and a node that is joining: a learner that becomes a voter meanwhile takes the last place.
#[test]
fn a_node_that_joins_does_not_become_the_eighth_voter() {
    let full = view(&[1, 2, 3, 4, 5, 6, 7], &[8]).with_join(8, MemberRole::Voter, None);
    assert_eq!(next_step(&full), None);
    let why = join(&full, 8, full.joins[&8]).unwrap_err();
    assert!(why.contains("already has 7 voters"), "{why}");
    assert_eq!(
        next_step(&view(&[1, 2, 3, 4, 5, 6], &[8]).with_join(8, MemberRole::Voter, None)),
        Some(Step::Promote { node: 8 })
    );
    let exchange = view(&[1, 2, 3, 4, 5, 6, 7], &[8]).with_join(8, MemberRole::Voter, Some(7));
    assert_eq!(next_step(&exchange), Some(Step::Replace { new: 8, old: 7 }), "the number stays the same");
}

#[test]
fn nodes_that_are_joining_count_as_what_they_will_be() {
    let both = |view: View| (view.voters_to_be(), view.learners_to_be());
    let joining = |role, replaces| view(&[1, 2, 3], &[4, 5]).with_join(6, role, replaces);
    assert_eq!(both(view(&[1, 2, 3], &[4, 5])), (3, 2));
    assert_eq!(both(joining(MemberRole::Voter, None)), (4, 2));
    assert_eq!(both(joining(MemberRole::Learner, None)), (3, 3));
    assert_eq!(both(joining(MemberRole::Voter, Some(2))), (3, 2), "in place of a voter");
    let caught_up = view(&[1, 2, 3], &[4, 6]);
    assert_eq!(both(caught_up.clone().with_join(6, MemberRole::Voter, None)), (4, 1), "it is a learner until it has caught up");
    assert_eq!(both(caught_up.with_join(6, MemberRole::Learner, None)), (3, 2));
}

/// An operator gives up a join when the new node has the vote of the old one already.
#[test]
fn a_replaced_member_is_recorded_before_the_node_that_replaced_it_is_removed() {
    let given_up = |voters: &[NodeId]| view(voters, &[]).with_join(4, MemberRole::Voter, Some(2)).with_removal(4);
    assert_eq!(next_step(&given_up(&[1, 3, 4])), Some(Step::RecordRemoval { node: 2 }));
    assert_eq!(next_step(&given_up(&[1, 3])), Some(Step::RecordRemoval { node: 2 }), "also after that");
    assert_eq!(next_step(&given_up(&[1, 3, 4]).with_replaced_recorded()), Some(Step::RemoveMember { node: 4 }));
    assert_eq!(next_step(&given_up(&[1, 2, 3])), Some(Step::RecordRemoval { node: 4 }), "node 2 stays a member");
}

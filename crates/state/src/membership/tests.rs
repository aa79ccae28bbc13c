//! The limits of what is remembered about members, and which nodes are gone.

use super::{AdmitNode, CreateJoinToken, JoinTokenFault, Placement};
use crate::{
    State,
    command::{Command, Outcome, Rejection},
};
use fairhold_types::{
    Incarnation, JoinTokenNumber, MemberRole, NodeId,
    limits::{JOIN_TOKENS_MAX, REMOVED_NODES_MAX},
    time::WallMillis,
};

const AT: WallMillis = WallMillis(1_000);

fn done(state: &mut State, command: Command) -> Outcome {
    let applied = state.apply(&command);
    state.check().unwrap();
    applied.answer.result.unwrap()
}

fn create(expires_at: u64, at: u64) -> Command {
    Command::CreateJoinToken(CreateJoinToken {
        key: None,
        secret_hash: [7; 32],
        role: MemberRole::Voter,
        replaces: None,
        standing: false,
        up_to: None,
        expires_at: Some(WallMillis(expires_at)),
        by: "curl@10.0.0.7".to_owned(),
        at: WallMillis(at),
    })
}

fn admit(token: u64, incarnation: u128, at: WallMillis) -> Command {
    Command::AdmitNode(AdmitNode {
        token: JoinTokenNumber(token),
        secret_hash: [7; 32],
        incarnation: Incarnation(incarnation),
        url: "http://10.0.0.4:7171".to_owned(),
        address: "10.0.0.4:7271".to_owned(),
        replaces: None,
        ids_through: 3,
        at,
    })
}

fn remove(node: NodeId) -> Command {
    Command::RecordRemoval { node, incarnation: None, ids_through: 3, at: AT }
}

fn reread(state: &State) -> State {
    let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
    State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).unwrap()
}

#[test]
fn the_last_join_token_is_refused_until_others_have_expired() {
    let mut state = State::new();
    for number in 1..=JOIN_TOKENS_MAX as u64 {
        let expires_at = if number <= 40 { 5_000 } else { 9_000 };
        let created = done(&mut state, create(expires_at, 1_000));
        assert_eq!(created, Outcome::JoinTokenCreated { number: JoinTokenNumber(number), repeated: false });
    }
    let before = state.clone();
    let refused = state.apply(&create(9_000, 4_999)).answer.result;
    assert_eq!(refused, Err(Rejection::JoinTokensFull { max: JOIN_TOKENS_MAX as u64 }));
    assert!(state == before, "a refusal forgot something");
    done(&mut state, create(9_000, 5_000));
    let numbers: Vec<u64> = state.membership().tokens().map(|(number, _)| number.0).collect();
    assert_eq!(numbers, (41..=101).collect::<Vec<u64>>());
    assert!(reread(&state) == state);
}

#[test]
fn a_used_join_token_makes_room_once_its_join_is_over() {
    let mut state = State::new();
    for _ in 1..=JOIN_TOKENS_MAX {
        done(&mut state, create(9_000, 1_000));
    }
    for (token, node) in [(7, 4), (3, 5)] {
        let admitted = done(&mut state, admit(token, u128::from(node), AT));
        assert_eq!(admitted, Outcome::Admitted { node, role: MemberRole::Voter, replaces: None });
    }
    let full = Err(Rejection::JoinTokensFull { max: JOIN_TOKENS_MAX as u64 });
    assert_eq!(state.apply(&create(9_000, 1_000)).answer.result, full, "both nodes may need their tokens again");
    done(&mut state, Command::SettleJoin { node: 4, at: AT });
    assert_eq!(
        done(&mut state, create(9_000, 1_000)),
        Outcome::JoinTokenCreated { number: JoinTokenNumber(101), repeated: false }
    );
    let known = |state: &State, number| state.membership().token(JoinTokenNumber(number)).is_some();
    assert!(!known(&state, 7) && known(&state, 3) && known(&state, 1));
    assert_eq!(state.apply(&create(9_000, 1_000)).answer.result, full, "one made room for one");
    let again = done(&mut state, admit(3, 5, AT));
    assert_eq!(again, Outcome::Admitted { node: 5, role: MemberRole::Voter, replaces: None }, "its answer was lost");
    assert!(reread(&state) == state);
}

/// A request to join that arrives again after its node was removed.
#[test]
fn a_data_directory_that_came_and_went_is_not_admitted_again() {
    let mut state = State::new();
    for _ in 0..2 {
        done(&mut state, create(9_000, 1_000));
    }
    assert!(matches!(done(&mut state, admit(1, 7, AT)), Outcome::Admitted { node: 4, .. }));
    done(&mut state, Command::SettleJoin { node: 4, at: AT });
    done(&mut state, Command::RecordRemoval { node: 4, incarnation: Some(Incarnation(7)), ids_through: 4, at: AT });
    let refused = state.apply(&admit(2, 7, AT)).answer.result;
    assert_eq!(refused, Err(Rejection::JoinToken(JoinTokenFault::Removed { node: 4 })));
    assert!(matches!(done(&mut state, admit(2, 8, AT)), Outcome::Admitted { node: 5, .. }), "another directory");
}

#[test]
fn a_join_token_expires_to_the_millisecond() {
    let mut state = State::new();
    done(&mut state, create(5_000, 1_000));
    let expired = state.apply(&admit(1, 7, WallMillis(5_000))).answer.result;
    assert_eq!(expired, Err(Rejection::JoinToken(JoinTokenFault::Expired)));
    assert!(matches!(done(&mut state, admit(1, 7, WallMillis(4_999))), Outcome::Admitted { node: 4, .. }));
}

#[test]
fn the_oldest_removed_node_is_forgotten_first_and_its_id_is_not_given_again() {
    let mut state = State::new();
    let last = REMOVED_NODES_MAX as NodeId + 2;
    // The node with the lowest id is removed last.
    for node in (1..=last).rev() {
        done(&mut state, remove(node));
    }
    let membership = state.membership();
    assert_eq!(membership.removed().count(), REMOVED_NODES_MAX);
    assert!(membership.removed_node(last).is_none() && membership.removed_node(last - 1).is_none());
    assert!(membership.removed_node(last - 2).is_some() && membership.removed_node(1).is_some());
    assert!(membership.is_gone(last, false) && !membership.is_gone(last + 1, false));
    done(&mut state, create(5_000, 1_000));
    let admitted = done(&mut state, admit(1, 7, AT));
    assert_eq!(admitted, Outcome::Admitted { node: last + 1, role: MemberRole::Voter, replaces: None });
    assert!(reread(&state) == state);
}

#[test]
fn a_node_is_gone_if_its_id_was_given_and_it_neither_joins_nor_is_a_member() {
    let mut state = State::new();
    let gone = |state: &State, is_member| (0..7).filter(|id| state.membership().is_gone(*id, is_member)).collect::<Vec<NodeId>>();
    // Before the first change the state knows of no id.
    assert_eq!((gone(&state, false), gone(&state, true)), (vec![], vec![]));
    done(&mut state, create(5_000, 1_000));
    done(&mut state, admit(1, 7, AT));
    assert_eq!((gone(&state, false), gone(&state, true)), (vec![1, 2, 3], vec![]));
    assert!(!state.membership().is_settled());
    done(&mut state, Command::SettleJoin { node: 4, at: AT });
    assert!(state.membership().is_settled() && state.membership().has_set_address(4));
    assert_eq!((gone(&state, false), gone(&state, true)), (vec![1, 2, 3, 4], vec![]));
    done(&mut state, remove(2));
    assert_eq!((gone(&state, false), gone(&state, true)), (vec![1, 2, 3, 4], vec![2]));
}

#[test]
fn no_id_is_given_twice_even_if_there_is_none_left() {
    let mut state = State::new();
    for _ in 0..2 {
        done(&mut state, create(9_000, 1_000));
    }
    done(&mut state, remove(NodeId::MAX - 1));
    assert!(matches!(done(&mut state, admit(1, 7, AT)), Outcome::Admitted { node: NodeId::MAX, .. }));
    let refused = state.apply(&admit(2, 8, AT)).answer.result;
    assert!(matches!(refused, Err(Rejection::Unsupported { .. })), "{refused:?}");
}

/// A cluster at version 1 writes the snapshots of before, and later ones are different.
#[test]
fn a_state_without_changes_of_members_has_no_record_of_them() {
    let mut state = State::new();
    let bytes = |state: &State| state.snapshot_blocks().map(|block| block.len()).sum::<usize>();
    let (before, digest, estimate) = (bytes(&state), state.digest(), state.snapshot_bytes());
    let set = |priority| {
        Command::SetMember(super::SetMember {
            key: None,
            node: 2,
            priority: Some(priority),
            zone: None,
            address_set: false,
            by: String::new(),
            at: AT,
        })
    };
    done(&mut state, set(70));
    assert!(bytes(&state) > before && state.digest() != digest && state.snapshot_bytes() > estimate);
    assert_eq!(state.membership().placement(2), Placement { priority: 70, zone: None });
    done(&mut state, set(50));
    // Only the revision differs.
    assert_eq!((bytes(&state), state.snapshot_bytes()), (before, estimate));
}

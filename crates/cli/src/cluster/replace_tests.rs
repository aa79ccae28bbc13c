//! The stages of a replacement, from invented answers.

use super::*;
use serde_json::Value;

/// Voters with these ids, the first of which leads, and these joins.
fn view(voters: &[NodeId], joins: &Value) -> MembersView {
    let member = |id: &NodeId| {
        let role = if *id == voters[0] { "leader" } else { "follower" };
        json!({ "id": id, "url": format!("http://n{id}:7171"), "peer": format!("n{id}:7271"), "role": role, "priority": 50 })
    };
    let members: Vec<Value> = voters.iter().map(member).collect();
    let body = json!({ "members": members, "joins": joins, "removed": [], "joint": false, "from_leader": true });
    serde_json::from_value(body).unwrap()
}

fn join(phase: &str, more: &Value) -> Value {
    let mut join = json!({
        "id": 4, "url": "http://d:7171", "peer": "d:7271", "role": "voter", "replaces": 2, "phase": phase, "requested_at": "then",
    });
    join.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!([join])
}

fn token(used_by: Option<NodeId>) -> JoinToken {
    let body = json!({
        "number": 7, "role": "voter", "replaces": 2, "standing": false, "created_at": "then", "used_by": used_by, "by": "",
    });
    serde_json::from_value(body).unwrap()
}

const NUMBER: Option<JoinTokenNumber> = Some(JoinTokenNumber(7));

#[test]
fn a_replacement_is_reported_step_by_step() {
    let mut progress = Progress::default();
    let start = Instant::now();
    let mut line = |after: u64, token: Option<&JoinToken>, view: &MembersView| {
        progress.line(2, &stage(2, NUMBER, token, view), start + Duration::from_secs(after))
    };
    let (unused, used) = (token(None), token(Some(4)));
    let nothing = view(&[1, 2, 3], &json!([]));
    assert_eq!(line(0, Some(&unused), &nothing).unwrap(), "waiting for the new node to show the join token");
    assert_eq!((line(1, Some(&unused), &nothing), line(99, Some(&unused), &nothing)), (None, None));
    let pending = view(&[1, 2, 3], &join("pending", &json!({})));
    assert_eq!(line(102, Some(&used), &pending).unwrap(), "node 4 at http://d:7171 has joined, and becomes a learner");
    let behind = |lag: u64| view(&[1, 2, 3], &join("catching_up", &json!({ "lag": lag })));
    assert_eq!(line(103, Some(&used), &behind(900)).unwrap(), "node 4 catches up: it is 900 log entries behind the leader");
    assert_eq!(line(112, Some(&used), &behind(500)), None, "not every second");
    assert_eq!(line(113, Some(&used), &behind(400)).unwrap(), "node 4 catches up: it is 400 log entries behind the leader");
    let silent = view(&[1, 2, 3], &join("catching_up", &json!({ "lag": 400, "waits_for": "it does not answer" })));
    assert_eq!(line(114, Some(&used), &silent).unwrap(), "node 4 catches up: it does not answer");
    let promoting = view(&[1, 2, 3], &join("promoting", &json!({ "lag": 3 })));
    assert_eq!(line(115, Some(&used), &promoting).unwrap(), "node 4 takes the place of node 2");
    let swapped = view(&[1, 3, 4], &join("promoting", &json!({})));
    assert_eq!(line(116, Some(&used), &swapped), None);
    // The token may have expired meanwhile.
    assert_eq!(line(117, None, &view(&[1, 3, 4], &json!([]))).unwrap(), "done: node 4 has replaced node 2");
}

#[test]
fn a_replacement_that_cannot_complete_ends_with_the_next_step() {
    let nothing = view(&[1, 2, 3], &json!([]));
    let over = |number, token: Option<&JoinToken>| match stage(2, number, token, &nothing) {
        Stage::Over(why) => why,
        other @ (Stage::Waiting | Stage::Joining { .. } | Stage::Done(_)) => panic!("{other:?}"),
    };
    assert!(over(NUMBER, None).starts_with("join token 7 has expired or was revoked"));
    assert!(over(NUMBER, Some(&token(Some(4)))).starts_with("node 4 has used the join token, but does not join any more"));
    assert!(over(None, None).starts_with("the join was given up"));
    for why in [over(NUMBER, None), over(NUMBER, Some(&token(Some(4)))), over(None, None)] {
        assert!(why.ends_with("run fairhold cluster replace 2"), "{why}");
    }
    let removed = view(&[1, 3], &json!([]));
    let Stage::Over(why) = stage(2, NUMBER, Some(&token(None)), &removed) else { panic!("another administrator removed it") };
    assert!(why.starts_with("node 2 is no member any more, but no node has used the join token"), "{why}");
    assert!(why.ends_with("to revoke the token: fairhold cluster tokens revoke 7"), "{why}");
    // Without the leader nobody knows.
    let unsure = MembersView { from_leader: false, ..nothing };
    assert_eq!(stage(2, NUMBER, None, &unsure), Stage::Waiting);
}

#[test]
fn a_stopped_display_names_the_token_that_stays_valid() {
    let text = stopped(NUMBER);
    assert!(text.contains("join token 7 stays valid") && text.ends_with("fairhold cluster tokens revoke 7"), "{text}");
    assert!(stopped(None).ends_with("To see how far it is: fairhold cluster members"), "the token was used");
}

#[test]
fn a_member_is_replaced_by_one_node_with_the_same_role() {
    let mut known = view(&[1, 2, 3], &json!([]));
    assert_eq!(check(2, &known).unwrap(), Old::Member(MemberRole::Voter));
    assert!(check(9, &known).unwrap_err().to_string().ends_with("choose one of the members, which are 1, 2, 3"));
    known.members[1].role = "learner".to_owned();
    assert_eq!(check(2, &known).unwrap(), Old::Member(MemberRole::Learner));
    let under_way = view(&[1, 2, 3], &join("pending", &json!({})));
    assert!(matches!(check(2, &under_way).unwrap(), Old::Replaced(join) if join.id == 4));
}

#[test]
fn a_join_that_replaces_the_member_already_can_be_given_up() {
    let under_way = view(&[1, 2, 3], &join("catching_up", &json!({})));
    let Old::Replaced(join) = check(2, &under_way).unwrap() else { panic!("node 4 replaces it") };
    assert!(already(2, join).contains("fairhold cluster remove 4"), "{}", already(2, join));
}

#[test]
fn an_operator_who_replaces_a_member_that_answers_hears_of_one_that_does_not() {
    let mut known = view(&[1, 2, 3], &json!([]));
    assert_eq!(other_is_silent(2, &known), None, "all answer");
    known.members[2].silent_for = Some("4.9s".to_owned());
    assert_eq!(other_is_silent(2, &known), None, "it may be slow");
    known.members[2].silent_for = Some("2m3s".to_owned());
    let warning = other_is_silent(2, &known).unwrap();
    assert!(warning.starts_with("node 2 answers, and node 3 does not"), "{warning}");
    assert!(warning.ends_with("fairhold cluster replace 3"), "{warning}");
    assert_eq!(other_is_silent(3, &known), None, "it is the silent one");
    let unsure = MembersView { from_leader: false, ..known };
    assert_eq!(other_is_silent(2, &unsure), None, "only the leader knows");
}

#[test]
fn an_operator_who_replaces_a_member_that_answers_is_told_so_at_once() {
    let mut known = view(&[1, 2, 3], &json!([]));
    assert!(answers_now(1, &known).is_some_and(|text| text.starts_with("node 1 answers now")), "it leads");
    assert_eq!(answers_now(2, &known), None, "the leader has not heard of it yet");
    known.members[1].silent_for = Some("1s".to_owned());
    assert_eq!(answers_now(2, &known), None, "it may have died a moment ago");
    known.members[1].silent_for = Some("40ms".to_owned());
    assert!(answers_now(2, &known).is_some());
    assert_eq!(answers_now(2, &MembersView { from_leader: false, ..known }), None, "only the leader knows");
}

#[test]
fn earlier_tokens_for_the_same_member_are_named() {
    let other = |number: u64, used_by| JoinToken { number: JoinTokenNumber(number), ..token(used_by) };
    assert_eq!(other_tokens(2, JoinTokenNumber(7), &[other(7, None), other(5, Some(4))]), None);
    let one = other_tokens(2, JoinTokenNumber(7), &[other(6, None), other(7, None)]).unwrap();
    assert!(one.starts_with("the earlier join token 6 for node 2 is still valid"), "{one}");
    let two = other_tokens(2, JoinTokenNumber(7), &[other(5, None), other(6, None)]).unwrap();
    assert!(two.starts_with("the earlier join tokens 5, 6 for node 2 are still valid"), "{two}");
    assert_eq!(other_tokens(3, JoinTokenNumber(7), &[other(6, None)]), None, "for another member");
}

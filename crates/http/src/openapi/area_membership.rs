//! Describes the calls on join tokens, members and settings.

use super::{
    describe::{DescribeCall, Describer, Operation},
    operation::OperationKind::{Change, Here, Keyed, Read},
};
use fairhold_types::{Code, call, dto};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "members";

pub(super) const CALLS: &[DescribeCall] = &[
    create_join_token,
    list_join_tokens,
    revoke_join_token,
    show_members,
    set_member,
    remove_member,
    show_settings,
    set_settings,
    show_timing,
];

fn number(example: &str) -> Value {
    json!({ "type": "string", "pattern": "^0*[1-9][0-9]{0,15}$", "example": example })
}

fn create_join_token(api: &mut Describer) -> Operation<'_> {
    let excludes = |name: &str, schema: Value| {
        let properties = json!({ "standing": { "const": true }, name: schema });
        json!({ "not": { "required": ["standing", name], "properties": properties } })
    };
    let only_standing = json!({
        "if": { "required": ["up_to"] },
        "then": { "required": ["standing"], "properties": { "standing": { "const": true } } },
    });
    let rules = json!([
        excludes("ttl", json!({})),
        excludes("replaces", json!({})),
        excludes("role", json!({ "const": "learner" })),
        only_standing,
    ]);
    let created = json!({
        "number": 7, "token": "fhj1.AVnO8Jk3…", "role": "voter", "replaces": 2, "standing": false,
        "expires_at": "2026-01-01T13:00:00.000Z",
        "command": "fairhold serve --data /var/lib/fairhold --join-file join-token --advertise http://HOST:7171,HOST:7271",
    });
    let summary = "Create a join token, with which a new node joins the cluster.";
    api.call(Keyed(Method::POST), "/v1/cluster/join-tokens", "createJoinToken", TAG, summary)
        .about(
            "For administrators. The token is a secret, and is shown only this once: a repeated request with the same \
             Idempotency-Key shows the number without it. Write it to a file on the new machine, and start the node there with \
             `command`. The cluster gives the node its id, sends it the state, and makes it a voter once it has caught up. A \
             token admits one node, unless it is a standing one.",
        )
        .form::<call::CreateJoinToken>(Some(rules), json!({ "replaces": 2, "ttl": "1h" }))
        .json_as::<dto::CreatedJoinToken>(StatusCode::CREATED, "The join token.", created)
        .codes(&[Code::NeedsUpgrade, Code::ChangeInProgress, Code::NotFound])
        .admin()
}

fn list_join_tokens(api: &mut Describer) -> Operation<'_> {
    let used = json!({
        "number": 7, "role": "voter", "replaces": 2, "standing": false, "created_at": "2026-01-01T12:00:00.000Z",
        "expires_at": "2026-01-01T13:00:00.000Z", "used_by": 5, "by": "fairhold@10.0.0.7",
    });
    let standing = json!({
        "number": 8, "role": "voter", "standing": true, "up_to": 5, "created_at": "2026-01-01T12:00:00.000Z",
        "by": "fairhold@10.0.0.7",
    });
    api.call(Read, "/v1/cluster/join-tokens", "listJoinTokens", TAG, "List the join tokens, without their secrets.")
        .about("A used token stays in the list until it expires.")
        .query::<call::ListJoinTokens>()
        .json::<dto::JoinTokens>("The tokens, by their numbers.", json!({ "tokens": [used, standing] }))
}

fn revoke_join_token(api: &mut Describer) -> Operation<'_> {
    let summary = "Revoke a join token: no further node can join with it.";
    api.call(Change(Method::DELETE), "/v1/cluster/join-tokens/{number}", "revokeJoinToken", TAG, summary)
        .about("For administrators. A node that has used the token stays. If there is no such token, the answer is also `204`.")
        .in_path("number", "The token's number.", number("7"))
        .empty(StatusCode::NO_CONTENT, "No node can join with this token any more.")
        .codes(&[Code::NeedsUpgrade])
        .admin()
}

fn members() -> Value {
    let member = |id: u64, role: &str| {
        json!({
            "id": id, "url": format!("http://n{id}:7171"), "peer": format!("n{id}:7271"), "role": role, "priority": 50,
            "zone": "eu-west-1a", "lag": 0,
        })
    };
    let mut silent = member(2, "follower");
    silent["silent_for"] = "184000ms".into();
    silent["lag"] = 8_112.into();
    json!({
        "members": [member(1, "leader"), silent, member(3, "follower"), member(5, "learner")],
        "joins": [{
            "id": 5, "url": "http://n5:7171", "peer": "n5:7271", "role": "voter", "replaces": 2, "phase": "catching_up",
            "lag": 3_405, "requested_at": "2026-01-01T12:00:00.000Z",
        }],
        "removed": [{ "id": 4, "revision": 812, "by": "fairhold@10.0.0.7", "at": "2026-01-01T11:00:00.000Z" }],
        "joint": false, "from_leader": true,
    })
}

fn show_members(api: &mut Describer) -> Operation<'_> {
    let summary = "Show the members, the joins and removals under way, and the removed nodes.";
    api.call(Here, "/v1/cluster/members", "getMembers", TAG, summary)
        .about(
            "The leader's view. If the leader does not answer within the timeout, this server answers with its own view, even \
             without a quorum.",
        )
        .timeout()
        .json::<dto::Members>("The members.", members())
        .codes(&[Code::BadRequest, Code::WrongCluster])
}

fn set_member(api: &mut Describer) -> Operation<'_> {
    let one_of_them = |name: &str| json!({ "required": [name] });
    let any = ["url", "peer", "priority", "zone", "voter"].map(one_of_them);
    let with_voter = ["url", "peer", "force", "priority", "zone"].map(|name| json!({ "not": { "required": ["voter", name] } }));
    let rules: Value = [json!({ "anyOf": any })].into_iter().chain(with_voter).collect();
    let summary = "Change the addresses, the priority, the zone or the vote of a member.";
    api.call(Keyed(Method::PATCH), "/v1/cluster/members/{id}", "setMember", TAG, summary)
        .about(
            "For administrators. Pass at least one parameter; everything else stays as it is. With an Idempotency-Key the \
             change happens once: a retry that arrives late does not undo later changes.",
        )
        .in_path("id", "The member's id.", number("2"))
        .form::<call::SetMember>(Some(rules), json!({ "priority": 80, "zone": "eu-west-1a" }))
        .json::<dto::Members>("The member is changed.", members())
        .codes(&[
            Code::NeedsUpgrade,
            Code::NotFound,
            Code::ChangeInProgress,
            Code::WrongNode,
            Code::WouldLoseQuorum,
            Code::NotCaughtUp,
        ])
        .admin()
}

fn remove_member(api: &mut Describer) -> Operation<'_> {
    api.call(Change(Method::DELETE), "/v1/cluster/members/{id}", "removeMember", TAG, "Remove a member, or give up a join.")
        .about(
            "For administrators. If the member leads, it transfers the leadership first. The cluster refuses to remove a voter \
             if fewer than a majority of the others would be healthy. The last voter cannot be removed: if all other voters are \
             being removed, the answer is `change_in_progress`. A removed node stops, and its id is never used again. If the \
             node was removed before, the answer is also `204`.",
        )
        .in_path("id", "The member's id.", number("2"))
        .empty(StatusCode::NO_CONTENT, "The node is not a member any more.")
        .codes(&[Code::NeedsUpgrade, Code::NotFound, Code::ChangeInProgress, Code::WouldLoseQuorum])
        .admin()
}

fn settings(timing: &str) -> Value {
    json!({ "timing": timing, "cluster_version": 2 })
}

fn show_settings(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/cluster/settings", "getSettings", TAG, "Show the settings of the cluster.")
        .query::<call::ShowSettings>()
        .json::<dto::Settings>("The settings.", settings("lan"))
}

fn set_settings(api: &mut Describer) -> Operation<'_> {
    let rules = json!([{ "anyOf": [{ "required": ["timing"] }] }]);
    api.call(Keyed(Method::PATCH), "/v1/cluster/settings", "setSettings", TAG, "Change the settings of the cluster.")
        .about(
            "For administrators. Every node uses a new timing profile after its next start: restart them one by one. A profile \
             that is too fast for the round trips between the voters, as the leader has measured them, is refused unless you \
             pass `force`. With an Idempotency-Key the change happens once: a retry that arrives late does not undo later \
             changes.",
        )
        .form::<call::SetSettings>(Some(rules), json!({ "timing": "wan" }))
        .json::<dto::Settings>("The settings.", settings("wan"))
        .codes(&[Code::NeedsUpgrade, Code::TimingTooFast])
        .admin()
}

fn show_timing(api: &mut Describer) -> Operation<'_> {
    let member = |id: u64, [mean, median, p99]: [&str; 3]| {
        let mut member = json!({ "id": id, "voter": true, "round_trip": mean });
        member["round_trip_p50"] = median.into();
        member["round_trip_p99"] = p99.into();
        member
    };
    let members = [json!({ "id": 1, "voter": true }), member(2, ["2ms", "1ms", "4ms"]), member(3, ["88ms", "87ms", "112ms"])];
    let example = json!({ "timing": "lan", "fits": "wan", "members": members, "from_leader": true });
    let summary = "Show the timing profile, the round trips to the members, and the profile that suits them.";
    api.call(Here, "/v1/cluster/timing", "getTiming", TAG, summary)
        .about("Only the leader knows the round trips: `Fairhold-Leader` in the answer of another server names it.")
        .json::<dto::ClusterTiming>("The profile and the round trips.", example)
        .codes(&[Code::BadRequest, Code::WrongCluster])
}

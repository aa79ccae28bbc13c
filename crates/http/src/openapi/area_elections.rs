//! Describes the calls on elections.

use super::{
    area_grants,
    describe::{DescribeCall, Describer, Operation},
    lines,
    operation::OperationKind::{Keyed, Read},
    vocabulary::lock_name,
};
use fairhold_types::{Code, call, dto, election};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "elections";
const NAME: &str = "The election's name; write its slashes as %2F.";

pub(super) const CALLS: &[DescribeCall] = &[list, stand, proclaim, leader];

fn election_name() -> Value {
    let mut name = lock_name();
    name["example"] = "primary".into();
    name
}

fn list(api: &mut Describer) -> Operation<'_> {
    let item = json!({
        "election": "primary", "value": "http://10.0.0.7:8080", "token": 42, "waiting": 2,
        "leader": { "number": 41, "owner": "ci-7", "since": "2026-01-01T12:00:00.000Z", "token": 42, "held_for": "31s" },
    });
    api.call(Read, "/v1/elections", "listElections", TAG, "List elections by name, page by page.")
        .about(
            "The list has all elections with a leader or a candidate, and keeps unused elections for 10 minutes. An election \
             without a leader has no `leader`, `value` and `token`. With access rights, the list leaves out the elections that \
             you may not inspect. A page ends early when its values reach 256 KiB.",
        )
        .query::<call::ListElections>()
        .page::<dto::Page<election::ListedElection>>("A page.", json!({ "items": [item], "next_cursor": null }))
}

fn stand(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "value": "http://10.0.0.7:8080", "wait": "10m" });
    api.call(Keyed(Method::POST), "/v1/elections/{name}", "stand", TAG, "Stand for an election.")
        .about(
            "The first in the queue leads. A candidacy is a grant like that of a lock: it has a token, and you renew and release \
             it in the same way; releasing it resigns. The first use of a name makes it a lock or an election; the other use is \
             then `kind_mismatch`, until nobody has used the name for 10 minutes.",
        )
        .in_path("name", NAME, election_name())
        .acquire::<call::Stand>(None, example, "The caller leads.", area_grants::held())
}

fn proclaim(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "grant": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "value": "http://10.0.0.7:8081" });
    api.call(Keyed(Method::PUT), "/v1/elections/{name}", "proclaim", TAG, "Proclaim another value.")
        .about(
            "Only for the leader. Observers see the new value once, however often you repeat the request with the same \
             Idempotency-Key.",
        )
        .in_path("name", NAME, election_name())
        .form::<call::Proclaim>(None, example)
        .json::<election::Proclaimed>("The value is proclaimed.", json!({ "election": "primary", "version": 1, "revision": 57 }))
        .codes(&[Code::NotLeader, Code::RateLimited])
}

fn leader(api: &mut Describer) -> Operation<'_> {
    let example = json!({
        "election": "primary", "value": "http://10.0.0.7:8080", "token": 42, "version": 0, "value_since": 42, "session": 40,
        "leader": { "number": 41, "owner": "ci-7", "since": "2026-01-01T12:00:00.000Z", "token": 42, "held_for": "31s" },
    });
    let last = json!({ "type": "string", "pattern": "^[0-9]{1,15}$" });
    api.call(Read, "/v1/elections/{name}", "getLeader", TAG, "Show or observe the leader.")
        .about(
            "With `Accept: application/x-ndjson` or `text/event-stream` the answer is a stream: first the current leader, then \
             every leader and every proclaimed value, once and in order; if some events are no longer kept, its last line says \
             so. With `from` the stream continues an earlier one and does not start with the current leader. `wait` and `after` \
             are for a single answer.",
        )
        .in_path("name", NAME, election_name())
        .query::<call::GetLeader>()
        .header("Last-Event-ID", "For a stream: continue after this revision.", last)
        .json::<election::Election>("The leader.", example)
        .stream::<election::ElectionLine>("", lines::observed())
        .empty(StatusCode::NOT_MODIFIED, "Nothing has changed.")
        .codes(&[Code::NoLeader, Code::KindMismatch, Code::Compacted])
}

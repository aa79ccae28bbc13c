//! Elections, described.

use super::{
    area_grants,
    area_locks::{consistency, lock_name},
    area_watch::with_long_poll,
    describe::{Describer, Kind, Operation},
    lines,
    parameter::{form, integer, text},
};
use crate::elections::{LEADER, PROCLAIM, STAND};
use fairhold_types::{Code, election, hold, limits::ELECTION_VALUE_BYTES_MAX, pattern};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "elections";
const NAME: &str = "The election's name; its slashes are written %2F.";

pub(super) fn operations(describe: &mut Describer) -> Vec<Operation> {
    vec![stand(describe), proclaim(describe), leader(describe)]
}

fn election_name() -> Value {
    let mut name = lock_name();
    name["example"] = "primary".into();
    name
}

fn stand(describe: &mut Describer) -> Operation {
    let rules = json!([{ "not": { "required": ["ttl", "session"] } }, { "not": { "required": ["hold", "session"] } }]);
    let example = json!({ "value": "http://10.0.0.7:8080", "wait": "10m" });
    let line = describe.schema::<hold::Line>();
    let mut parameters = vec![text("value", "What is proclaimed when the caller leads.", ELECTION_VALUE_BYTES_MAX)];
    parameters.extend(area_grants::candidate_parameters());
    describe
        .call(Method::POST, "/v1/elections/{name}", "stand", TAG, "Stand for an election.")
        .about(
            "The first in line leads: it is a grant as of a lock, with a token, and is renewed and given back in the same way; \
             to give it back is to resign. A name is a lock or an election, as it was first used, until nobody has stood in it \
             for 10 minutes: the other use is `kind_mismatch`.",
        )
        .in_path("name", NAME, election_name())
        .form(&STAND, parameters, Some(rules), Some(example))
        .held_or_waiting("The caller leads.", area_grants::held(), line)
        .done(Kind::Keyed)
}

fn proclaim(describe: &mut Describer) -> Operation {
    let example = json!({ "grant": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "value": "http://10.0.0.7:8081" });
    describe
        .call(Method::PUT, "/v1/elections/{name}", "proclaim", TAG, "Be known by another value.")
        .about("For the leader alone. Whoever observes is told once, however often it is repeated with the same Idempotency-Key.")
        .in_path("name", NAME, election_name())
        .form(
            &PROCLAIM,
            vec![
                form("grant", "The id of the leader's grant.", pattern::GRANT_ID).required(),
                text("value", "What to proclaim.", ELECTION_VALUE_BYTES_MAX).required(),
            ],
            None,
            Some(example),
        )
        .json::<election::Proclaimed>(
            StatusCode::OK,
            "It is proclaimed.",
            json!({ "election": "primary", "version": 1, "revision": 57 }),
        )
        .codes(&[Code::NotLeader, Code::RateLimited, Code::TooLarge])
        .done(Kind::Keyed)
}

fn leader(describe: &mut Describer) -> Operation {
    let line = describe.schema::<election::Line>();
    let example = json!({
        "election": "primary", "value": "http://10.0.0.7:8080", "token": 42, "version": 0, "value_since": 42, "session": 40,
        "leader": { "number": 41, "owner": "ci-7", "since": "2026-01-01T12:00:00.000Z", "token": 42, "held_for": "31s" },
    });
    let [lines, events] = lines::observed();
    let last = json!({ "type": "string", "pattern": "^[0-9]{1,15}$" });
    let from = "Of a stream: begin with this revision; the next one is the last that may be named.";
    describe
        .call(Method::GET, "/v1/elections/{name}", "getLeader", TAG, "Show or observe who leads.")
        .about(
            "With `Accept: application/x-ndjson` or `text/event-stream` it lasts: first how it stands, then every leader and \
             every value that is proclaimed, once and in order, or as the last line the news that some are gone. `from` leaves \
             out how it stands, and goes on after an earlier stream. `wait` and `after` are for a single answer.",
        )
        .in_path("name", NAME, election_name())
        .query(&LEADER, with_long_poll(vec![integer("from", from, 1..=u64::MAX, None), consistency()]))
        .header("Last-Event-ID", "Of a stream: go on after this revision.", last)
        .json::<election::Election>(StatusCode::OK, "The leader.", example)
        .content(StatusCode::OK, "", "application/x-ndjson", line)
        .lines("application/x-ndjson", lines)
        .content(StatusCode::OK, "", "text/event-stream", json!({ "type": "string" }))
        .lines("text/event-stream", events)
        .empty(StatusCode::NOT_MODIFIED, "Nothing is newer.")
        .codes(&[Code::NoLeader, Code::KindMismatch, Code::Compacted])
        .done(Kind::Read)
}

//! Describes the calls on sessions.

use super::{
    describe::{DescribeCall, Describer, Operation},
    examples::SESSION_ID as ID,
    operation::OperationKind::{Change, Keyed, Read},
};
use fairhold_types::{Code, call, dto, limits::SESSION_ROW_MAX, pattern};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "sessions";

pub(super) const CALLS: &[DescribeCall] = &[open, keepalive, keepalive_many, list_all, show, close];

fn session_id() -> Value {
    json!({ "type": "string", "pattern": pattern::SESSION_ID, "example": ID })
}

/// A session's secret id or public number.
fn session() -> Value {
    json!({ "type": "string", "pattern": "^([0-9a-f]{32}|0*[0-9]{1,19})$", "example": "41" })
}

fn shown() -> Value {
    json!({
        "number": 41, "name": "worker-3", "ttl": "15s", "anonymous": false, "opened_at": "2026-01-01T12:00:00.000Z",
        "grants": [{ "number": 42, "lock": "deploy", "state": "held", "token": 42 }], "grant_count": 1,
        "ephemeral_nodes": ["/workers/3"], "ephemeral_count": 1, "next_cursor": null,
    })
}

/// What only the answer about a single session has.
fn shown_alone() -> Value {
    let mut session = shown();
    session["heard_ago"] = "4s".into();
    session
}

fn open(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/sessions", "openSession", TAG, "Open a session.")
        .about(
            "Its `id` is a secret: with it, anyone can control the session. Its `number` is public. The `Idempotency-Key` of \
             this call is as secret as the `id`: with the key, any caller with a valid credential can repeat the request, and \
             gets the same answer.",
        )
        .form::<call::OpenSession>(None, json!({ "ttl": "15s", "name": "worker-3", "meta": {} }))
        .json_as::<dto::OpenedSession>(
            StatusCode::CREATED,
            "The session is open.",
            json!({ "id": ID, "number": 41, "ttl": "15s", "expires_in": "15s" }),
        )
        .codes(&[Code::SessionExpired])
}

fn keepalive(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/sessions/{id}/keepalive", "keepAlive", TAG, "Keep a session alive.")
        .in_path("id", "The session's secret id, not its number.", session_id())
        .form::<call::Empty>(None, json!({}))
        .json::<dto::RenewedSession>(
            "The session is alive.",
            json!({ "id": ID, "ttl": "15s", "expires_in": "15s", "expires_at": "2026-01-01T12:00:15.000Z" }),
        )
        .with_members()
        .codes(&[Code::SessionExpired, Code::Denied])
}

fn keepalive_many(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/sessions/keepalive", "keepAliveMany", TAG, "Keep many sessions alive with one call.")
        .form::<call::KeepAliveMany>(None, json!({ "ids": [ID] }))
        .json::<dto::KeptAlive>(
            "Which sessions are alive, and which have ended.",
            json!({ "renewed": [ID], "ttls": ["15s"], "expired": [] }),
        )
        .with_members()
}

fn list_all(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/sessions", "listSessions", TAG, "List sessions by number, page by page.")
        .about(&format!("Each entry has the first {SESSION_ROW_MAX} grants and nodes of the session, and the totals."))
        .query::<call::ListSessions>()
        .page::<dto::Page<dto::Session>>("A page.", json!({ "items": [shown()], "next_cursor": null }))
}

fn show(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/sessions/{id}", "getSession", TAG, "Show a session and what it owns, page by page.")
        .about(
            "Pass its secret id or its number. The answer shows no secret id. Each page continues the list of grants and the \
             list of ephemeral nodes. `heard_ago` comes from the leader: with `consistency=local`, and before cluster version 2, \
             only the leader's own answer has it.",
        )
        .in_path("id", "The session's id or number.", session())
        .query::<call::ShowSession>()
        .page::<dto::Session>("The session.", shown_alone())
        .codes(&[Code::SessionNotFound])
}

fn close(api: &mut Describer) -> Operation<'_> {
    let summary = "End a session and everything that it owns, in one step.";
    api.call(Change(Method::DELETE), "/v1/sessions/{id}", "endSession", TAG, summary)
        .about(
            "With the secret id, the owner closes the session: this releases its grants. With the number, an administrator ends \
             the session: its grants, held or queued, end as `broken`, with the reason. That needs the administrators' token if \
             the server has one.",
        )
        .in_path("id", "The session's id or number.", session())
        .query::<call::CloseSession>()
        .empty(StatusCode::NO_CONTENT, "The session has ended.")
        .codes(&[Code::SessionNotFound])
        .admin()
}

//! Sessions, described: open, keep alive, look, end.

use super::{
    area_locks::consistency,
    describe::{Describer, Kind, Operation},
    examples::SESSION_ID as ID,
    parameter::{self, form, integer, list, span, words},
};
use crate::{
    paging,
    sessions::{CLOSE, KEEPALIVE, KEEPALIVE_MANY, LIST, OPEN, SHOW},
};
use fairhold_node::api::OwnedAfter;
use fairhold_state::owned::OwnedKey;
use fairhold_types::{
    Code, GrantNumber, dto,
    limits::{
        KEEPALIVE_IDS_MAX, OWNER_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX, REASON_BYTES_MAX, SESSION_ROW_MAX, SESSION_TIMEOUT_DEFAULT,
        SESSION_TIMEOUT_MAX, SESSION_TIMEOUT_MIN,
    },
    pattern,
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "sessions";

pub(super) fn operations(describe: &mut Describer) -> Vec<Operation> {
    vec![open(describe), keepalive(describe), keepalive_many(describe), list_all(describe), show(describe), close(describe)]
}

fn session_id() -> Value {
    json!({ "type": "string", "pattern": pattern::SESSION_ID, "example": ID })
}

/// The secret id, or the public number.
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

fn open(describe: &mut Describer) -> Operation {
    let timeouts = SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX;
    describe
        .call(Method::POST, "/v1/sessions", "openSession", TAG, "Open a session.")
        .about("Its `id` is a secret: who knows it owns the session. Its `number` is public.")
        .form(
            &OPEN,
            vec![
                span("ttl", "How long it lives without a keepalive.", timeouts, Some(SESSION_TIMEOUT_DEFAULT)),
                words("name", "Its name, for people to read.", OWNER_BYTES_MAX),
                parameter::meta(),
            ],
            None,
            Some(json!({ "ttl": "15s", "name": "worker-3", "meta": {} })),
        )
        .json::<dto::OpenedSession>(
            StatusCode::CREATED,
            "It is open.",
            json!({ "id": ID, "number": 41, "ttl": "15s", "expires_in": "15s" }),
        )
        .codes(&[Code::SessionExpired, Code::TooLarge])
        .done(Kind::Keyed)
}

fn keepalive(describe: &mut Describer) -> Operation {
    describe
        .call(Method::POST, "/v1/sessions/{id}/keepalive", "keepAlive", TAG, "Keep a session alive.")
        .in_path("id", "The session's secret id; its number is refused.", session_id())
        .form(&KEEPALIVE, vec![], None, Some(json!({})))
        .json::<dto::RenewedSession>(
            StatusCode::OK,
            "It lives on.",
            json!({ "id": ID, "ttl": "15s", "expires_in": "15s", "expires_at": "2026-01-01T12:00:15.000Z" }),
        )
        .codes(&[Code::SessionExpired, Code::Denied, Code::TooLarge])
        .done(Kind::Keyed)
}

fn keepalive_many(describe: &mut Describer) -> Operation {
    let about = "The sessions' secret ids.";
    describe
        .call(Method::POST, "/v1/sessions/keepalive", "keepAliveMany", TAG, "Keep many sessions alive with one call.")
        .form(
            &KEEPALIVE_MANY,
            vec![list("ids", about, session_id(), KEEPALIVE_IDS_MAX).required()],
            None,
            Some(json!({ "ids": [ID] })),
        )
        .json::<dto::KeptAlive>(
            StatusCode::OK,
            "Who lives on, and who has ended.",
            json!({ "renewed": [ID], "ttls": ["15s"], "expired": [] }),
        )
        .codes(&[Code::TooLarge])
        .done(Kind::Keyed)
}

fn list_all(describe: &mut Describer) -> Operation {
    describe
        .call(Method::GET, "/v1/sessions", "listSessions", TAG, "List sessions by number, page by page.")
        .about(&format!("Each with the first {SESSION_ROW_MAX} of its grants and of its nodes, and how many it has."))
        .query(
            &LIST,
            vec![
                integer("limit", "Sessions on the page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                integer("cursor", "The `next_cursor` of the page before.", 0..=u64::MAX, None).like(41),
                consistency(),
            ],
        )
        .json::<dto::Page<dto::Session>>(StatusCode::OK, "A page.", json!({ "items": [shown()], "next_cursor": null }))
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(Kind::Read)
}

fn show(describe: &mut Describer) -> Operation {
    let grant = Some(OwnedKey { number: GrantNumber(42), lock: 0 });
    let cursor = paging::owned_cursor(&OwnedAfter { grant, node: None });
    describe
        .call(Method::GET, "/v1/sessions/{id}", "getSession", TAG, "Show a session and what it owns, page by page.")
        .about(
            "By its secret id or by its number. No id is shown. A page has grants and ephemeral nodes beside each other, and the \
             next one goes on with both.",
        )
        .in_path("id", "The session's id or number.", session())
        .query(
            &SHOW,
            vec![
                integer("limit", "Grants on the page, and as many nodes.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the page before.", paging::HEX_CURSOR).like(cursor),
                consistency(),
            ],
        )
        .json::<dto::Session>(StatusCode::OK, "The session.", shown())
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .codes(&[Code::SessionNotFound])
        .done(Kind::Read)
}

fn close(describe: &mut Describer) -> Operation {
    describe
        .call(Method::DELETE, "/v1/sessions/{id}", "endSession", TAG, "End a session, with all that it owns, in one step.")
        .about(
            "By its secret id its owner closes it: what it held is released. By its number an administrator ends it: what it \
             held or waited for is `broken`, with the reason, and the administrators' token is needed where one is set.",
        )
        .in_path("id", "The session's id or number.", session())
        .query(&CLOSE, vec![words("reason", "Why; only beside a number.", REASON_BYTES_MAX)])
        .empty(StatusCode::NO_CONTENT, "It has ended.")
        .codes(&[Code::SessionNotFound])
        .admin()
        .done(Kind::Change)
}

//! Grants, described: take, look, renew, give back.

use super::{
    area_locks::{consistency, lock_name},
    describe::{Describer, Kind, Operation},
    examples::{GRANT_ID, SESSION_ID},
    parameter::{self, flag, form, integer, one_of, signed, span, words},
};
use crate::{
    batch,
    grants::{ACQUIRE, ACQUIRE_MANY, DOWNGRADE, LOOK, RELEASE, RENEW, UPGRADE},
    request::up_to,
};
use fairhold_types::{
    Code,
    batch::Answers,
    dto, hold,
    limits::{
        BATCH_CALLS_MAX, LOCK_DELAY_MAX, LOCKS_TOGETHER_MAX, MAX_HOLD_MAX, MAX_HOLD_MIN, OWNER_BYTES_MAX, PERMITS_MAX,
        SESSION_TIMEOUT_DEFAULT, SESSION_TIMEOUT_MAX, SESSION_TIMEOUT_MIN, WAIT_MAX,
    },
    pattern,
};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

const TAG: &str = "grants";

pub(super) fn operations(describe: &mut Describer) -> Vec<Operation> {
    vec![
        acquire(describe),
        acquire_many(describe),
        look(describe),
        renew(describe),
        downgrade(describe),
        upgrade(describe),
        release(describe),
        batch(describe),
    ]
}

fn grant_id() -> Value {
    json!({ "type": "string", "pattern": pattern::GRANT_ID, "example": GRANT_ID })
}

pub(super) fn held() -> Value {
    json!({
        "id": GRANT_ID, "lock": "deploy", "state": "held", "token": 42, "mode": "exclusive",
        "owner": "curl@127.0.0.1", "expires_in": "30s", "expires_at": "2026-01-01T12:00:30.000Z", "number": 41, "session": 41,
        "permits": 1, "queued_at": "2026-01-01T12:00:00.000Z", "held_since": "2026-01-01T12:00:00.000Z",
    })
}

fn shared() -> Value {
    let mut shared = held();
    shared["mode"] = "shared".into();
    shared
}

fn acquire(describe: &mut Describer) -> Operation {
    let rules = json!([
        { "not": { "required": ["ttl", "session"] } },
        { "not": { "required": ["hold", "session"] } },
        { "not": { "required": ["mode", "limit"], "properties": { "mode": { "const": "shared" }, "limit": { "minimum": 2 } } } },
    ]);
    let example = json!({ "wait": "30s", "owner": "ci-7", "meta": { "build": "81" } });
    let line = describe.schema::<hold::Line>();
    describe
        .call(Method::POST, "/v1/locks/{name}", "acquire", TAG, "Take a lock, or a place in its queue.")
        .about(
            "The shortest call works: without a session one is made for this grant, without `wait` the answer comes at once. \
             The Idempotency-Key becomes the grant's id; the same key again answers for the same grant. With `hold=stream` the \
             connection is the session: the answer lasts as long as the grant, one JSON object a line. Who would wait for \
             itself in the end is refused before it waits: a named session and its `owner`, where that is named, are one who \
             waits. `ttl` and `hold` cannot stand beside `session`, nor `permits` over `limit`, nor `mode=shared` with a \
             `limit` over 1.",
        )
        .in_path("name", "The lock's name; its slashes are written %2F.", lock_name())
        .form(&ACQUIRE, acquire_parameters(), Some(rules), Some(example))
        .held_or_waiting("It is held.", held(), line)
        .codes(&[Code::WouldDeadlock, Code::LimitMismatch])
        .done(Kind::Keyed)
}

/// What a lock, several and an election have in common.
pub(super) fn candidate_parameters() -> Vec<parameter::Parameter> {
    vec![
        span("wait", "How long to wait in the queue.", up_to(WAIT_MAX), Some(Duration::ZERO)),
        span(
            "ttl",
            "How long the grant lives without a renewal; not beside `session`.",
            SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX,
            Some(SESSION_TIMEOUT_DEFAULT),
        ),
        form("session", "The id of the session that is to own it.", pattern::SESSION_ID),
        words("owner", "Who asks, for people to read; else the program's name and address.", OWNER_BYTES_MAX),
        signed(
            "priority",
            "Higher stands before lower among those who wait, but never before one who waits for several locks, and at most 16 \
             times before the one that waits longest.",
        ),
        span(
            "lock_delay",
            "How long the lock stays blocked if its holder's session expires.",
            up_to(LOCK_DELAY_MAX),
            Some(Duration::ZERO),
        ),
        span("max_hold", "How long it may be held at most; then it ends as `expired`.", MAX_HOLD_MIN..=MAX_HOLD_MAX, None),
        parameter::meta(),
        one_of("hold", "Hold it for as long as this request's connection stands; not beside `session`.", &["stream"], None),
    ]
}

fn acquire_parameters() -> Vec<parameter::Parameter> {
    let permits = u64::from(PERMITS_MAX);
    let mut parameters = candidate_parameters();
    parameters.extend([
        one_of("mode", "Alone, or together with other shared grants.", &["exclusive", "shared"], Some("exclusive")),
        integer("limit", "How many permits the lock has; the first grant that names a number sets it.", 1..=permits, None)
            .like(5),
        integer("permits", "How many of them to take; not over `limit`.", 1..=permits, Some(1)),
        flag(
            "reentrant",
            "Where the same session and `owner` hold the lock already: one more hold of the same grant, with an id of its own \
             and the same token. The grant ends with its last hold.",
        ),
    ]);
    parameters
}

fn acquire_many(describe: &mut Describer) -> Operation {
    let rules = json!([{ "not": { "required": ["ttl", "session"] } }, { "not": { "required": ["hold", "session"] } }]);
    let want = json!({
        "type": "object",
        "properties": { "name": lock_name(), "mode": { "type": "string", "enum": ["exclusive", "shared"] } },
        "required": ["name"],
        "additionalProperties": false,
    });
    let about = "The locks, all different; `mode` is `exclusive` where it is not named.";
    let mut parameters = vec![parameter::list("locks", about, want, LOCKS_TOGETHER_MAX).not_empty().required()];
    parameters.extend(candidate_parameters());
    let example = json!({ "locks": [{ "name": "orders/42" }, { "name": "stock", "mode": "shared" }], "wait": "30s" });
    let mut both = held();
    both["locks"] = json!([{ "name": "deploy", "mode": "exclusive" }, { "name": "stock", "mode": "shared" }]);
    let line = describe.schema::<hold::Line>();
    describe
        .call(Method::POST, "/v1/locks", "acquireMany", TAG, "Take several locks in one step, or a place in all their queues.")
        .about(
            "All or nothing: one grant, with one token, which is queued, held, released and broken as one. It takes one place \
             in every queue, in the same order everywhere, so two such requests never wait for one another. Where it is the \
             next and has to wait for another of its locks, the lock is kept for it. Else as for one lock; of a lock with a \
             limit it takes one permit.",
        )
        .form(&ACQUIRE_MANY, parameters, Some(rules), Some(example))
        .held_or_waiting("They are held.", both, line)
        .codes(&[Code::WouldDeadlock, Code::LimitMismatch])
        .done(Kind::Keyed)
}

fn look(describe: &mut Describer) -> Operation {
    describe
        .call(Method::GET, "/v1/grants/{id}", "getGrant", TAG, "Look at a grant by its id, and wait for its turn.")
        .in_path("id", "The grant's secret id.", grant_id())
        .query(
            &LOOK,
            vec![
                span("wait", "How long to wait until a queued grant is held.", up_to(WAIT_MAX), Some(Duration::ZERO)),
                consistency(),
            ],
        )
        .json::<dto::Grant>(StatusCode::OK, "It is held, or waits.", held())
        .codes(&[Code::GrantGone, Code::GrantNotFound])
        .done(Kind::Read)
}

fn renew(describe: &mut Describer) -> Operation {
    describe
        .call(Method::POST, "/v1/grants/{id}/renew", "renewGrant", TAG, "Renew a grant that has no named session.")
        .about(
            "A new `ttl` is set once where the request has an Idempotency-Key: a try that arrives late renews and sets nothing.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form(
            &RENEW,
            vec![span("ttl", "Its timeout from now on.", SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX, None)],
            None,
            Some(json!({ "ttl": "30s" })),
        )
        .json::<dto::RenewedGrant>(StatusCode::OK, "It lives on.", renewed())
        .codes(&[Code::GrantGone, Code::Forgotten, Code::GrantNotFound, Code::SessionOwned, Code::TooLarge])
        .done(Kind::Keyed)
}

fn renewed() -> Value {
    json!({ "id": GRANT_ID, "ttl": "30s", "expires_in": "30s", "expires_at": "2026-01-01T12:00:30.000Z" })
}

fn downgrade(describe: &mut Describer) -> Operation {
    describe
        .call(Method::POST, "/v1/grants/{id}/downgrade", "downgradeGrant", TAG, "Share a lock that is held alone.")
        .about(
            "It keeps its token, and those who wait to share it join at once. For a shared grant nothing changes. With an \
             Idempotency-Key it happens once: a try that arrives late does not undo an upgrade.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form(&DOWNGRADE, vec![], None, Some(json!({})))
        .json::<dto::Grant>(StatusCode::OK, "It is held, shared.", shared())
        .codes(&[
            Code::LockHeld,
            Code::NotHeld,
            Code::KindMismatch,
            Code::LimitMismatch,
            Code::GrantGone,
            Code::Forgotten,
            Code::GrantNotFound,
            Code::TooLarge,
        ])
        .done(Kind::Keyed)
}

fn upgrade(describe: &mut Describer) -> Operation {
    describe
        .call(Method::POST, "/v1/grants/{id}/upgrade", "upgradeGrant", TAG, "Hold a lock alone that is shared.")
        .about(
            "It waits for those only who hold the lock too, before all who wait, and goes on holding meanwhile; then it gets a \
             new token. Whoever goes away, or waits in vain, goes on sharing it. Where another holder waits for the same, it \
             is refused. With an Idempotency-Key a request that is sent again joins the one before, and a try that arrives \
             late begins nothing after that was done, undone or given up.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form(
            &UPGRADE,
            vec![span("wait", "How long to wait to be the only holder.", up_to(WAIT_MAX), Some(Duration::ZERO))],
            None,
            Some(json!({ "wait": "30s" })),
        )
        .json::<dto::Grant>(StatusCode::OK, "It is held, alone.", held())
        .codes(&[
            Code::LockHeld,
            Code::NotHeld,
            Code::KindMismatch,
            Code::LimitMismatch,
            Code::WaitTimeout,
            Code::WouldDeadlock,
            Code::GrantGone,
            Code::Forgotten,
            Code::GrantNotFound,
            Code::TooLarge,
        ])
        .done(Kind::Keyed)
}

fn release(describe: &mut Describer) -> Operation {
    describe
        .call(Method::DELETE, "/v1/grants/{id}", "releaseGrant", TAG, "Give a grant back, or leave the queue.")
        .about(
            "Again, or with an id that is not known, it is `204` too, and the id is ended: an acquire with it that arrives late \
             takes nothing. With `session` that holds for as long as the session lives; without it, for 60 seconds at least.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .query(&RELEASE, vec![released_session()])
        .empty(StatusCode::NO_CONTENT, "It is over.")
        .done(Kind::Change)
}

fn released_session() -> parameter::Parameter {
    form("session", "The id of the session that was to own it, where it was asked for with one.", pattern::SESSION_ID)
}

/// An acquire, as a batch has it: what the call for one lock takes, without what waits for something.
fn acquire_in_batch() -> Value {
    let mut parameters = acquire_parameters();
    parameters.retain(|parameter| !["wait", "ttl", "hold", "session"].contains(&parameter.name));
    parameters.extend([
        parameter::of("id", "The grant's id, made by the client: a ULID or a UUIDv7.", grant_id()).required(),
        parameter::of("lock", "The lock's name.", lock_name()).required(),
        form("session", "The id of the session that is to own it.", pattern::SESSION_ID).required(),
        flag("queue", "Where it is held by another: a place in its queue, instead of a refusal."),
    ]);
    let schema = parameter::body(&parameter::checked(&batch::ACQUIRE, parameters), None, None);
    schema["content"]["application/json"]["schema"].clone()
}

fn batch(describe: &mut Describer) -> Operation {
    let one = |name: &str, schema: Value| {
        let properties = json!({ name: schema });
        json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false })
    };
    let by_id = |known, more: Vec<parameter::Parameter>| {
        let id = parameter::of("id", "The grant's secret id.", grant_id()).required();
        let fields = std::iter::once(id).chain(more).collect();
        let body = parameter::body(&parameter::checked(known, fields), None, None);
        body["content"]["application/json"]["schema"].clone()
    };
    let (release, renew) = (by_id(&batch::RELEASE, vec![released_session()]), by_id(&batch::RENEW, Vec::new()));
    let calls = json!({
        "type": "array", "minItems": 1, "maxItems": BATCH_CALLS_MAX,
        "items": { "anyOf": [one("acquire", acquire_in_batch()), one("release", release), one("renew", renew)] },
    });
    let schema = json!({
        "type": "object", "properties": { "calls": calls }, "required": ["calls"], "additionalProperties": false,
    });
    let example = json!({ "calls": [
        { "acquire": { "id": GRANT_ID, "lock": "deploy", "session": SESSION_ID, "queue": true } },
        { "release": { "id": "01ARZ3NDEKTSV4RRFFQ69G5FAW" } },
        { "renew": { "id": "01ARZ3NDEKTSV4RRFFQ69G5FAX" } },
    ] });
    describe
        .call(Method::POST, "/v1/batch", "batch", TAG, "Take, renew and give back many grants in one request.")
        .about(
            "Each call is answered as if it were made alone, and stands or fails by itself; where one cannot be understood, all \
             are refused before any is begun. Calls with the same id are made one after the other, in the order of the request, \
             each when the one before is answered. Calls with different ids have no order: a release may take effect before an \
             acquire that stands before it. The answer comes when all are done, within one `Fairhold-Timeout`, and no call waits \
             for a lock: an acquire is of a session, and with `queue` it takes a place in the queue, of whose turn \
             `GET /v1/grants/{id}` and `GET /v1/watch` tell. A renewal is of a grant that has no named session, and leaves its \
             timeout as it is. An answer names whom the caller waits for and how many are ahead, and has 4 KiB at most: what \
             would be longer goes without `meta`. Sent again, with the same ids, it does nothing twice. \
             The headers are those of every call in it.",
        )
        .query(&batch::BATCH, vec![])
        .request_of(schema, example)
        .json::<Answers>(
            StatusCode::OK,
            "What each was answered.",
            json!({ "answers": [{ "status": 200, "body": held() }, { "status": 204 }, { "status": 200, "body": renewed() }] }),
        )
        .codes(&[Code::TooLarge])
        .done(Kind::Change)
}

//! Grants, described: take, look, renew, give back.

use super::{
    describe::Describer,
    examples::{GRANT_ID, SESSION_ID},
    operation::{DescribedCall, OperationKind},
    parameter::{self, flag, form, integer, one_of, signed, span, words},
    vocabulary::{consistency, lock_name},
};
use crate::{
    batch,
    grants::{ACQUIRE, ACQUIRE_MANY, DOWNGRADE, LOOK, RELEASE, RENEW, UPGRADE},
    request::up_to,
};
use fairhold_types::{
    Code,
    batch::BatchAnswers,
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

pub(super) fn operations(describe: &mut Describer) -> Vec<DescribedCall> {
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

fn acquire(describe: &mut Describer) -> DescribedCall {
    let rules = json!([
        { "not": { "required": ["ttl", "session"] } },
        { "not": { "required": ["hold", "session"] } },
        { "not": { "required": ["mode", "limit"], "properties": { "mode": { "const": "shared" }, "limit": { "minimum": 2 } } } },
    ]);
    let example = json!({ "wait": "30s", "owner": "ci-7", "meta": { "build": "81" } });
    let line = describe.schema::<hold::HoldLine>();
    describe
        .call(Method::POST, "/v1/locks/{name}", "acquire", TAG, "Acquire a lock, or a place in its queue.")
        .about(
            "No parameter is required: without a session the server opens one for this grant, and without `wait` it answers at \
             once. The Idempotency-Key becomes the grant's id; the same key again answers for the same grant. With `hold=stream` \
             the connection is the session: the answer lasts as long as the grant, one JSON object a line. The server refuses a \
             request whose wait would cause a deadlock; for this check, requests with the same named session and `owner` are one \
             waiter. You cannot combine `ttl` or `hold` with `session`, `permits` over `limit`, or `mode=shared` with a `limit` \
             over 1.",
        )
        .in_path("name", "The lock's name; write its slashes as %2F.", lock_name())
        .form(&ACQUIRE, acquire_parameters(), Some(rules), Some(example))
        .held_or_waiting("It is held.", held(), line)
        .codes(&[Code::WouldDeadlock, Code::LimitMismatch])
        .done(OperationKind::Keyed)
}

/// What a lock, several and an election have in common.
pub(super) fn candidate_parameters() -> Vec<parameter::Parameter> {
    vec![
        span("wait", "How long to wait in the queue.", up_to(WAIT_MAX), Some(Duration::ZERO)),
        span(
            "ttl",
            "How long the grant lives without a renewal; not with `session`.",
            SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX,
            Some(SESSION_TIMEOUT_DEFAULT),
        ),
        form("session", "The id of the session that is to own it.", pattern::SESSION_ID),
        words("owner", "Your name, for people to read; by default the program's name and address.", OWNER_BYTES_MAX),
        signed(
            "priority",
            "A waiter of higher priority goes before waiters of lower priority, but never before one that waits for several \
             locks, and at most 16 times before the one that has waited longest.",
        ),
        span(
            "lock_delay",
            "How long the lock stays blocked if its holder's session expires.",
            up_to(LOCK_DELAY_MAX),
            Some(Duration::ZERO),
        ),
        span("max_hold", "The longest time that it may be held; then it ends as `expired`.", MAX_HOLD_MIN..=MAX_HOLD_MAX, None),
        parameter::meta(),
        one_of("hold", "Hold it for as long as this request's connection lasts; not with `session`.", &["stream"], None),
    ]
}

fn acquire_parameters() -> Vec<parameter::Parameter> {
    let permits = u64::from(PERMITS_MAX);
    let mut parameters = candidate_parameters();
    parameters.extend([
        one_of("mode", "Exclusive, or shared with other shared grants.", &["exclusive", "shared"], Some("exclusive")),
        integer("limit", "How many permits the lock has; the first grant that names a number sets it.", 1..=permits, None)
            .like(5),
        integer("permits", "How many of them to take; at most `limit`.", 1..=permits, Some(1)),
        flag(
            "reentrant",
            "If the same session and `owner` already hold the lock: one more hold of the same grant, with its own id and the \
             same token. The grant ends with its last hold.",
        ),
    ]);
    parameters
}

fn acquire_many(describe: &mut Describer) -> DescribedCall {
    let rules = json!([{ "not": { "required": ["ttl", "session"] } }, { "not": { "required": ["hold", "session"] } }]);
    let want = json!({
        "type": "object",
        "properties": { "name": lock_name(), "mode": { "type": "string", "enum": ["exclusive", "shared"] } },
        "required": ["name"],
        "additionalProperties": false,
    });
    let about = "The locks, all different; the default `mode` is `exclusive`.";
    let mut parameters = vec![parameter::list("locks", about, want, LOCKS_TOGETHER_MAX).not_empty().required()];
    parameters.extend(candidate_parameters());
    let example = json!({ "locks": [{ "name": "orders/42" }, { "name": "stock", "mode": "shared" }], "wait": "30s" });
    let mut both = held();
    both["locks"] = json!([{ "name": "deploy", "mode": "exclusive" }, { "name": "stock", "mode": "shared" }]);
    let line = describe.schema::<hold::HoldLine>();
    describe
        .call(Method::POST, "/v1/locks", "acquireMany", TAG, "Acquire several locks in one step, or a place in all their queues.")
        .about(
            "All or nothing: one grant, with one token, which is queued, held, released and broken as one. It takes a place in \
             every queue, in the same order everywhere, so two such requests never wait for each other. If it is next for one \
             lock but must wait for another, the first lock is reserved for it. Everything else is as with one lock; of a lock \
             with a limit it takes one permit.",
        )
        .form(&ACQUIRE_MANY, parameters, Some(rules), Some(example))
        .held_or_waiting("They are held.", both, line)
        .codes(&[Code::WouldDeadlock, Code::LimitMismatch])
        .done(OperationKind::Keyed)
}

fn look(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/v1/grants/{id}", "getGrant", TAG, "Get a grant by its id, or wait until it is held.")
        .in_path("id", "The grant's secret id.", grant_id())
        .query(
            &LOOK,
            vec![
                span("wait", "How long to wait until a queued grant is held.", up_to(WAIT_MAX), Some(Duration::ZERO)),
                consistency(),
            ],
        )
        .json::<dto::Grant>(StatusCode::OK, "It is held or queued.", held())
        .codes(&[Code::GrantGone, Code::GrantNotFound])
        .done(OperationKind::Read)
}

fn renew(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::POST, "/v1/grants/{id}/renew", "renewGrant", TAG, "Renew a grant without a named session.")
        .about(
            "With an Idempotency-Key the request sets a new `ttl` once: a retry that arrives late renews the grant but sets \
             nothing.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form(
            &RENEW,
            vec![span("ttl", "Its new ttl.", SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX, None)],
            None,
            Some(json!({ "ttl": "30s" })),
        )
        .json::<dto::RenewedGrant>(StatusCode::OK, "It lives on.", renewed())
        .codes(&[Code::GrantGone, Code::Forgotten, Code::GrantNotFound, Code::SessionOwned, Code::TooLarge])
        .done(OperationKind::Keyed)
}

fn renewed() -> Value {
    json!({ "id": GRANT_ID, "ttl": "30s", "expires_in": "30s", "expires_at": "2026-01-01T12:00:30.000Z" })
}

fn downgrade(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::POST, "/v1/grants/{id}/downgrade", "downgradeGrant", TAG, "Turn an exclusive hold into a shared one.")
        .about(
            "The grant keeps its token, and waiting readers join at once. For a shared grant nothing changes. With an \
             Idempotency-Key it happens once: a retry that arrives late does not undo an upgrade.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form(&DOWNGRADE, vec![], None, Some(json!({})))
        .json::<dto::Grant>(StatusCode::OK, "It is held shared.", shared())
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
        .done(OperationKind::Keyed)
}

fn upgrade(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::POST, "/v1/grants/{id}/upgrade", "upgradeGrant", TAG, "Turn a shared hold into an exclusive one.")
        .about(
            "The upgrade waits only for the other holders, ahead of all waiters, and the grant stays held meanwhile; then it \
             gets a new token. If you disconnect or `wait` runs out, you keep the shared hold. The server refuses the upgrade if \
             another holder already waits for one. With an Idempotency-Key a repeated request joins the earlier one, and a retry \
             that arrives late does nothing once the upgrade was done, undone or given up.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form(
            &UPGRADE,
            vec![span("wait", "How long to wait until you are the only holder.", up_to(WAIT_MAX), Some(Duration::ZERO))],
            None,
            Some(json!({ "wait": "30s" })),
        )
        .json::<dto::Grant>(StatusCode::OK, "It is held exclusively.", held())
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
        .done(OperationKind::Keyed)
}

fn release(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::DELETE, "/v1/grants/{id}", "releaseGrant", TAG, "Release a grant, or leave the queue.")
        .about(
            "A repeated release, or one with an unknown id, is `204` too, and ends the id: an acquire with it that arrives late \
             takes nothing. With `session` the id stays ended for as long as the session lives, otherwise for at least 60 \
             seconds after the last release.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .query(&RELEASE, vec![released_session()])
        .empty(StatusCode::NO_CONTENT, "It is over.")
        .done(OperationKind::Change)
}

fn released_session() -> parameter::Parameter {
    form("session", "The id of the session that was to own it, if the acquire named one.", pattern::SESSION_ID)
}

/// An acquire, as a batch has it: what the call for one lock takes, without what waits for something.
fn acquire_in_batch() -> Value {
    let mut parameters = acquire_parameters();
    parameters.retain(|parameter| !["wait", "ttl", "hold", "session"].contains(&parameter.name));
    parameters.extend([
        parameter::of("id", "The grant's id, generated by the client: a ULID or a UUIDv7.", grant_id()).required(),
        parameter::of("lock", "The lock's name.", lock_name()).required(),
        form("session", "The id of the session that is to own it.", pattern::SESSION_ID).required(),
        flag("queue", "If the lock is not free, take a place in its queue instead of a refusal."),
    ]);
    let schema = parameter::body(&parameter::checked(&batch::ACQUIRE, parameters), None, None);
    schema["content"]["application/json"]["schema"].clone()
}

fn batch(describe: &mut Describer) -> DescribedCall {
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
        .call(Method::POST, "/v1/batch", "batch", TAG, "Acquire, renew and release many grants in one request.")
        .about(
            "The server answers each call as if you had made it alone, and each succeeds or fails by itself; if one call is \
             malformed, the server refuses the whole batch before it starts any. It makes calls with the same id one after the \
             other, in the order of the request, each when the previous one is answered. Calls with different ids have no order: \
             a release may take effect before an acquire that stands before it. The answer comes when all calls are done, within \
             one `Fairhold-Timeout`, and no call waits for a lock: an acquire needs a session, and with `queue` it takes a place \
             in the queue; then use `GET /v1/grants/{id}` or `GET /v1/watch` to see when it is held. A renewal is only for a \
             grant without a named session, and keeps its ttl. Each answer names the holder that the call waits for and the \
             number of grants ahead, and has at most 4 KiB: a longer one leaves out `meta`. If you send a batch again with the \
             same ids, nothing happens twice. The headers are those of every call in it.",
        )
        .query(&batch::BATCH, vec![])
        .request_of(schema, example)
        .json::<BatchAnswers>(
            StatusCode::OK,
            "The answer to each call.",
            json!({ "answers": [{ "status": 200, "body": held() }, { "status": 204 }, { "status": 200, "body": renewed() }] }),
        )
        .codes(&[Code::TooLarge])
        .done(OperationKind::Change)
}

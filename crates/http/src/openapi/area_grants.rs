//! Describes the calls on grants.

use super::{
    describe::{DescribeCall, Describer, Operation},
    examples::{GRANT_ID, SESSION_ID},
    operation::OperationKind::{Change, Keyed, Read},
    vocabulary::lock_name,
};
use fairhold_types::{Code, batch::BatchAnswers, call, dto, pattern};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "grants";

pub(super) const CALLS: &[DescribeCall] = &[acquire, acquire_many, list, look, renew, downgrade, upgrade, release, batch];

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

fn acquire(api: &mut Describer) -> Operation<'_> {
    let shared_with_limit = json!({ "mode": { "const": "shared" }, "limit": { "minimum": 2 } });
    let rule = json!({ "not": { "required": ["mode", "limit"], "properties": shared_with_limit } });
    let example = json!({ "wait": "30s", "owner": "ci-7", "meta": { "build": "81" } });
    api.call(Keyed(Method::POST), "/v1/locks/{name}", "acquire", TAG, "Acquire a lock, or a place in its queue.")
        .about(
            "No parameter is required: without a session the server opens one for this grant, and without `wait` it answers at \
             once. The Idempotency-Key becomes the grant's id; the same key again answers for the same grant. With `hold=stream` \
             the connection is the session: the answer lasts as long as the grant, one JSON object per line. The server refuses \
             a request whose wait would cause a deadlock; for this check, requests with the same named session and `owner` are \
             one waiter. `session` excludes `ttl` and `hold`, a `limit` over 1 excludes `mode=shared`, and `permits` must not \
             exceed `limit`.",
        )
        .in_path("name", "The lock's name; write its slashes as %2F.", lock_name())
        .acquire::<call::Acquire>(Some(rule), example, "The grant is held.", held())
        .codes(&[Code::WouldDeadlock, Code::LimitMismatch])
}

fn acquire_many(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "locks": [{ "name": "orders/42" }, { "name": "stock", "mode": "shared" }], "wait": "30s" });
    let mut both = held();
    both["locks"] = json!([{ "name": "deploy", "mode": "exclusive" }, { "name": "stock", "mode": "shared" }]);
    let summary = "Acquire several locks in one step, or a place in all their queues.";
    api.call(Keyed(Method::POST), "/v1/locks", "acquireMany", TAG, summary)
        .about(
            "All or nothing: one grant, with one token, which is queued, held, released and broken as one. It takes a place in \
             every queue, in the same order everywhere, so two such requests never wait for each other. If it is next for one \
             lock but must wait for another, the first lock is reserved for it. Everything else is as with one lock; of each \
             lock with a limit it takes one permit.",
        )
        .acquire::<call::AcquireMany>(None, example, "All locks are held.", both)
        .codes(&[Code::WouldDeadlock, Code::LimitMismatch])
}

fn list(api: &mut Describer) -> Operation<'_> {
    let held = json!({
        "lock": "orders/42", "number": 90, "session": 52, "owner": "ci-9", "state": "held", "token": 90, "mode": "exclusive",
        "permits": 1, "since": "2026-01-01T12:00:00.000Z", "queued_at": "2026-01-01T12:00:00.000Z", "held_for": "31s",
    });
    let queued = json!({
        "lock": "deploy", "number": 91, "session": 52, "owner": "ci-9", "state": "queued", "position": 2, "mode": "exclusive",
        "permits": 1, "since": "2026-01-01T12:00:07.000Z", "queued_at": "2026-01-01T12:00:07.000Z",
        "waits_for": { "number": 88, "owner": "ci-7" },
    });
    let summary = "List what an owner or a session holds and waits for, page by page.";
    api.call(Read, "/v1/grants", "listGrants", TAG, summary)
        .about(
            "Without a filter, the list has all grants that are queued, held or cooling. A grant of several locks has one entry \
             for each of them. A cooling grant no longer belongs to its session: it is listed with its `owner`, but not with its \
             `session`. The answer has only locks that you may see. For one page, the server examines at most 20,000 entries; \
             those in locks that you may not see do not count. So a page can be short or even empty without being the last: on \
             the last page, `next_cursor` is `null`. With `sort=lock`, an entry that moves ahead between two pages, like a \
             waiter that becomes a holder, may be on neither.",
        )
        .query::<call::ListGrants>()
        .page::<dto::Page<dto::ListedGrant>>("A page.", json!({ "items": [held, queued], "next_cursor": null }))
}

fn look(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/grants/{id}", "getGrant", TAG, "Get a grant by its id, or wait until it is held.")
        .in_path("id", "The grant's secret id.", grant_id())
        .query::<call::GetGrant>()
        .json::<dto::Grant>("The grant is held or queued.", held())
        .codes(&[Code::GrantGone, Code::GrantNotFound])
}

fn renew(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/grants/{id}/renew", "renewGrant", TAG, "Renew a grant without a named session.")
        .about(
            "With an Idempotency-Key the request sets a new `ttl` once: a retry that arrives late renews the grant but sets \
             nothing.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form::<call::Renew>(None, json!({ "ttl": "30s" }))
        .json::<dto::RenewedGrant>("The grant is renewed.", renewed())
        .with_members()
        .codes(&[Code::GrantGone, Code::Forgotten, Code::GrantNotFound, Code::SessionOwned])
}

fn renewed() -> Value {
    json!({ "id": GRANT_ID, "ttl": "30s", "expires_in": "30s", "expires_at": "2026-01-01T12:00:30.000Z" })
}

/// The codes with which both a downgrade and an upgrade can fail.
const CONVERSION_FAILS: [Code; 7] = [
    Code::LockHeld,
    Code::NotHeld,
    Code::KindMismatch,
    Code::LimitMismatch,
    Code::GrantGone,
    Code::Forgotten,
    Code::GrantNotFound,
];

fn downgrade(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/grants/{id}/downgrade", "downgradeGrant", TAG, "Downgrade an exclusive grant to shared.")
        .about(
            "The grant keeps its token, and waiting shared grants join at once. For a shared grant nothing changes. With an \
             Idempotency-Key the downgrade happens once: a retry that arrives late does not undo an upgrade.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form::<call::Empty>(None, json!({}))
        .json::<dto::Grant>("The grant is held in shared mode.", shared())
        .codes(&CONVERSION_FAILS)
}

fn upgrade(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/grants/{id}/upgrade", "upgradeGrant", TAG, "Upgrade a shared grant to exclusive.")
        .about(
            "The upgrade waits only for the other holders, ahead of all waiters, and the grant stays held meanwhile; then it \
             gets a new token. If you disconnect or `wait` runs out, you keep the shared grant. The server refuses the upgrade \
             if another holder already waits for one. With an Idempotency-Key a repeated request joins the earlier one, and a \
             retry that arrives late does nothing once the upgrade is done, undone or given up.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .form::<call::Upgrade>(None, json!({ "wait": "30s" }))
        .json::<dto::Grant>("The grant is held in exclusive mode.", held())
        .codes(&CONVERSION_FAILS)
        .codes(&[Code::WaitTimeout, Code::WouldDeadlock])
}

fn release(api: &mut Describer) -> Operation<'_> {
    api.call(Change(Method::DELETE), "/v1/grants/{id}", "releaseGrant", TAG, "Release a grant, or leave the queue.")
        .about(
            "A repeated release, or one with an unknown id, also gets `204` and ends the id: a late acquire with that id takes \
             nothing. With `session` the id stays ended for as long as the session lives, otherwise for at least 60 seconds \
             after the last release.",
        )
        .in_path("id", "The grant's secret id.", grant_id())
        .query::<call::Release>()
        .empty(StatusCode::NO_CONTENT, "The grant has ended.")
}

fn batch(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "calls": [
        { "acquire": { "id": GRANT_ID, "lock": "deploy", "session": SESSION_ID, "queue": true } },
        { "release": { "id": "01ARZ3NDEKTSV4RRFFQ69G5FAW" } },
        { "renew": { "id": "01ARZ3NDEKTSV4RRFFQ69G5FAX" } },
    ] });
    api.call(Change(Method::POST), "/v1/batch", "batch", TAG, "Acquire, renew and release many grants in one request.")
        .about(
            "The server answers each call as if you had made it alone, and each succeeds or fails by itself; if one call is \
             malformed, the server refuses the whole batch before it starts any. It runs calls with the same id in the order of \
             the request, and starts each one when the previous one is answered. Calls with different ids have no \
             order: a release may take effect before an acquire that precedes it in the list. The answer comes when all calls \
             are done, within one `Fairhold-Timeout`, and no call waits for a lock: an acquire needs a session, and with `queue` \
             it takes a place in the queue; then use `GET /v1/grants/{id}` or `GET /v1/watch` to see when it is held. A renewal \
             is only for a grant without a named session, and keeps its ttl. If the lock is not free, the answer to an acquire \
             names the grant that blocks it and its position in the queue. Each answer has at most 4 KiB: a longer one leaves \
             out details that are only for people, such as `meta`. If you send a batch \
             again with the same ids, nothing happens twice. The headers apply to every call in the batch.",
        )
        .form::<call::BatchCalls>(None, example)
        .json::<BatchAnswers>(
            "The answer to each call.",
            json!({ "answers": [{ "status": 200, "body": held() }, { "status": 204 }, { "status": 200, "body": renewed() }] }),
        )
        .with_members()
}

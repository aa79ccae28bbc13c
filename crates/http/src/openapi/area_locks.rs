//! Locks, described: the calls that look at them, and the administrator's.

use super::{
    describe::Describer,
    examples,
    operation::{DescribedCall, OperationKind},
    parameter::{form, integer, one_of, span, text, words},
    vocabulary::{consistency, lock_name, with_long_poll},
};
use crate::{
    history::HISTORY,
    locks::{BREAK, FENCE, LIST, QUEUE, REVOKE, SET, SHOW},
    paging,
    request::up_to,
};
use fairhold_state::listing::{LockKey, LockSort};
use fairhold_types::{
    Code, LockName, dto,
    limits::{LOCK_NAME_BYTES_MAX, MAX_HOLD_MAX, PAGE_DEFAULT, PAGE_MAX, PERMITS_MAX, REASON_BYTES_MAX, WAITERS_MAX},
    pattern,
};
use http::{Method, StatusCode};
use serde_json::json;

const TAG: &str = "locks";
const NAME: &str = "The lock's name; write its slashes as %2F.";

/// A revision, or a time as RFC 3339 has it, in UTC or with an offset.
const REVISION_OR_TIME: &str = "^([0-9]{1,15}|(19[7-9]|20[0-9])[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T\
    ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9]))$";

pub(super) fn operations(describe: &mut Describer) -> Vec<DescribedCall> {
    vec![
        list(describe),
        show(describe),
        queue(describe),
        history(describe),
        fence(describe),
        set(describe),
        revoke(describe),
        break_lock(describe),
    ]
}

fn list(describe: &mut Describer) -> DescribedCall {
    let item = json!({
        "lock": "deploy", "state": "held", "holders": 1, "queue_length": 2, "mode": "exclusive", "limit": 1, "last_token": 42,
        "owner": "ci-7", "since": "2026-01-01T12:00:00.000Z", "held_for": "31s", "waiting_since": "2026-01-01T12:00:07.000Z",
        "waited": "127s", "held": "3600s", "hand_overs": 41,
    });
    let last = LockName::parse("deploy").map(|name| paging::lock_cursor(LockSort::Name, &LockKey { rank: 0, name }));
    let cursor = last.unwrap_or_default();
    describe
        .call(Method::GET, "/v1/locks", "listLocks", TAG, "List locks, page by page.")
        .about(
            "The list has all locks with a holder or a waiter, and unused locks until they are forgotten (10 minutes). A page \
             may be short or even empty without being the last: the last page has no `next_cursor`. A page in the order of names \
             is cheap; any other order examines every matching lock.",
        )
        .query(
            &LIST,
            vec![
                text("prefix", "Only locks whose name has this prefix.", LOCK_NAME_BYTES_MAX),
                one_of(
                    "state",
                    "Only locks that are held, that have waiters, that are cooling, or that are idle.",
                    &["held", "queued", "cooling", "idle"],
                    None,
                ),
                one_of(
                    "sort",
                    "By name; or first the locks with the most waiters, the longest current wait, the most total wait time, the \
                     most total hold time, or the most grants that had to wait.",
                    &["name", "waiters", "longest_wait", "wait", "hold", "contention"],
                    Some("name"),
                ),
                integer("limit", "The number of locks on a page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the previous page of the same listing.", paging::HEX_CURSOR).like(cursor),
                consistency(),
            ],
        )
        .json::<dto::Page<dto::ListedLock>>(StatusCode::OK, "A page.", json!({ "items": [item], "next_cursor": null }))
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(OperationKind::Read)
}

fn show(describe: &mut Describer) -> DescribedCall {
    let [holder, _] = examples::queue();
    let lock = json!({
        "lock": "deploy", "holders": [holder], "holder_count": 1, "queue_length": 1, "limit": 1, "last_token": 42,
        "next_cursor": null,
    });
    describe
        .call(Method::GET, "/v1/locks/{name}", "getLock", TAG, "Show the holders of a lock, and how many wait for it.")
        .about("A lock that was never used has no holders. Holders come page by page, in the order in which they queued.")
        .in_path("name", NAME, lock_name())
        .query(
            &SHOW,
            with_long_poll(vec![
                integer("limit", "The number of holders on a page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                integer("cursor", "The `next_cursor` of the previous page.", 0..=u64::MAX, None).like(41),
                consistency(),
            ]),
        )
        .empty(StatusCode::NOT_MODIFIED, "Nothing is newer.")
        .json::<dto::Lock>(StatusCode::OK, "The lock.", lock)
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(OperationKind::Read)
}

fn queue(describe: &mut Describer) -> DescribedCall {
    let queue = json!({
        "lock": "deploy", "items": examples::queue(), "holder_count": 1, "queue_length": 1, "next_cursor": null,
    });
    describe
        .call(Method::GET, "/v1/locks/{name}/queue", "getQueue", TAG, "Show the queue of a lock, holders first, page by page.")
        .about(
            "A page starts after the last entry of the previous page, even if that entry is gone. An entry that moves ahead \
             between two pages may be on neither.",
        )
        .in_path("name", NAME, lock_name())
        .query(
            &QUEUE,
            with_long_poll(vec![
                integer("limit", "The number of entries on a page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the previous page.", paging::QUEUE_CURSOR).like("queued-0-57"),
                consistency(),
            ]),
        )
        .empty(StatusCode::NOT_MODIFIED, "Nothing is newer.")
        .json::<dto::Queue>(StatusCode::OK, "The queue, in order.", queue)
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(OperationKind::Read)
}

fn history(describe: &mut Describer) -> DescribedCall {
    let item = json!({
        "number": 41, "session": 40, "owner": "ci-7", "mode": "exclusive", "permits": 1, "token": 42,
        "queued_at": "2026-01-01T12:00:00.000Z", "from": "2026-01-01T12:00:07.000Z", "from_revision": 42,
        "to": "2026-01-01T12:00:38.000Z", "to_revision": 57, "held_for": "31s", "ended": "released",
    });
    let line = describe.schema::<dto::Holding>();
    describe
        .call(
            Method::GET,
            "/v1/locks/{name}/history",
            "getHistory",
            TAG,
            "Show the history of a lock: its holders, and how each hold ended.",
        )
        .about(
            "Newest first; the current holders come before all others. The history outlives restarts and the lock itself: the \
             cluster keeps the newest 1,000 entries of each lock, 100,000 in total, for at least a week. Times come from the \
             servers that received the requests; revisions are exact. A grant that changed its mode has an entry for each mode. \
             A hold that ends between two pages may be on both.",
        )
        .in_path("name", NAME, lock_name())
        .query(
            &HISTORY,
            vec![
                form("at", "Only the holders at this moment: a revision, or an RFC 3339 time.", REVISION_OR_TIME),
                integer("limit", "The number of entries on a page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the previous page of the same history.", "^[0-9]{1,20}-[0-9]{1,20}$")
                    .like("57-41"),
                consistency(),
            ],
        )
        .json::<dto::Page<dto::Holding>>(StatusCode::OK, "A page.", json!({ "items": [item.clone()], "next_cursor": null }))
        .content(StatusCode::OK, "", "application/x-ndjson", line)
        .example(StatusCode::OK, "application/x-ndjson", item)
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(OperationKind::Read)
}

fn fence(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/v1/locks/{name}/fence", "checkFence", TAG, "Check a fencing token.")
        .about(
            "A token is current exactly while a held grant of the lock has it: it becomes stale at once after a release, an \
             expiry or a break.",
        )
        .in_path("name", NAME, lock_name())
        .query(
            &FENCE,
            vec![
                integer("token", "The token to check.", 0..=u64::MAX, None).required(),
                form("grant", "The grant that must have it, to tell readers apart.", pattern::GRANT_ID),
                consistency(),
            ],
        )
        .json::<dto::FenceCheck>(StatusCode::OK, "It is current.", json!({ "current": true }))
        .codes(&[Code::StaleToken])
        .done(OperationKind::Read)
}

fn set(describe: &mut Describer) -> DescribedCall {
    let one_of_them = |name: &str| json!({ "required": [name] });
    let example = json!({
        "lock": "pool", "holders": [], "holder_count": 0, "queue_length": 0, "limit": 5, "max_hold": "60s", "next_cursor": null,
    });
    describe
        .call(Method::PATCH, "/v1/locks/{name}", "setLock", TAG, "Change the settings of a lock.")
        .about(
            "For administrators. Pass at least one setting; the others stay as they are. No holder loses the lock by it; a \
             waiter that can no longer fit ends as `broken`. The settings stay even if nobody uses the lock. With an \
             Idempotency-Key they are set once: a retry that arrives late does not undo later changes.",
        )
        .in_path("name", NAME, lock_name())
        .form(
            &SET,
            vec![
                integer("limit", "How many permits it has.", 1..=u64::from(PERMITS_MAX), None).like(5),
                integer("max_waiters", "How many may wait for it.", 0..=WAITERS_MAX as u64, None),
                span("max_hold", "How long new grants may hold it; 0 for no limit.", up_to(MAX_HOLD_MAX), None),
            ],
            Some(json!([{ "anyOf": [one_of_them("limit"), one_of_them("max_waiters"), one_of_them("max_hold")] }])),
            Some(json!({ "limit": 5, "max_hold": "1m" })),
        )
        .json::<dto::Lock>(StatusCode::OK, "Its settings and its holders.", example)
        .codes(&[Code::TooLarge])
        .admin()
        .done(OperationKind::Keyed)
}

fn revoke(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::POST, "/v1/locks/{name}/holders/revoke", "revokeLock", TAG, "Ask the holders of a lock to release it.")
        .about(
            "For administrators. This is only a request: nothing ends by it. Streams get a `revoke` line, watches a `revoke` \
             event, and the grant shows it. With an Idempotency-Key it happens once: a retry that arrives late asks nobody \
             again.",
        )
        .in_path("name", NAME, lock_name())
        .form(
            &REVOKE,
            vec![words("reason", "The reason, for the holders.", REASON_BYTES_MAX)],
            None,
            Some(json!({ "reason": "an upgrade" })),
        )
        .empty(StatusCode::ACCEPTED, "They are told.")
        .codes(&[Code::TooLarge])
        .admin()
        .done(OperationKind::Keyed)
}

fn break_lock(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::DELETE, "/v1/locks/{name}/holders", "breakLock", TAG, "Take a lock away from all its holders.")
        .about(
            "For administrators. The holders' grants end as `broken`, with the reason; a lock delay ends too; the next waiters \
             are granted in the same step, with larger tokens. If nobody holds the lock, the answer is `204` too. A repeat with \
             the same Idempotency-Key does not affect later holders.",
        )
        .in_path("name", NAME, lock_name())
        .query(
            &BREAK,
            vec![
                words("reason", "The reason, for the holders and the history.", REASON_BYTES_MAX),
                integer(
                    "token",
                    "Break the lock only while a holder has this fencing token: a later holder keeps it. Otherwise the answer is \
                     `412 stale_token`.",
                    0..=u64::MAX,
                    None,
                )
                .like(42),
            ],
        )
        .empty(StatusCode::NO_CONTENT, "None of the former holders holds it any more.")
        .code_as(StatusCode::PRECONDITION_FAILED, Code::StaleToken)
        .admin()
        .done(OperationKind::Keyed)
}

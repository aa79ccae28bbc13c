//! Describes the calls on locks.

use super::{
    describe::{DescribeCall, Describer, Operation},
    examples,
    operation::OperationKind::{Keyed, Read},
    vocabulary::lock_name,
};
use fairhold_types::{Code, call, dto, limits::HISTORY_PER_LOCK_MAX};
use http::{Method, StatusCode};
use serde_json::json;

const TAG: &str = "locks";
const NAME: &str = "The lock's name; write its slashes as %2F.";

pub(super) const CALLS: &[DescribeCall] = &[list, show, queue, history, histories, fence, set, revoke, break_lock];

fn list(api: &mut Describer) -> Operation<'_> {
    let item = json!({
        "lock": "deploy", "state": "held", "holders": 1, "queue_length": 2, "mode": "exclusive", "limit": 1, "last_token": 42,
        "owner": "ci-7", "holder": { "number": 41, "owner": "ci-7", "session": 40 }, "since": "2026-01-01T12:00:00.000Z",
        "held_for": "31s", "usual_hold": "40s", "waiting_since": "2026-01-01T12:00:07.000Z", "waited": "127s", "held": "3600s",
        "hand_overs": 41,
    });
    api.call(Read, "/v1/locks", "listLocks", TAG, "List locks, page by page.")
        .about(
            "The list has all locks with a holder or a waiter, and unused locks until they are forgotten (10 minutes). A page \
             may be short or even empty without being the last: on the last page, `next_cursor` is `null`. A page in the order \
             of names is cheap; any other order examines every matching lock. With `match` or `owner`, a page examines every \
             lock, unless it is in the order of names and you may see all locks: then it ends after it has examined about \
             20,000 locks and grants. With `consistency=local` and a `match`, an `owner` or another order, callers that may \
             see the same locks share the first page for a second.",
        )
        .query::<call::ListLocks>()
        .page::<dto::Page<dto::ListedLock>>("A page.", json!({ "items": [item], "next_cursor": null }))
}

fn show(api: &mut Describer) -> Operation<'_> {
    let [holder, _] = examples::queue();
    let lock = json!({
        "lock": "deploy", "holders": [holder], "holder_count": 1, "queue_length": 1, "limit": 1, "last_token": 42,
        "next_cursor": null,
    });
    api.call(Read, "/v1/locks/{name}", "getLock", TAG, "Show the holders of a lock and the number of waiters.")
        .about("A lock that was never used has no holders. Holders come page by page, in the order in which they queued.")
        .in_path("name", NAME, lock_name())
        .query::<call::ShowLock>()
        .empty(StatusCode::NOT_MODIFIED, "Nothing has changed.")
        .page::<dto::Lock>("The lock.", lock)
}

fn queue(api: &mut Describer) -> Operation<'_> {
    let queue = json!({
        "lock": "deploy", "items": examples::queue(), "holder_count": 1, "queue_length": 1, "total": 2,
        "usual_hold": "40s", "next_cursor": null,
    });
    api.call(Read, "/v1/locks/{name}/queue", "getQueue", TAG, "Show the queue of a lock, holders first, page by page.")
        .about(
            "A page starts after the last entry of the previous page, even if that entry is gone. An entry that moves ahead \
             between two pages may be on neither. With `around`, the page has the entries before and after that grant; if \
             the grant has left the queue, the answer is `404 grant_not_found`.",
        )
        .in_path("name", NAME, lock_name())
        .query::<call::ShowQueue>()
        .empty(StatusCode::NOT_MODIFIED, "Nothing has changed.")
        .page::<dto::Queue>("The queue, in order.", queue)
        .codes(&[Code::GrantNotFound])
}

fn history(api: &mut Describer) -> Operation<'_> {
    let item = json!({
        "number": 41, "session": 40, "owner": "ci-7", "mode": "exclusive", "permits": 1, "token": 42,
        "queued_at": "2026-01-01T12:00:00.000Z", "from": "2026-01-01T12:00:07.000Z", "from_revision": 42,
        "to": "2026-01-01T12:00:38.000Z", "to_revision": 57, "held_for": "31s", "ended": "released",
    });
    let line = api.schema::<dto::Holding>();
    let summary = "Show the history of a lock: its holders, and how each hold ended.";
    api.call(Read, "/v1/locks/{name}/history", "getHistory", TAG, summary)
        .about(
            "Newest first; the current holders come before all others. The history outlives restarts and the lock itself: the \
             cluster keeps at most the newest 1,000 entries of each lock, and 100,000 in total. Within these limits it keeps \
             them for a week, unless its state is nearly full. Times come from the servers that received the requests; revisions \
             are exact. A grant that changed its mode has an entry for each mode. A hold that ends between two pages may be on \
             both.",
        )
        .in_path("name", NAME, lock_name())
        .query::<call::History>()
        .page::<dto::Page<dto::Holding>>("A page.", json!({ "items": [item.clone()], "next_cursor": null }))
        .content("", "application/x-ndjson", line, item)
}

fn histories(api: &mut Describer) -> Operation<'_> {
    let item = json!({
        "lock": "deploy", "number": 41, "session": 40, "owner": "ci-7", "mode": "exclusive", "permits": 1, "token": 42,
        "queued_at": "2026-01-01T12:00:00.000Z", "from": "2026-01-01T12:00:07.000Z", "from_revision": 42,
        "to": "2026-01-01T12:00:38.000Z", "to_revision": 57, "held_for": "31s", "ended": "expired",
    });
    let example = json!({
        "items": [item], "next_cursor": null, "kept_per_lock": HISTORY_PER_LOCK_MAX, "oldest": "2025-12-25T03:12:09.000Z",
    });
    api.call(Read, "/v1/history", "listHistories", TAG, "Show the holders of all locks at a time, or in a time window.")
        .about(
            "Pass `at`, or a window with `from`, `to` or both. A hold that begins at `to` or ends at `from` is outside the \
             window. Holds that have not ended are included. The holds are in the order of their locks' names, and those of \
             one lock are newest first. The answer has only locks that you may see. `kept_per_lock` and `oldest` say how far \
             back the histories go. For one page, the server examines at most 20,000 locks and holds. Locks that you may not \
             see, and their holds, do not count. So a page can be short or even empty without being the last: on the last \
             page, `next_cursor` is `null`.",
        )
        .query::<call::ListHistories>()
        .page::<dto::LockHistories>("A page.", example)
}

fn fence(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/locks/{name}/fence", "checkFence", TAG, "Check a fencing token.")
        .about(
            "A token is current only while a held grant of the lock has it: it becomes stale at once after a release, an expiry \
             or a break.",
        )
        .in_path("name", NAME, lock_name())
        .query::<call::CheckFence>()
        .json::<dto::FenceCheck>("The token is current.", json!({ "current": true }))
        .codes(&[Code::StaleToken])
}

fn set(api: &mut Describer) -> Operation<'_> {
    let one_of_them = |name: &str| json!({ "required": [name] });
    let rules = json!([{ "anyOf": [one_of_them("limit"), one_of_them("max_waiters"), one_of_them("max_hold")] }]);
    let example = json!({
        "lock": "pool", "holders": [], "holder_count": 0, "queue_length": 0, "limit": 5, "max_hold": "60s", "next_cursor": null,
    });
    api.call(Keyed(Method::PATCH), "/v1/locks/{name}", "setLock", TAG, "Change the settings of a lock.")
        .about(
            "For administrators. Pass at least one setting; the others stay as they are. No holder loses the lock; a waiter that \
             can no longer fit ends as `broken`. The settings stay even if nobody uses the lock. With an Idempotency-Key the \
             change happens once: a retry that arrives late does not undo later changes.",
        )
        .in_path("name", NAME, lock_name())
        .form::<call::SetLock>(Some(rules), json!({ "limit": 5, "max_hold": "1m" }))
        .json::<dto::Lock>("The lock, with its settings and its holders.", example)
        .admin()
}

fn revoke(api: &mut Describer) -> Operation<'_> {
    let summary = "Ask the holders of a lock to release it.";
    api.call(Keyed(Method::POST), "/v1/locks/{name}/holders/revoke", "revokeLock", TAG, summary)
        .about(
            "For administrators. This is only a request: it ends nothing. It reaches the holders of the moment when it is \
             carried out, and cannot be limited to a fencing token. Streams get a `revoke` line, watches a `revoke` event, and \
             the grant shows it. With an Idempotency-Key it happens once: a retry that arrives late sends no second request.",
        )
        .in_path("name", NAME, lock_name())
        .form::<call::RevokeLock>(None, json!({ "reason": "an upgrade" }))
        .empty(StatusCode::ACCEPTED, "The holders have been asked.")
        .admin()
}

fn break_lock(api: &mut Describer) -> Operation<'_> {
    let summary = "Break a lock: end the grants of all its holders.";
    api.call(Keyed(Method::DELETE), "/v1/locks/{name}/holders", "breakLock", TAG, summary)
        .about(
            "For administrators. The holders' grants end as `broken`, with the reason; a lock delay ends too; the next waiters \
             are granted in the same step, with larger tokens. If nobody holds the lock, the answer is also `204`. A repeat with \
             the same Idempotency-Key does not affect later holders.",
        )
        .in_path("name", NAME, lock_name())
        .query::<call::BreakLock>()
        .empty(StatusCode::NO_CONTENT, "No former holder holds the lock any more.")
        .code_as(StatusCode::PRECONDITION_FAILED, Code::StaleToken)
        .admin()
}

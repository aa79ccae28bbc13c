//! Locks, described: the calls that look at them, and the administrator's.

use super::{
    area_watch::with_long_poll,
    describe::{Describer, Kind, Operation},
    examples,
    parameter::{form, integer, one_of, span, text, words},
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
use serde_json::{Value, json};

const TAG: &str = "locks";
const NAME: &str = "The lock's name; its slashes are written %2F.";

/// A revision, or a time as RFC 3339 has it, in UTC or with an offset.
const REVISION_OR_TIME: &str = "^([0-9]{1,15}|(19[7-9]|20[0-9])[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T\
    ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9]))$";

pub(super) fn lock_name() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": LOCK_NAME_BYTES_MAX,
        "x-max-bytes": LOCK_NAME_BYTES_MAX,
        "pattern": pattern::LOCK_NAME,
        "example": "orders/42",
    })
}

pub(super) fn consistency() -> super::parameter::Parameter {
    let about = "`linearizable`: all that was acknowledged before is seen. `local`: what this server has, without asking.";
    one_of("consistency", about, &["linearizable", "local"], Some("linearizable"))
}

pub(super) fn operations(describe: &mut Describer) -> Vec<Operation> {
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

fn list(describe: &mut Describer) -> Operation {
    let item = json!({
        "lock": "deploy", "state": "held", "holders": 1, "queue_length": 2, "mode": "exclusive", "limit": 1, "last_token": 42,
        "since": "2026-01-01T12:00:00.000Z", "held_for": "31s", "waiting_since": "2026-01-01T12:00:07.000Z",
        "waited": "127s", "held": "3600s", "hand_overs": 41,
    });
    let last = LockName::parse("deploy").map(|name| paging::lock_cursor(LockSort::Name, &LockKey { rank: 0, name }));
    let cursor = last.unwrap_or_default();
    describe
        .call(Method::GET, "/v1/locks", "listLocks", TAG, "List locks, page by page.")
        .about(
            "Locks in which somebody stands, and those in which nobody does until they are forgotten (10 minutes). A page may \
             be short, or empty, and not be the last: the last one has no `next_cursor`. In the order of names a page costs \
             what it shows; another order looks at every lock that fits.",
        )
        .query(
            &LIST,
            vec![
                text("prefix", "Only locks whose name begins so.", LOCK_NAME_BYTES_MAX),
                one_of(
                    "state",
                    "Only locks that somebody holds, that somebody waits for, that cool, or in which nobody stands.",
                    &["held", "queued", "cooling", "idle"],
                    None,
                ),
                one_of(
                    "sort",
                    "By name; or first where most wait, where somebody waits since longest, where most time was spent waiting, \
                     or holding, and where most had to wait before their turn.",
                    &["name", "waiters", "longest_wait", "wait", "hold", "contention"],
                    Some("name"),
                ),
                integer("limit", "Locks on the page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the page before, of the same listing.", paging::HEX_CURSOR).like(cursor),
                consistency(),
            ],
        )
        .json::<dto::Page<dto::ListedLock>>(StatusCode::OK, "A page.", json!({ "items": [item], "next_cursor": null }))
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(Kind::Read)
}

fn show(describe: &mut Describer) -> Operation {
    let [holder, _] = examples::queue();
    let lock = json!({
        "lock": "deploy", "holders": [holder], "holder_count": 1, "queue_length": 1, "limit": 1, "last_token": 42,
        "next_cursor": null,
    });
    describe
        .call(Method::GET, "/v1/locks/{name}", "getLock", TAG, "Show who holds a lock, and how many wait.")
        .about("A lock that was never used has no holders. They come page by page, the first that queued first.")
        .in_path("name", NAME, lock_name())
        .query(
            &SHOW,
            with_long_poll(vec![
                integer("limit", "Holders on the page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                integer("cursor", "The `next_cursor` of the page before.", 0..=u64::MAX, None).like(41),
                consistency(),
            ]),
        )
        .empty(StatusCode::NOT_MODIFIED, "Nothing is newer.")
        .json::<dto::Lock>(StatusCode::OK, "The lock.", lock)
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(Kind::Read)
}

fn queue(describe: &mut Describer) -> Operation {
    let queue = json!({
        "lock": "deploy", "items": examples::queue(), "holder_count": 1, "queue_length": 1, "next_cursor": null,
    });
    describe
        .call(Method::GET, "/v1/locks/{name}/queue", "getQueue", TAG, "Show who stands in a lock, holders first, page by page.")
        .about(
            "A page begins behind the last entry of the one before, whether or not that still stands there. An entry that moves \
             ahead between two pages may be on neither.",
        )
        .in_path("name", NAME, lock_name())
        .query(
            &QUEUE,
            with_long_poll(vec![
                integer("limit", "Entries on the page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the page before.", paging::QUEUE_CURSOR).like("queued-0-57"),
                consistency(),
            ]),
        )
        .empty(StatusCode::NOT_MODIFIED, "Nothing is newer.")
        .json::<dto::Queue>(StatusCode::OK, "The queue, in order.", queue)
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(Kind::Read)
}

fn history(describe: &mut Describer) -> Operation {
    let item = json!({
        "number": 41, "session": 40, "owner": "ci-7", "mode": "exclusive", "permits": 1, "token": 42,
        "queued_at": "2026-01-01T12:00:00.000Z", "from": "2026-01-01T12:00:07.000Z", "from_revision": 42,
        "to": "2026-01-01T12:00:38.000Z", "to_revision": 57, "held_for": "31s", "ended": "released",
    });
    let line = describe.schema::<dto::Holding>();
    describe
        .call(Method::GET, "/v1/locks/{name}/history", "getHistory", TAG, "Show who held a lock, and how that ended.")
        .about(
            "Newest first, and those who hold it now before all. It outlives restarts and the lock itself: the newest 1,000 \
             times of holding of each lock and 100,000 of all together, for at least a week. Times are those of the servers \
             that took the requests; revisions are exact. A grant that changed its mode has an entry for each. One who ends \
             between two pages may be on both.",
        )
        .in_path("name", NAME, lock_name())
        .query(
            &HISTORY,
            vec![
                form("at", "Only who held it then: a revision, or a time as RFC 3339 has it.", REVISION_OR_TIME),
                integer("limit", "Entries on the page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
                form("cursor", "The `next_cursor` of the page before, of the same history.", "^[0-9]{1,20}-[0-9]{1,20}$")
                    .like("57-41"),
                consistency(),
            ],
        )
        .json::<dto::Page<dto::Holding>>(StatusCode::OK, "A page.", json!({ "items": [item.clone()], "next_cursor": null }))
        .content(StatusCode::OK, "", "application/x-ndjson", line)
        .example(StatusCode::OK, "application/x-ndjson", item)
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .done(Kind::Read)
}

fn fence(describe: &mut Describer) -> Operation {
    describe
        .call(Method::GET, "/v1/locks/{name}/fence", "checkFence", TAG, "Check a fencing token.")
        .about("Current exactly while a held grant of the lock has that token: stale at once after release, loss or break.")
        .in_path("name", NAME, lock_name())
        .query(
            &FENCE,
            vec![
                integer("token", "The token to check.", 0..=u64::MAX, None).required(),
                form("grant", "The grant that must have it, to be exact among readers.", pattern::GRANT_ID),
                consistency(),
            ],
        )
        .json::<dto::FenceCheck>(StatusCode::OK, "It is current.", json!({ "current": true }))
        .codes(&[Code::StaleToken])
        .done(Kind::Read)
}

fn set(describe: &mut Describer) -> Operation {
    let one_of_them = |name: &str| json!({ "required": [name] });
    let example = json!({
        "lock": "pool", "holders": [], "holder_count": 0, "queue_length": 0, "limit": 5, "max_hold": "60s", "next_cursor": null,
    });
    describe
        .call(Method::PATCH, "/v1/locks/{name}", "setLock", TAG, "Set what a lock allows.")
        .about(
            "For administrators. One of them must be named; what is not named stays as it is. Nobody who holds loses it by \
             that; who waits and can no longer fit ends as `broken`. What is set so stays, also of a lock that nobody uses. With \
             an Idempotency-Key it is set once: a try that arrives late changes nothing that was set since.",
        )
        .in_path("name", NAME, lock_name())
        .form(
            &SET,
            vec![
                integer("limit", "How many permits it has.", 1..=u64::from(PERMITS_MAX), None).like(5),
                integer("max_waiters", "How many may wait for it.", 0..=WAITERS_MAX as u64, None),
                span(
                    "max_hold",
                    "How long a grant may hold it that is given from now on; 0: as long as it likes.",
                    up_to(MAX_HOLD_MAX),
                    None,
                ),
            ],
            Some(json!([{ "anyOf": [one_of_them("limit"), one_of_them("max_waiters"), one_of_them("max_hold")] }])),
            Some(json!({ "limit": 5, "max_hold": "1m" })),
        )
        .json::<dto::Lock>(StatusCode::OK, "What it allows, and who holds it.", example)
        .codes(&[Code::TooLarge])
        .admin()
        .done(Kind::Keyed)
}

fn revoke(describe: &mut Describer) -> Operation {
    describe
        .call(Method::POST, "/v1/locks/{name}/holders/revoke", "revokeLock", TAG, "Ask those who hold a lock to give it back.")
        .about(
            "For administrators. Politely: nothing ends by it. Streams get a `revoke` line, watches a `revoke` event, and the \
             grant shows it. With an Idempotency-Key it is asked once: a try that arrives late asks nobody again.",
        )
        .in_path("name", NAME, lock_name())
        .form(
            &REVOKE,
            vec![words("reason", "Why, for those who hold it.", REASON_BYTES_MAX)],
            None,
            Some(json!({ "reason": "an upgrade" })),
        )
        .empty(StatusCode::ACCEPTED, "They are told.")
        .codes(&[Code::TooLarge])
        .admin()
        .done(Kind::Keyed)
}

fn break_lock(describe: &mut Describer) -> Operation {
    describe
        .call(Method::DELETE, "/v1/locks/{name}/holders", "breakLock", TAG, "Take a lock from all who hold it.")
        .about(
            "For administrators. The holders' grants end as `broken`, with the reason; a lock that cools is freed; the next in \
             line get their turn in the same step, with greater tokens. Also where nobody holds it: `204`. Repeated with the \
             same Idempotency-Key it does not hit who holds the lock by then.",
        )
        .in_path("name", NAME, lock_name())
        .query(&BREAK, vec![words("reason", "Why, for those who held it and for the record.", REASON_BYTES_MAX)])
        .empty(StatusCode::NO_CONTENT, "Nobody of those who held it holds it any more.")
        .admin()
        .done(Kind::Keyed)
}

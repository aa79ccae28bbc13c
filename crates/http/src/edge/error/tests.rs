//! Tests of `error`.

use super::*;
use crate::{edge::answer::span, edge::problem::properties_of};
use axum::response::IntoResponse;
use fairhold_access::TenantName;
use fairhold_state::command::{AccessFault, Blocked, HolderFacts, JoinTokenFault, Part, Rejection};
use fairhold_types::{
    ClusterVersion, EndReason, FencingToken, GrantId, GrantNumber, LockName, Path, Revision, SessionNumber, Timing,
    time::WallMillis,
};
use futures_util::FutureExt;
use http::header;
use http_body_util::BodyExt;
use std::time::Duration;

fn key() -> GrantId {
    GrantId::from_ulid(1)
}

fn acquire(id_given: bool) -> RequestKind {
    RequestKind::Acquire { id: key(), id_given, now: WallMillis(90_500) }
}

fn answer(error: CallError, kind: RequestKind) -> (u16, Option<String>, serde_json::Value) {
    let response = problem_of(error, kind).into_response();
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    let retry_after = response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let frame = body.frame().now_or_never().unwrap().unwrap().unwrap();
    let json: serde_json::Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
    assert_eq!(json["status"], status);
    assert_eq!(json["type"], "about:blank");
    (status, retry_after, json)
}

fn holder(token: Option<u64>) -> HolderFacts {
    HolderFacts { number: GrantNumber(41), owner: "ci-7".to_owned(), token: token.map(FencingToken), since: WallMillis(60_000) }
}

fn web() -> TenantName {
    "web".parse().unwrap()
}

fn over_quota(quota: QuotaKind, retryable: bool) -> Case {
    let facts = serde_json::json!({"tenant": "web", "quota": quota.as_str(), "limit": 5, "used": 7, "outcome": "none"});
    let refused = Rejection::QuotaExceeded { tenant: web(), quota, limit: 5, used: 7 };
    (refused, acquire(true), 429, "quota_exceeded", retryable, facts)
}

/// A refusal, the request, and the answer: status, code, retryable, and the other facts.
type Case = (Rejection, RequestKind, u16, &'static str, bool, serde_json::Value);

fn cases() -> Vec<Case> {
    use Part::{Conditions, Otherwise, Then};
    use Rejection::*;
    use serde_json::json;
    let (keyed, write, change) = (acquire(true), RequestKind::Write { key: key() }, RequestKind::Change);
    let path = || Path::parse("/a").unwrap();
    let (stale, exists) = (|| StaleToken { current: None }, || NodeExists { path: path() });
    let step = |part, reason| Step { part, index: 2, reason: Box::new(reason) };
    let held = json!({"number": 41, "owner": "ci-7", "token": 42, "since": "1970-01-01T00:01:00.000Z", "held_for": "30500ms"});
    let waiter = Blocked { session: SessionNumber(9), owner: "ci-7".to_owned(), lock: LockName::parse("a").unwrap() };
    let cycle = json!([{"session": 9, "owner": "ci-7", "lock": "a"}]);
    let failed = |part: &str| json!({"in": part, "index": 2});
    vec![
        (NoSession, keyed, 404, "session_not_found", false, json!({})),
        (SessionEnded, write, 410, "session_expired", false, json!({})),
        (NoGrant, change, 404, "grant_not_found", false, json!({})),
        (LockHeld { holder: holder(Some(42)), ahead: 1 }, keyed, 409, "lock_held", true, json!({"holder": held, "position": 2})),
        (GrantEnded { reason: EndReason::Expired, note: None }, change, 410, "grant_gone", false, json!({"reason": "expired"})),
        (Forgotten, keyed, 410, "forgotten", false, json!({})),
        (IdempotencyMismatch { field: "mode".to_owned() }, keyed, 422, "idempotency_mismatch", false, json!({"field": "mode"})),
        (LimitMismatch { limit: 3 }, keyed, 409, "limit_mismatch", false, json!({"limit": 3})),
        (PermitsOverLimit { permits: 4, limit: 3 }, keyed, 400, "bad_request", false, json!({"limit": 3})),
        (SharedWithLimit { limit: 3 }, keyed, 409, "limit_mismatch", false, json!({"limit": 3})),
        (QueueFull { max: 5 }, keyed, 429, "queue_full", true, json!({"limit": 5})),
        (StateFull { used: 4, max: 5 }, keyed, 429, "state_full", false, json!({"limit": 5})),
        (SessionsFull { max: 5 }, write, 429, "rate_limited", true, json!({"limit": 5})),
        (MemoryFull { max: 5 }, acquire(false), 429, "rate_limited", true, json!({"limit": 5})),
        over_quota(QuotaKind::Nodes, false),
        over_quota(QuotaKind::Contenders, true),
        (
            Access(AccessFault::TenantOverlaps { tenant: web(), on: "locks:a/**".to_owned() }),
            change,
            409,
            "overlaps",
            false,
            json!({"tenant": "web"}),
        ),
        (Access(AccessFault::TenantChanged { current: Revision(7) }), change, 412, "version_mismatch", false, json!({})),
        (SessionOwned { session: SessionNumber(9) }, change, 409, "session_owned", false, json!({"session": 9})),
        (stale(), RequestKind::Read, 409, "stale_token", false, json!({"current_token": null})),
        (StaleToken { current: Some(FencingToken(7)) }, write, 412, "stale_token", false, json!({"current_token": 7})),
        (VersionMismatch { current: Some(3) }, write, 412, "version_mismatch", false, json!({"current_version": 3})),
        (VersionMismatch { current: None }, write, 412, "version_mismatch", false, json!({"current_version": null})),
        (NoNode { path: path() }, write, 404, "no_node", false, json!({"path": "/a"})),
        (ReadOnly { path: path() }, write, 403, "denied", false, json!({"path": "/a"})),
        (Unsupported { what: "x".to_owned() }, keyed, 400, "bad_request", false, json!({})),
        (Unsupported { what: "x".to_owned() }, change, 409, "kind_mismatch", false, json!({})),
        (NotHeld, change, 409, "not_held", true, json!({})),
        (WouldDeadlock { cycle: vec![waiter] }, change, 409, "would_deadlock", true, json!({"cycle": cycle})),
        (exists(), write, 409, "node_exists", false, json!({"path": "/a"})),
        (OtherKind { path: path(), kind: "persistent".to_owned() }, write, 409, "node_exists", false, json!({"path": "/a"})),
        (NotEmpty { path: path(), children: 3 }, write, 409, "not_empty", false, json!({"path": "/a"})),
        (EphemeralParent { path: path() }, write, 409, "ephemeral_parent", false, json!({"path": "/a"})),
        (TooManyNodes { max: 5 }, write, 413, "too_large", false, json!({"limit": 5})),
        (JoinToken(JoinTokenFault::Unknown), change, 404, "not_found", false, json!({})),
        (JoinTokensFull { max: 100 }, change, 429, "rate_limited", true, json!({"limit": 100})),
        (JoinsFull { max: 10 }, change, 429, "rate_limited", true, json!({"limit": 10})),
        (NoVoterLeft { node: 2 }, change, 409, "change_in_progress", true, json!({})),
        (NoRoomForName { parent: path() }, write, 400, "bad_request", false, json!({"path": "/a"})),
        (step(Conditions, stale()), write, 412, "stale_token", false, json!({"current_token": null, "failed": failed("if")})),
        (step(Then, exists()), write, 409, "node_exists", false, json!({"path": "/a", "failed": failed("then")})),
        (step(Otherwise, NoSession), write, 404, "session_not_found", false, json!({"failed": failed("else")})),
    ]
}

fn check(error: CallError, kind: RequestKind, status: u16, code: &str, retryable: bool, facts: &serde_json::Value) {
    let shown = format!("{error:?} {kind:?}");
    let (got, retry_after, mut json) = answer(error, kind);
    assert_eq!((got, json["code"].as_str(), json["retryable"].as_bool()), (status, Some(code), Some(retryable)), "{shown}");
    assert_eq!(retry_after.is_some(), retryable && matches!(status, 429 | 503), "{shown}");
    let object = json.as_object_mut().unwrap();
    for name in ["type", "title", "status", "detail", "code", "retryable"] {
        assert!(object.remove(name).is_some(), "{shown}: {name} is missing");
    }
    // The advice is for people; the message does not repeat it.
    if let Some(advice) = object.remove("advice") {
        assert!(advice.as_str().is_some_and(|advice| !advice.is_empty()), "{shown}");
    }
    assert_eq!(json, *facts, "{shown}");
}

#[test]
fn each_refusal_has_its_status_its_code_and_its_facts() {
    for (rejection, kind, status, code, retryable, facts) in cases() {
        check(CallError::Rejected(rejection), kind, status, code, retryable, &facts);
    }
}

#[test]
fn a_caller_can_tell_nothing_happened_from_it_may_have() {
    use serde_json::json;
    let none = json!({"outcome": "none"});
    let unknown = json!({"outcome": "unknown"});
    let unknown_with_key = json!({"outcome": "unknown", "id": key()});
    for (reason, status, code) in [
        (NotProposed::NoLeader, 503, "no_quorum"),
        (NotProposed::Deposed, 503, "no_quorum"),
        (NotProposed::Overloaded, 503, "overloaded"),
        (NotProposed::DiskLow, 503, "disk_low"),
        (NotProposed::ShuttingDown, 503, "shutting_down"),
    ] {
        check(CallError::Propose(reason.into()), acquire(true), status, code, true, &none);
        check(CallError::Read(reason.into()), RequestKind::Read, status, code, true, &none);
    }
    for reason in [UnknownReason::Deadline, UnknownReason::ConnectionLost, UnknownReason::Deposed] {
        let error = || CallError::Propose(reason.into());
        check(error(), acquire(false), 504, "deadline_exceeded", true, &unknown_with_key);
        check(error(), RequestKind::Write { key: key() }, 504, "deadline_exceeded", true, &unknown_with_key);
        check(error(), RequestKind::Change, 504, "deadline_exceeded", true, &unknown);
    }
    check(CallError::Read(ReadError::Deadline), RequestKind::Read, 504, "deadline_exceeded", true, &none);
    check(CallError::Superseded, acquire(true), 504, "deadline_exceeded", true, &unknown_with_key);
    check(CallError::Detached, acquire(true), 503, "shutting_down", true, &unknown_with_key);
    check(CallError::BackupBusy, RequestKind::Read, 429, "backup_busy", true, &none);
    check(CallError::ShuttingDown, acquire(true), 503, "shutting_down", true, &none);
    check(CallError::ShuttingDown, RequestKind::Change, 503, "shutting_down", true, &none);
}

#[test]
fn an_upgrade_that_is_not_finalized_names_every_blocker() {
    use serde_json::json;
    let blocked = || FinalizeError::Blocked(vec!["node 2 does not answer".to_owned(), "node 3 runs 0.1.0".to_owned()]);
    let [one, two, three] = [1, 2, 3].map(ClusterVersion);
    let not_next = FinalizeError::NotNext { to: three, version: one, next: Some(two) };
    check(blocked().into(), RequestKind::Change, 409, "not_all_upgraded", true, &json!({}));
    check(not_next.into(), RequestKind::Change, 400, "bad_request", false, &json!({}));
    let unknown = json!({"outcome": "unknown"});
    check(FinalizeError::NoLeader.into(), RequestKind::Change, 503, "no_quorum", true, &unknown);
    let none = json!({"outcome": "none"});
    for changed in [
        CallError::from(FinalizeError::AccessChanged { revision: Revision(7) }),
        CallError::from(HandoverError::AccessChanged { revision: Revision(7) }),
    ] {
        check(changed, RequestKind::Change, 503, "stale_access", true, &none);
    }
    let body = answer(blocked().into(), RequestKind::Change).2;
    assert_eq!(body["detail"], "not every member supports the next cluster version: node 2 does not answer; node 3 runs 0.1.0");
    assert_eq!(body["advice"], "fairhold cluster upgrade status shows what each member runs");
}

#[test]
fn a_refused_change_of_the_members_has_its_numbers() {
    use MembershipError::*;
    use serde_json::json;
    let (none, unknown) = (json!({"outcome": "none"}), json!({"outcome": "unknown"}));
    let (address, what) = (|| "n2:7271".to_owned(), || "node 5 replaces node 2".to_owned());
    for (error, status, code, retryable, facts) in [
        (NeedsUpgrade { version: ClusterVersion(1) }, 409, "needs_upgrade", false, json!({"cluster_version": 2})),
        (NotMember { node: 9, members: vec![1, 2] }, 404, "not_found", false, json!({})),
        (
            WouldLoseQuorum { voters: 2, healthy: 1, needed: 2 },
            409,
            "would_lose_quorum",
            true,
            json!({"voters": 2, "healthy": 1, "needed": 2}),
        ),
        (LastVoter { node: 1 }, 409, "would_lose_quorum", false, json!({"voters": 0, "healthy": 0, "needed": 1})),
        (ChangeInProgress { what: what() }, 409, "change_in_progress", true, json!({})),
        (WrongNode { address: address(), found: Some(3) }, 409, "wrong_node", false, json!({})),
        (AddressInUse { address: address(), node: 3 }, 409, "wrong_node", false, json!({})),
        (TwoProcesses { node: 2, address: address(), present: "n2:7272".to_owned() }, 409, "wrong_node", false, json!({})),
        (NotAnswering { address: address() }, 409, "not_caught_up", true, json!({})),
        (NotCaughtUp { node: 4, lag: Some(830) }, 409, "not_caught_up", true, json!({})),
        (TooMany { what: "voters".to_owned(), max: 7 }, 429, "rate_limited", false, json!({"limit": 7})),
        (NoLeader, 503, "no_quorum", true, unknown.clone()),
        (Unfinished { what: what() }, 504, "deadline_exceeded", true, unknown),
        (OtherRequest, 422, "idempotency_mismatch", false, none.clone()),
        (TooManyKeys, 429, "rate_limited", true, none),
        (BadRequest("nothing to change".to_owned()), 400, "bad_request", false, json!({})),
    ] {
        check(error.into(), RequestKind::Change, status, code, retryable, &facts);
    }
}

#[test]
fn a_ttl_that_is_too_short_for_the_timing_profile_is_refused() {
    let error = CallError::TtlTooShort { timing: Timing::Wan, ttl: Duration::from_secs(2) };
    check(error.clone(), acquire(true), 400, "bad_request", false, &serde_json::json!({}));
    let detail = answer(error, acquire(true)).2["detail"].clone();
    let text = "the parameter \"ttl\": 2s is too short: with the timing profile wan, the minimum is 6s";
    assert_eq!(detail, text);
}

#[test]
fn a_timing_profile_that_is_too_fast_is_refused_with_the_one_that_suits() {
    let round_trip = Duration::from_millis(140);
    let error = CallError::TimingTooFast { timing: Timing::Lan, round_trip, suits: Timing::Wan };
    check(error.clone(), RequestKind::Change, 409, "timing_too_fast", false, &serde_json::json!({}));
    let body = answer(error, RequestKind::Change).2;
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("up to 140ms") && detail.ends_with("Set wan, or pass force"), "{detail}");
    assert_eq!(body["advice"], "fairhold cluster timing shows the round trips, and the profile that suits them");
}

#[test]
fn a_tenant_over_its_rate_is_told_whose_rate_and_when_to_retry() {
    let facts = serde_json::json!({"tenant": "web", "quota": "requests_per_second", "limit": 5, "outcome": "none"});
    check(CallError::OverRate { tenant: web(), limit: 5 }, RequestKind::Read, 429, "rate_limited", true, &facts);
}

#[test]
fn a_wait_timeout_names_the_holder() {
    use serde_json::json;
    let facts = json!({"holder": {"number": 41, "owner": "ci-7", "since": "1970-01-01T00:01:00.000Z"}});
    // With the caller's own key, the same request would name the ended grant.
    check(
        CallError::WaitTimeout { holder: Some(holder(None)), queue_position: Box::default() },
        acquire(true),
        409,
        "wait_timeout",
        false,
        &facts,
    );
    check(
        CallError::WaitTimeout { holder: None, queue_position: Box::default() },
        acquire(false),
        409,
        "wait_timeout",
        true,
        &json!({}),
    );
    let path = Path::parse("/a").unwrap();
    check(CallError::NoNode { path }, RequestKind::Read, 404, "no_node", false, &json!({"path": "/a"}));
    let left = CallError::NotInQueue { lock: LockName::parse("a").unwrap(), number: GrantNumber(41) };
    check(left, RequestKind::Read, 404, "grant_not_found", false, &json!({}));
}

#[test]
fn the_page_of_errors_has_each_code_with_its_status_and_retryability() {
    let page = "../../docs/errors.md";
    let page = std::fs::read_to_string(page).unwrap();
    let row = |code: &str| page.lines().find(|line| line.starts_with(&format!("| `{code}` |")));
    for code in Code::ALL {
        let (status, _, retryable) = properties_of(*code);
        let row = row(code.as_str()).unwrap_or_else(|| panic!("docs/errors.md has no row for {code}"));
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.len() == 5 && cells[1].split(" or ").any(|one| one == status.as_str()), "{row}");
        let repeat = if retryable { ["yes", "with a new key"] } else { ["no", "no"] };
        assert!(repeat.contains(&cells[2]) && cells[3].len() > 10 && cells[4].len() > 5, "{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.contains("` | ") && !line.starts_with("| `50")).count();
    assert_eq!(rows, Code::ALL.len(), "docs/errors.md has a row for a code that does not exist");
    assert!(row("of_next_year").is_none());
}

#[test]
fn the_advice_for_a_call_in_a_batch_fits_a_batch() {
    let kind = RequestKind::AcquireInBatch { id: key(), now: WallMillis(90_500) };
    let mismatch = Rejection::IdempotencyMismatch { field: "mode".to_owned() };
    let lock_held = || Rejection::LockHeld { holder: holder(None), ahead: 1 };
    let queue_position = Box::default;
    for (error, alone, in_a_batch) in [
        (CallError::Rejected(lock_held()), "pass wait=30s", "set \"queue\" to true"),
        (
            CallError::LockHeld { refused: lock_held(), queue_position: queue_position() },
            "pass wait=30s",
            "set \"queue\" to true",
        ),
        (CallError::Rejected(mismatch), "Idempotency-Key was used", "the same id was used with another mode; use a new id"),
        (CallError::Rejected(Rejection::Forgotten), "use a new key", "use a new id"),
        (
            CallError::Propose(UnknownReason::Deadline.into()),
            "retry with Idempotency-Key",
            "the request may have been carried out; send the call again, with the same id",
        ),
        (CallError::Detached, "with Idempotency-Key", "send the call again at another node, with the same id"),
    ] {
        let detail = |error: CallError, kind| {
            let body = answer(error, kind).2;
            format!("{}; {}", body["detail"].as_str().unwrap(), body["advice"].as_str().unwrap())
        };
        let (of_one, of_batch) = (detail(error.clone(), acquire(true)), detail(error, kind));
        assert!(of_one.contains(alone), "{of_one}");
        assert!(of_batch.contains(in_a_batch), "{of_batch}");
        for word in ["wait=", "key", "Key"] {
            assert!(!of_batch.contains(word), "{of_batch}");
        }
    }
}

#[test]
fn a_refused_write_says_why() {
    let detail = |problem: Problem| {
        let body = fairhold_types::problem::Problem::from(problem);
        match body.advice {
            Some(advice) => format!("{}: {advice}", body.detail),
            None => body.detail.into_owned(),
        }
    };
    let refused = |rejection| problem_of(CallError::Rejected(rejection), RequestKind::Write { key: key() });
    let read_only = |path: &str| detail(refused(Rejection::ReadOnly { path: Path::parse(path).unwrap() }));
    assert!(read_only("/").ends_with("the root always exists"));
    assert!(read_only("/locks/a").ends_with("only the calls for locks change the nodes under /locks"));
    let exists = || refused(Rejection::VersionMismatch { current: Some(3) });
    assert!(detail(exists()).ends_with("write with its current version"));
    assert!(detail(exists().for_new_node()).starts_with("the node already exists"));
    let other = refused(Rejection::NoNode { path: Path::root() });
    assert!(detail(other.for_new_node()).starts_with("there is no node"), "only this refusal is different");
    let children = |children| detail(refused(Rejection::NotEmpty { path: Path::root(), children }));
    assert!(children(1).starts_with("the node / has 1 child: remove what is below it first"), "{}", children(1));
    assert!(children(2).starts_with("the node / has 2 children: "), "{}", children(2));
}

#[test]
fn a_hold_that_begins_in_the_future_of_this_clock_has_lasted_zero() {
    assert_eq!(span(WallMillis(9), WallMillis(7)), "0s");
}
